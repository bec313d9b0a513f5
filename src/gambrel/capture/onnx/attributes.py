"""Attributes and stored tensors of ONNX nodes as plain values."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from gambrel.capture.onnx.edges import DTYPES, Edge, FileRange
from gambrel.capture.onnx.wire import POINTER_KEY
from gambrel.errors import FileFormatError, told
from gambrel.workload import Role

MAX_RANK: Final = 64
_MAX_ELEMENTS: Final = 2**60
_FLOATS: Final = frozenset({1, 10, 11, 14, 15, 16, 17, 18, 19, 20, 23, 27, 28})
#: Names that exporters give to scalars of their own; a parameter keeps the name of its module.
_GENERATED: Final = re.compile(
    r"::|/|^(val|const|constant|scalar|clone|lift|add|sub|mul|div|pow|eps|_)|^[a-zA-Z]?\d+$|_\d+$",
    re.IGNORECASE,
)
#: Results that torch's newer exporter folded, named after the op: masks and tables. Weights among
#: them, transposed, are told by the product that reads them.
_FOLDED: Final = re.compile(
    r"^(val|cos|sin|mul|add|sub|div|pow|exp|neg|cat|stack|clone|expand|unsqueeze|view|slice|where"
    r"|masked_fill|full|zeros|ones|arange|reshape|permute|transpose|index|_to_copy)(_\d+)?$"
)


def attributes(node: Any) -> dict[str, Any]:
    """The attributes of a node: numbers, texts, lists, arrays; graphs stay messages."""
    return {a.name: _attribute(a) for a in node.attribute}


def _attribute(a: Any) -> Any:
    kind = a.type
    if kind == 2:
        return a.i
    if kind == 1:
        return a.f
    if kind == 3:
        return a.s.decode("utf-8", "replace")
    if kind in (6, 7):
        return list(a.floats if kind == 6 else a.ints)
    if kind == 8:
        return [s.decode("utf-8", "replace") for s in a.strings]
    if kind == 4:
        value = array_of(a.t)
        return a.t if value is None else value
    return {5: a.g, 10: list(a.graphs), 9: list(a.tensors), 11: a.sparse_tensor}.get(kind)


def array_of(tensor: Any) -> Any:
    """The elements of a stored tensor; None where they were left out or have no numpy type."""
    if tensor.data_location == 1 or tensor.data_type not in DTYPES:
        return None
    try:
        from onnx import numpy_helper

        found = np.asarray(numpy_helper.to_array(tensor))
    except Exception:  # lengths that contradict the sizes: left out, or damaged
        return None
    return found if found.dtype.kind in "fiub" else None


def stored(tensor: Any, *, constant: bool = False) -> Edge:
    """The edge of a tensor that the file holds.

    Args:
        tensor: An ``onnx.TensorProto``.
        constant: Whether it stands in a Constant node: what is not read as a weight is none.

    Raises:
        FileFormatError: Its sizes are impossible.
    """
    shape = checked_shape(tensor.dims, tensor.name)
    code = tensor.data_type
    # Its data may have been left out: only small ones are looked at.
    value = array_of(tensor) if prod(shape) <= 8192 else None
    role = Role.CONSTANT
    if not constant and code in _FLOATS:
        scalar = prod(shape) == 1 and _GENERATED.search(tensor.name)
        role = Role.CONSTANT if scalar or _FOLDED.search(tensor.name) else Role.WEIGHT
    return Edge(tensor.name, shape, code, value, role, _place(tensor))


def checked_shape(dims: Any, name: str) -> tuple[int, ...]:
    """Sizes that a tensor can have.

    Raises:
        FileFormatError: Too many of them, too large, or below zero.
    """
    if len(dims) > MAX_RANK:
        raise FileFormatError(f"the tensor {told(name)} has {len(dims):,} dimensions; refused.")
    shape = tuple(int(d) for d in dims)
    if any(d < 0 for d in shape) or prod(shape) > _MAX_ELEMENTS:
        raise FileFormatError(f"the tensor {told(name)} has impossible sizes {shape}.")
    return shape


def _place(tensor: Any) -> Any:
    """Tensors that share a range of an external file share their memory."""
    entries = {e.key: e.value for e in tensor.external_data}
    if tensor.data_location == 1:
        if "offset" in entries:
            return (entries.get("location"), entries["offset"], tuple(tensor.dims))
    elif POINTER_KEY in entries:
        begin, _, stop = entries[POINTER_KEY].partition(":")
        return FileRange(int(begin), int(stop))
    return object()


@lru_cache(maxsize=8192)
def module_of(name: str) -> str:
    """``/layer1/layer1.0/conv1/Conv`` → ``layer1.0.conv1``: names of torch's older exporter."""
    if not name.startswith("/"):
        return ""
    path = ""
    for part in name.split("/")[1:-1]:
        extends = path and part.startswith(f"{path.rpartition('.')[2]}.") and "." not in path
        inner = part.rpartition(".")[0]
        if path and inner and (path == inner or path.endswith(f".{inner}")):
            path += part[len(inner) :]
        elif extends:
            path = part
        else:
            path = f"{path}.{part}" if path else part
    return path


def described(node: Any) -> tuple[str, str]:
    """Module path and source line that torch's newer exporter writes beside a node."""
    if not node.metadata_props:
        return module_of(node.name), ""
    from gambrel.capture.files.export_graph import source_line

    notes = {p.key: p.value for p in node.metadata_props}
    scopes = re.findall(r"'([^']*)'", notes.get("pkg.torch.onnx.name_scopes", ""))
    module = scopes[-2] if len(scopes) > 1 else module_of(node.name)
    return module, source_line(notes.get("pkg.torch.onnx.stack_trace", ""))
