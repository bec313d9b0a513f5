"""Collectives: what each device hands to the others.

How many devices take part stands in the call for some ops; for the others the front end adds a
keyword argument ``group_size``. Without it the op stays unmodelled rather than guessed.
"""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described, TensorArg, flatten
from gambrel.capture.aten.registry import rule
from gambrel.dtypes import width_bytes

_FUNCTIONS: Final[dict[str, str]] = {
    "all_reduce": "_c10d_functional.all_reduce c10d.allreduce c10d.allreduce_coalesced"
    " _c10d_functional.all_reduce_coalesced",
    "all_gather": "_c10d_functional.all_gather_into_tensor c10d.allgather c10d._allgather_base"
    " _c10d_functional.all_gather_into_tensor_coalesced",
    "reduce_scatter": "_c10d_functional.reduce_scatter_tensor c10d.reduce_scatter"
    " c10d._reduce_scatter_base _c10d_functional.reduce_scatter_tensor_coalesced",
    "all_to_all": "_c10d_functional.all_to_all_single c10d.alltoall c10d.alltoall_base",
    "broadcast": "_c10d_functional.broadcast c10d.broadcast",
    "send": "c10d.send c10d.recv",
}
_FUNCTION_OF: Final = {op: f for f, names in _FUNCTIONS.items() for op in names.split()}
#: Where the call itself says how many devices there are.
_SIZE_AT: Final[dict[str, int]] = {
    "_c10d_functional.all_gather_into_tensor": 1,
    "_c10d_functional.all_gather_into_tensor_coalesced": 1,
    "_c10d_functional.reduce_scatter_tensor": 2,
    "_c10d_functional.reduce_scatter_tensor_coalesced": 2,
}


def collective(call: Call) -> Described:
    """The payload is the whole vector: what is gathered, reduced or sent around."""
    plain = call.op.rstrip("_")
    function = _FUNCTION_OF[plain]
    devices = call.kwargs.get("group_size")
    if plain in _SIZE_AT:
        devices = call.arg(_SIZE_AT[plain], "group_size")
    if not isinstance(devices, int) or isinstance(devices, bool):
        raise ValueError("the number of devices is not known")
    read, written = _ends(call, function)
    whole = written if function == "all_gather" else read
    payload = sum(-int(-t.numel * width_bytes(t.dtype) // 1) for t in whole)
    sizes = {"payload_bytes": payload, "devices": devices}
    attrs = {"function": function}
    return call.described("collective", sizes, attrs, inputs=read, outputs=written)


def _ends(call: Call, function: str) -> tuple[list[TensorArg], list[TensorArg]]:
    """Tensors read and tensors written; ops of c10d take what they write first."""
    first = [*flatten(call.args[0])]
    if call.op.startswith("_c10d_functional."):
        return first, list(call.outputs)
    if function in ("all_gather", "reduce_scatter", "all_to_all"):
        return [*flatten(call.args[1])], first
    return first, first


@rule("_c10d_functional.wait_tensor", "c10d.barrier", "c10d.monitored_barrier")
def wait(call: Call) -> Described:
    """Waits for an exchange; moves nothing itself."""
    return call.described("sync")


for _op in _FUNCTION_OF:
    rule(_op)(collective)
