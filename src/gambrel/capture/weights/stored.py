"""One tensor as a file stores it."""

from __future__ import annotations

from math import prod

import msgspec


class StoredTensor(msgspec.Struct, frozen=True, kw_only=True):
    """What the header of a file says of a tensor.

    Attributes:
        name: As in the file, e.g. ``"blk.0.attn_q.weight"``.
        shape: Sizes, the slowest dimension first (as frameworks write them).
        dtype: Number format as the file names it, lower case: ``"q4_k"``, ``"bf16"``.
        nbytes: Bytes in the file, block scales included.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    @property
    def elements(self) -> int:
        """Number of values."""
        return prod(self.shape)

    @property
    def bits(self) -> float:
        """Bits that one value takes, block scales included; 0 for an empty tensor."""
        return self.nbytes * 8 / self.elements if self.elements else 0.0
