"""What flows in a graph at given sizes, and the steps that make it: the records of all stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from gambrel.workload import Phase, Role

#: onnx.TensorProto.DataType → names of gambrel.dtypes; strings have no width.
DTYPES: Final[dict[int, str]] = {
    1: "fp32",
    2: "uint8",
    3: "int8",
    4: "int16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "fp16",
    11: "fp64",
    12: "int32",
    13: "int64",
    14: "complex64",
    15: "complex128",
    16: "bf16",
    17: "fp8",
    18: "fp8",
    19: "fp8",
    20: "fp8",
    21: "int4",
    22: "int4",
    23: "fp4",
    24: "fp8",
    25: "int2",
    26: "int2",
    27: "fp6",
    28: "fp6",
}


@dataclass(frozen=True, slots=True)
class FileRange:
    """Where the data of a stored tensor lie.

    Attributes:
        begin: First byte.
        end: Byte behind them.
    """

    begin: int
    end: int


@dataclass(slots=True, eq=False)
class Edge:
    """A tensor, or a sequence of tensors, at given sizes.

    Attributes:
        name: In its graph.
        shape: Sizes; None where unknown.
        code: onnx.TensorProto.DataType; 0 where unknown.
        value: Its elements, where they are known and few.
        role: What it is to the model.
        place: Identity of the stored data, for tensors that share them.
        members: Of a sequence; None for a tensor.
        generated: Whether the kernel that reads it makes it itself: nothing is read.
    """

    name: str
    shape: tuple[int, ...] | None = None
    code: int = 0
    value: Any = None
    role: Role = Role.ACTIVATION
    place: Any = None
    members: list[Edge] | None = None
    generated: bool = False

    @property
    def dtype(self) -> str:
        """A name of `gambrel.dtypes`; empty where unknown or text."""
        return DTYPES.get(self.code, "")

    @property
    def numel(self) -> int:
        """Elements, of a known shape."""
        return prod(self.shape or ())

    @property
    def is_known(self) -> bool:
        """Whether it is a tensor of known form."""
        return self.shape is not None and self.code in DTYPES

    @property
    def is_stored(self) -> bool:
        """Whether the file holds it."""
        return self.place is not None

    @property
    def scalar(self) -> float | None:
        """Its one value, if it has one and that is known."""
        if self.value is None or self.value.size != 1:
            return None
        return float(self.value.reshape(-1)[0])


def valueless(edge: Edge | None) -> Edge | None:
    """An edge whose value is not known, because another trip or branch could have made another."""
    if edge is None or edge.value is None:
        return edge
    return Edge(edge.name, edge.shape, edge.code, None, edge.role, edge.place)


@dataclass(slots=True, eq=False)
class Step:
    """One node at given sizes.

    Attributes:
        op: Its operator; of another domain than ONNX's own ``"domain::Operator"``.
        inputs: None where an optional one is left out.
        outputs: None where one is not asked for.
        attrs: Of the node.
        name: Of the node.
        version: Of the operator set.
        module: Path of the module that it belongs to, where the exporter says so.
        source: ``file.py:line``, likewise.
        repeat: How often it runs.
        label: What reports call it; by default its operator in the family of the trace.
        phase: Forward, or backward where a program says so.
    """

    op: str
    inputs: list[Edge | None]
    outputs: list[Edge | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    version: int = 0
    module: str = ""
    source: str = ""
    repeat: int = 1
    label: str = ""
    phase: Phase = Phase.FORWARD

    def input(self, index: int) -> Edge | None:
        """An input; None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def x(self, index: int = 0) -> Edge:
        """An input that must be there.

        Raises:
            ValueError: It is not.
        """
        found = self.input(index)
        if found is None:
            raise ValueError(f"{self.op} {self.name!r} lacks its input {index}")
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        """What its file calls it: the node, and the tensors that it writes."""
        names = (self.name, *(edge.name for edge in self.outputs if edge is not None))
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def out(self) -> Edge:
        """The first output that is asked for.

        Raises:
            ValueError: There is none.
        """
        for edge in self.outputs:
            if edge is not None:
                return edge
        raise ValueError(f"{self.op} {self.name!r} has no output")


@dataclass(slots=True, eq=False)
class Trace:
    """All steps of a model at given sizes, in order.

    Attributes:
        steps: What runs.
        inputs: Of the model.
        outputs: Of the model.
        stored: Tensors in the file, read or not.
        notes: What had to be assumed.
        family: Name of the format, before the operators in reports.
        carried: Of loops, what a trip begins with and what it hands to the next one.
        read_stored: Reads a tensor of the file that was left there, for the few whose values say
            what has to be computed; None where that is not possible.
    """

    steps: list[Step] = field(default_factory=list)
    inputs: list[Edge] = field(default_factory=list)
    outputs: list[Edge] = field(default_factory=list)
    stored: list[Edge] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    family: str = "onnx"
    carried: list[tuple[Edge, Edge]] = field(default_factory=list)
    read_stored: Callable[[Edge], Any] | None = None
