"""Overlap of the inputs of neighbouring outputs of a convolution."""

from __future__ import annotations

from msgspec import Struct


class Window(Struct, frozen=True, kw_only=True):
    """How far a tile of outputs reaches into the input.

    Attributes:
        outputs: Output positions of one image, along each dimension.
        kernel: Taps along each dimension.
        stride: Input positions per output position, along each dimension.
    """

    outputs: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[float, ...]

    def read_bytes(self, rows: int, input_bytes: int) -> float:
        """Bytes of the input that one pass of tiles of ``rows`` outputs reads.

        A tile of e outputs along a dimension spans (e - 1)·stride + kernel inputs there: what
        neighbouring tiles share is read twice. Tiles are taken as cubes of whole images' parts,
        as near to equal sides as the image allows.

        Returns:
            At least ``input_bytes``, at most one reading of every tap of every output.
        """
        sides = self._sides(rows)
        share = 1.0
        for side, size, taps, stride in zip(
            sides, self.outputs, self.kernel, self.stride, strict=True
        ):
            if side >= size:
                continue
            whole = (size - 1) * stride + taps
            tile = min((side - 1) * stride + taps, whole)
            share *= max(1.0, (size / side) * tile / whole)
        return input_bytes * share

    def _sides(self, rows: int) -> list[float]:
        """Sides of the tile, the shortest dimension of the image first filled."""
        left, sides = float(rows), dict.fromkeys(range(len(self.outputs)), 1.0)
        order = sorted(sides, key=lambda i: self.outputs[i])
        for position, i in enumerate(order):
            even = left ** (1 / (len(order) - position))
            sides[i] = max(1.0, min(float(self.outputs[i]), even))
            left = max(1.0, left / sides[i])
        return [sides[i] for i in range(len(self.outputs))]
