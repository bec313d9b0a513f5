"""An operator of a file with its tensors, as translations see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gambrel.capture.onnx.edges import Edge


@dataclass(slots=True)
class FileOperator:
    """An operator of the file with its tensors and options."""

    op: str
    inputs: list[Edge | None]
    outputs: list[Edge | None]
    attrs: dict[str, Any] = field(default_factory=dict)

    def x(self, index: int = 0) -> Edge:
        """An input that must be there.

        Raises:
            ValueError: It is not.
        """
        edge = self.maybe(index)
        if edge is None:
            raise ValueError(f"{self.op} lacks its input {index}")
        return edge

    def maybe(self, index: int) -> Edge | None:
        """An input that may be left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The sizes of an input."""
        return self.x(index).shape or ()

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
