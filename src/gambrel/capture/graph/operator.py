"""An operator of a file with its tensors, as translations see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gambrel.capture.onnx.edges import Edge


@dataclass(slots=True)
class FileOperator:
    """An operator of the file with its tensors and options.

    Attributes:
        op: Its kind, as the format names it.
        inputs: Tensors by position; of a format that names them, the operands.
        outputs: What it makes.
        attrs: Options.
        named: Tensors by the names of the parameters, where the format has names; lists too.
    """

    op: str
    inputs: list[Edge | None]
    outputs: list[Edge | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    named: dict[str, list[Edge]] = field(default_factory=dict)

    def x(self, key: int | str = 0) -> Edge:
        """An input that must be there.

        Raises:
            ValueError: It is not.
        """
        edge = self.maybe(key)
        if edge is None:
            raise ValueError(f"{self.op} lacks its input {key}")
        return edge

    def maybe(self, key: int | str) -> Edge | None:
        """An input that may be left out."""
        if isinstance(key, str):
            return next(iter(self.named.get(key, ())), None)
        return self.inputs[key] if key < len(self.inputs) else None

    def shape(self, key: int | str = 0) -> tuple[int, ...]:
        """The sizes of an input."""
        return self.x(key).shape or ()

    def integers(self, key: int | str) -> list[int]:
        """Whole numbers that an input holds; none where they are not known."""
        edge = self.maybe(key)
        value = None if edge is None else edge.value
        return [] if value is None else [int(v) for v in value.reshape(-1)]

    def integer(self, key: int | str, default: int) -> int:
        """One whole number that an input holds."""
        return next(iter(self.integers(key)), default)

    @property
    def every_input(self) -> list[Edge | None]:
        """All inputs, those that are named first."""
        return [e for edges in self.named.values() for e in edges] or self.inputs

    @property
    def out(self) -> Edge:
        """The first output.

        Raises:
            ValueError: There is none.
        """
        edge = self.outputs[0] if self.outputs else None
        if edge is None:
            raise ValueError(f"{self.op} has no output")
        return edge
