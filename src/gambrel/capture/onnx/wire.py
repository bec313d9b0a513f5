"""Protobuf messages copied without the data of large tensors, so that weights are never read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from gambrel.errors import FileFormatError
from gambrel.protobuf import Buffer, packed, read_fields

#: Tensors up to this size keep their data: shapes, axes, scales, small tables.
KEPT_BYTES: Final = 8192
#: Nodes, initializers and the like at one level; a model of 100,000 nodes takes seconds.
MAX_FIELDS: Final = 400_000
_MAX_DEPTH: Final = 60

#: Field numbers of a message that lead to tensors → the message there. onnx.proto3 of onnx 1.23.
_Spec: TypeAlias = Mapping[int, str]
_MESSAGES: Final[dict[str, _Spec]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
#: Fields of TensorProto that hold data: float, int32, string, int64, raw, double, uint64.
_DATA: Final = frozenset({4, 5, 6, 7, 9, 10, 11})
#: raw_data; external_data, where a tensor without its data says where they are in the file.
_RAW: Final = 9
_POINTER: Final = 13
POINTER_KEY: Final = "bytes of this file"
#: Documentation of model, graph, node and function; training information of the model.
_DROPPED: Final[dict[str, frozenset[int]]] = {
    "model": frozenset({6, 20}),
    "graph": frozenset({10}),
    "function": frozenset({8}),
}


def without_data(data: Buffer, start: int = 0, end: int | None = None) -> bytes:
    """A ModelProto without the data of its large tensors.

    Args:
        data: The file, as bytes or mapped.
        start: Where the model begins.
        end: Where it ends.

    Raises:
        FileFormatError: The bytes are no sequence of protobuf fields, or too many.
    """
    stop = len(data) if end is None else end
    return b"".join(_stripped(data, start, stop, "model", 0))


def _stripped(data: Buffer, start: int, end: int, message: str, depth: int) -> list[bytes]:
    if depth > _MAX_DEPTH:
        raise FileFormatError(f"graphs nested more than {_MAX_DEPTH} deep; refused.")
    inner, dropped = _MESSAGES[message], _DROPPED.get(message, frozenset())
    parts: list[bytes] = []
    copied = start
    for count, (number, wire, head, begin, stop) in enumerate(read_fields(data, start, end)):
        if count >= MAX_FIELDS:
            raise FileFormatError(
                f"more than {MAX_FIELDS:,} nodes or tensors in one graph; refused."
            )
        small = stop - begin <= KEPT_BYTES
        if message == "tensor" and number in _DATA:
            keep = small and stop - start <= 2 * KEPT_BYTES
        else:
            keep = number not in dropped
        nested = inner.get(number) if wire == 2 and not small else None
        if keep and nested is None:
            continue
        parts.append(data[copied:head])
        copied = stop
        if message == "tensor" and number == _RAW:
            entry = packed(1, POINTER_KEY.encode()) + packed(2, f"{begin}:{stop}".encode())
            parts.append(packed(_POINTER, entry))
        if keep and nested is not None:
            body = b"".join(_stripped(data, begin, stop, nested, depth + 1))
            parts.append(packed(number, body))
    parts.append(data[copied:end])
    return parts
