"""Look-ups, updates, random numbers, what goes between devices."""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.dtypes import width_bytes
from gambrel.workload import Attributes, Role, Sizes

#: Collective of XLA → neutral function.
_COLLECTIVES: Final[dict[str, str]] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "ragged_all_to_all": "all_to_all",
    "collective_permute": "send",
    "collective_broadcast": "broadcast",
}


@lowers("xla::gather")
def gather(op: NodeOperands) -> Lowered:
    """table, indices: rows of a matrix of weights are an embedding, as torch has it."""
    table, indices, out = op.x(0), op.optional(1), op.out
    row = tuple(int(n) for n in op.attr("slice_sizes") or ())
    inputs = (table, indices)
    is_table = op.step.x().role is Role.WEIGHT and len(table.shape) == 2
    if is_table and row == (1, table.shape[1]):
        rows = out.numel // max(table.shape[1], 1)
        sizes: Sizes = {"rows": rows, "width": table.shape[1], "table_rows": table.shape[0]}
        return op.described("embedding", sizes, {"mode": "gather"}, inputs=inputs)
    return op.described("gather", {"elements": out.numel}, inputs=inputs)


@lowers("xla::scatter")
def scatter(op: NodeOperands) -> Lowered:
    """target, indices, updates: into zeros only what is scattered counts as read."""
    updates = op.x(2)
    target = op.optional(0)
    fresh = op.step.x(0).generated
    attrs: Attributes = {"accumulate": bool(op.attr("accumulate")), "in_place": False}
    inputs = (op.optional(1), updates, None if fresh else target)
    return op.described("scatter", {"elements": updates.numel}, attrs, inputs=inputs)


@lowers("xla::dynamic_update_slice")
def update(op: NodeOperands) -> Lowered:
    """target, update, places: written into the target, the rest left alone (XLA aliases them)."""
    source = op.x(1)
    attrs: Attributes = {"accumulate": False, "in_place": True}
    return op.described("scatter", {"elements": source.numel}, attrs, inputs=(source,))


@lowers("xla::rng")
def random(op: NodeOperands) -> Lowered:
    """Bits of a counter-based generator, or numbers of a distribution."""
    function = str(op.attr("function", "integers"))
    sizes: Sizes = {"elements": op.out.numel}
    return op.described("random", sizes, {"function": function}, inputs=())


def collective(op: NodeOperands) -> Lowered:
    """The payload is the whole vector: what is gathered, reduced or sent around."""
    function = _COLLECTIVES[op.step.op.removeprefix("xla::")]
    devices = op.attr("devices")
    if not isinstance(devices, int):
        raise ValueError("the number of devices is not known")
    read, written = op.read, op.results
    whole = written if function == "all_gather" else read
    payload = sum(-int(-t.numel * width_bytes(t.dtype) // 1) for t in whole)
    sizes: Sizes = {"payload_bytes": payload, "devices": devices}
    return op.described("collective", sizes, {"function": function})


for _op in _COLLECTIVES:
    lowers(f"xla::{_op}")(collective)


@lowers("xla::handed on")
def handed_on(op: NodeOperands) -> Lowered:
    """What a trip of a loop hands to the next one is needed, whoever else reads it."""
    return op.described("sync", outputs=())
