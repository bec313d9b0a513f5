"""The tensors of a file by what they are, handed out to the weights of a workload."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from gambrel.capture.weights.stored import StoredTensor
from gambrel.units import format_si
from gambrel.workload import Tensor

#: Number formats, with elements, of the tensors that together are one weight, e.g. gate and up.
Formats: TypeAlias = tuple[tuple[str, int], ...]


class WeightPool(ABC):
    """Tensors that weights of a workload take in the order of their layers.

    Args:
        tensors: All.

    Attributes:
        used: Names that a weight was matched with.
        unknown: Weights of the workload that the file does not show.
    """

    def __init__(self, tensors: Sequence[StoredTensor]) -> None:
        self.tensors = tensors
        self.used: set[str] = set()
        self.unknown: list[str] = []
        self._next: Counter[str] = Counter()

    @abstractmethod
    def match(self, weight: Tensor) -> tuple[str, Callable[[int], Formats]] | None:
        """What holds a weight: its key, and its formats in the n-th layer; None where nothing."""

    def plan(self, weight: Tensor) -> list[tuple[Formats, int]]:
        """(formats, sets of weights) for a weight that stands for ``copies`` layers.

        Layers in order: each weight of the workload takes those after the one before it.
        """
        counted: Counter[Formats] = Counter()
        found = self.match(weight)
        if found is not None:
            key, formats_of = found
            start = self._next[key]
            self._next[key] += weight.copies
            counted.update(formats_of(n) for n in range(start, start + weight.copies))
        if not counted or () in counted:
            self.unknown.append(weight.name)
            return []
        return list(counted.items())

    def remarks(self, what: str, kept: str, converted: str = "") -> list[str]:
        """How many of the bytes the step holds, and in which formats.

        Args:
            what: ``"file"`` or ``"checkpoint"``.
            kept: The format of weights that it does not show.
            converted: What happens to narrow weights.
        """
        by_format: Counter[str] = Counter()
        for tensor in self.tensors:
            by_format[tensor.dtype] += tensor.nbytes
        listed = ", ".join(f"{name} {format_si(n, 'B')}" for name, n in by_format.most_common(6))
        remarks = [f"weights as the {what} stores them ({listed}){converted}."]
        idle = [t for t in self.tensors if t.name not in self.used]
        if idle:
            size = format_si(sum(t.nbytes for t in idle), "B")
            remarks.append(
                f"{len(idle)} tensors of the {what} ({size}, e.g. {idle[0].name[:80]}) are not "
                "read by this step."
            )
        if self.unknown:
            remarks.append(
                f"{len(self.unknown)} weights are not found in the {what} and keep {kept}, e.g. "
                f"{self.unknown[0]}."
            )
        return remarks


def elements_of(tensor: Tensor) -> int:
    """Of a tensor whose sizes are numbers."""
    return math.prod(int(size) for size in tensor.shape)


def module_of(path: str) -> tuple[bool, str, str]:
    """Whether a weight is in a layer, the module within it, and the leaf (weight or bias)."""
    before, star, after = path.partition(".*.")
    module, _, leaf = (after if star else before).rpartition(".")
    return bool(star), module, leaf
