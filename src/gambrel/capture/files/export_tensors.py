"""The tensors of an exported program: their forms, the memory behind them, its versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, TypeAlias

from gambrel.capture.aten import TensorArg
from gambrel.capture.files.sizes import evaluate_size
from gambrel.errors import FileFormatError
from gambrel.workload import Op, Role, Tensor, Workload
from gambrel.workload.parameters import distinct_elements, main_dtype

#: torch._export.serde.schema.ScalarType → names of gambrel.dtypes.
DTYPES: Final[dict[int, str]] = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "fp16",
    7: "fp32",
    8: "fp64",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bf16",
    28: "int16",
    29: "fp8",
    30: "fp8",
    31: "fp8",
    32: "fp8",
    33: "fp8",
    34: "int32",
    35: "int64",
}

_Key: TypeAlias = tuple[int, int, int, tuple[int, ...], tuple[int, ...] | None, str]


@dataclass(slots=True, eq=False)
class TensorStorage:
    """One storage.

    Attributes:
        id: Its number in the workload; -1 until an op touches it.
        role: What it is to the model.
        name: Parameter, buffer or argument name.
        version: How often it was written.
        copies: How many like it there are, of which each execution of an op reads its own.
    """

    id: int = -1
    role: Role = Role.ACTIVATION
    name: str = ""
    version: int = 0
    copies: int = 1


@dataclass(slots=True, eq=False)
class GraphValue:
    """A named value of a graph: its form, where in which memory it lies."""

    arg: TensorArg
    offset: int
    memory: TensorStorage


@dataclass(slots=True)
class Tensors:
    """All tensors of a program, shared by its graph and the graphs within.

    Attributes:
        sizes: A value for each symbol of the program.
        values: Every value; the id of its `TensorArg` is its place here.
    """

    sizes: Mapping[str, int]
    values: list[GraphValue] = field(default_factory=list)
    _entries: dict[_Key, int] = field(default_factory=dict)
    _owners: list[TensorStorage] = field(default_factory=list)
    _storages: int = 0

    def create(self, meta: Mapping[str, Any], names: Mapping[str, Any]) -> GraphValue:
        """A value in new memory, from the file's description of a tensor.

        Args:
            meta: Number format, sizes, strides, offset.
            names: The graph's named sizes.
        """
        code = meta.get("dtype")
        if code not in DTYPES:
            raise FileFormatError(f"a tensor of an unknown number format ({code!r}).")
        shape = tuple(self.size(s, names) for s in meta["sizes"])
        strides = tuple(self.size(s, names) for s in meta.get("strides") or ())
        known = strides if len(strides) == len(shape) else None
        arg = TensorArg(len(self.values), shape, DTYPES[code], known)
        offset = self.size(meta.get("storage_offset") or {"as_int": 0}, names)
        value = GraphValue(arg, offset, TensorStorage())
        self.values.append(value)
        return value

    def workload(
        self, name: str, ops: Sequence[Op], outputs: Sequence[GraphValue], origin: str
    ) -> Workload:
        """The finished workload.

        Args:
            name: Of the model.
            ops: In order.
            outputs: What the model returns.
            origin: Where it comes from.
        """
        for value in outputs:
            if value.memory.role is Role.ACTIVATION:
                value.memory.role = Role.OUTPUT
        indices = tuple(map(self.entry, outputs))
        tensors = self.tensors()
        return Workload(
            name=name,
            dtype=main_dtype(tensors),
            tensors=tensors,
            ops=tuple(ops),
            outputs=indices,
            origin=origin,
        )

    def temporary(self, shape: tuple[int, ...], dtype: str) -> GraphValue:
        """A contiguous value that the file does not name."""
        strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
        value = GraphValue(TensorArg(len(self.values), shape, dtype, strides), 0, TensorStorage())
        self.values.append(value)
        return value

    def size(self, entry: Mapping[str, Any], names: Mapping[str, Any]) -> int:
        """A size as the file writes it: a number, a name, or an expression.

        Raises:
            FileFormatError: It is none of these, or negative.
        """
        if "as_int" in entry:
            found = int(entry["as_int"])
        elif "as_name" in entry:
            named = names.get(entry["as_name"])
            if named is None or "as_name" in named:
                raise FileFormatError(f"the size {entry['as_name']!r} is not defined.")
            return self.size(named, names)
        else:
            found = evaluate_size(str(entry["as_expr"]["expr_str"]), self.sizes)
        return found

    def of(self, arg: TensorArg) -> GraphValue:
        """The value that an argument stands for."""
        return self.values[arg.id]

    def entry(self, value: GraphValue) -> int:
        """The index of the workload's tensor for a value in its present version."""
        memory, arg = value.memory, value.arg
        if memory.id < 0:
            memory.id = self._storages
            self._storages += 1
        key = (memory.id, memory.version, value.offset, arg.shape, arg.strides, arg.dtype)
        if key not in self._entries:
            self._entries[key] = len(self._owners)
            self._owners.append(memory)
        return self._entries[key]

    def tensors(self) -> tuple[Tensor, ...]:
        """All entries, in the order of their indices."""
        return tuple(map(_tensor, self._entries, self._owners))


def _tensor(key: _Key, owner: TensorStorage) -> Tensor:
    storage, version, offset, shape, strides, dtype = key
    distinct = prod(shape) if strides is None else distinct_elements(shape, strides)
    return Tensor(
        shape=shape,
        dtype=dtype,
        storage=storage,
        offset=offset,
        elements=None if distinct == prod(shape) else distinct,
        version=version,
        role=owner.role,
        name=owner.name,
        copies=owner.copies,
    )
