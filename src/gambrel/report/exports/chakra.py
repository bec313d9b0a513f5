"""The run as a Chakra execution trace (.et): protobuf messages, each behind its length.

Schema: ``ChakraProtoMsg`` of mlcommons/chakra, schema/protobuf/et_def.proto at commit 6dc63e1
(seen 2026-11-22): a GlobalMetadata, then a Node for each op. Durations are predictions.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.protobuf import packed, varint
from gambrel.report.exports.schedule import PlannedOp, schedule, workload_of

_VERSION: Final = "0.0.4"
_COMPUTE, _COLLECTIVE = 4, 7
#: Field numbers of Node and of AttributeProto.
_ID, _NAME, _TYPE, _DATA_DEPS, _START = 1, 2, 3, 5, 6
_DURATION, _INPUTS, _OUTPUTS, _ATTR = 7, 8, 9, 10
_DOUBLE, _INT64, _UINT64, _BOOL, _STRING = 3, 9, 13, 27, 29
#: Algorithm of `gambrel.ops.collective` → ChakraProtoMsg.CollectiveCommType.
_COLLECTIVES: Final = {
    "all_reduce": 0,
    "reduce": 1,
    "all_gather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "all_to_all": 6,
    "reduce_scatter": 7,
}


def execution_trace(analysis: Analysis) -> bytes:
    """The file."""
    tensors = workload_of(analysis).tensors
    made_by: dict[int, int] = {}
    messages = [_text(1, _VERSION) + _attribute("model", _STRING, analysis.model.name, 2)]
    for number, placed in enumerate(schedule(analysis).ops):
        storages = [tensors[i].storage for i in placed.op.inputs]
        needed = sorted({made_by[s] for s in storages if s in made_by})
        messages.append(_node(number, placed, needed))
        made_by.update((tensors[i].storage, number) for i in placed.op.outputs)
    return b"".join(varint(len(m)) + m for m in messages)


def _node(number: int, placed: PlannedOp, needed: list[int]) -> bytes:
    row, m = placed.row, placed.row.measures
    start, end = round(placed.start_s * 1e6), round(placed.end_s * 1e6)
    kind = _COLLECTIVE if row.kind == "collective" else _COMPUTE
    parts = [
        _number(_ID, number),
        _text(_NAME, row.name),
        _number(_TYPE, kind),
        _numbers(_DATA_DEPS, needed),
        _number(_START, start),
        _number(_DURATION, end - start),
        _form(_INPUTS, row.shapes.partition("->")[0]),
        _form(_OUTPUTS, row.shapes.partition("->")[2]),
        _attribute("is_cpu_op", _BOOL, False),
        _attribute("num_ops", _INT64, m.matrix_flops + m.vector_flops),
        _attribute("tensor_size", _UINT64, m.traffic_bytes),
        _attribute("op_kind", _STRING, row.kind),
        _attribute("executions", _INT64, row.count),
        _attribute("time_is_known", _BOOL, placed.is_timed),
        _attribute("predicted_time_s", _DOUBLE, placed.end_s - placed.start_s),
    ]
    if kind == _COLLECTIVE:
        name = str(placed.op.attrs.get("function", ""))
        if name in _COLLECTIVES:
            parts.append(_attribute("comm_type", _INT64, _COLLECTIVES[name]))
        parts.append(_attribute("comm_size", _INT64, m.link_bytes))
    return b"".join(parts)


def _form(field: int, shapes: str) -> bytes:
    """An IOInfo: values, shapes and types as JSON texts."""
    sizes = [[int(n) for n in s.split("x") if n.isdigit()] for s in shapes.split(",") if s.strip()]
    return packed(field, _text(2, msgspec.json.encode(sizes).decode()))


def _attribute(name: str, kind: int, value: float | str, field: int = _ATTR) -> bytes:
    """An AttributeProto."""
    if kind == _STRING:
        body = _text(kind, str(value))
    elif kind == _DOUBLE:
        body = varint(kind << 3 | 1) + struct.pack("<d", value)
    else:
        body = varint(kind << 3) + varint(int(value))
    return packed(field, _text(1, name) + body)


def _numbers(field: int, values: list[int]) -> bytes:
    return packed(field, b"".join(map(varint, values))) if values else b""


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _text(field: int, value: str) -> bytes:
    return packed(field, value.encode())
