"""An operation of an ML program with its arguments by name."""

from __future__ import annotations

from dataclasses import dataclass, field

from gambrel.capture.onnx.edges import Edge


@dataclass(slots=True)
class MilOperation:
    """An operation.

    Attributes:
        kind: Its type, e.g. ``"conv"``.
        arguments: Tensors by the names of the parameters; lists of tensors too.
        texts: Arguments and attributes that are texts.
        outputs: What it makes.
    """

    kind: str
    arguments: dict[str, list[Edge]]
    texts: dict[str, str]
    outputs: list[Edge | None] = field(default_factory=list)

    def x(self, name: str = "x") -> Edge:
        """An argument that must be there.

        Raises:
            ValueError: It is not.
        """
        found = self.maybe(name)
        if found is None:
            raise ValueError(f"{self.kind} lacks its argument {name}")
        return found

    def maybe(self, name: str) -> Edge | None:
        """An argument that may be left out."""
        found = self.arguments.get(name)
        return found[0] if found else None

    def integers(self, name: str) -> list[int]:
        """Whole numbers; none where they are not known."""
        edge = self.maybe(name)
        value = None if edge is None else edge.value
        return [] if value is None else [int(v) for v in value.reshape(-1)]

    def integer(self, name: str, default: int) -> int:
        """One whole number."""
        return next(iter(self.integers(name)), default)

    @property
    def out(self) -> Edge:
        """The first output.

        Raises:
            ValueError: There is none of known form.
        """
        edge = self.outputs[0] if self.outputs else None
        if edge is None:
            raise ValueError(f"{self.kind} has no output")
        return edge
