"""Normalizations and softmaxes: statistics of rows or channels, then a pass that applies them.

Few long rows leave most of the device idle, because one block works on a row (or on a channel of a
batch norm); the time is then that of one block, a chain of memory round trips. A layer norm pays a
start beside its traffic on GPUs before Hopper, however many rows there are. What a batch norm
applies, it applies element by element.
"""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip, Constants, ceil
from gambrel.analysis.estimate.torchlib.streams import streamed
from gambrel.ops.base import Size, distinct_bytes, holds, minimum, product, where
from gambrel.roofline import maximum

#: A block of layer norm: 128 threads with four values each.
_BLOCK_VALUES: Final = 512
#: Blocks of layer norm that a unit keeps at once, and from how many on none is idle.
_BLOCKS_PER_UNIT: Final = 16
_ENOUGH_PER_UNIT: Final = 64
#: Rows longer than this no compiler keeps in registers and shared memory: they are read again.
_KEPT_ROW_BYTES: Final = 64e3
#: Values of a row up to which a softmax keeps it in the registers of a warp.
LONG_ROW: Final = 1024


def normalization(c: Constants, machine: Chip, task: Task) -> Size:
    """By function: passes over the data, and the limit of one block per row."""
    view = task.view
    x = distinct_bytes(view.inputs[:1])
    elements = view.size("elements", product(view.inputs[0].shape) if view.inputs else 1)
    groups = maximum(view.size("groups", 1), 1)
    function = view.attrs.get("function")
    batch = function == "batch_norm"
    apply = streamed(machine, task.traffic_bytes, c["batch" if batch else "apply"])
    if batch and not view.attrs.get("statistics", True):
        return apply  # element by element, compiled or not
    if task.compiled:
        return _compiled(c, machine, task, x, x / groups)
    if batch:
        statistics = streamed(machine, x, c["statistics"])
        return apply + maximum(statistics, roofline.seconds(x / groups, c["block_byte_per_s"]))
    passes = 1.0 if function == "group_norm" else c["layer_extra"]
    rows = _row_chain(c, machine, elements / groups, groups)
    seconds = maximum(streamed(machine, task.traffic_bytes + passes * x, c["apply"]), rows)
    return seconds if function == "group_norm" else c["start_s"] + seconds


def normalization_backward(c: Constants, machine: Chip, task: Task) -> Size:
    """The gradients of scale and shift need a pass of their own over input and gradient."""
    passes = 2 * distinct_bytes(task.view.inputs[:1])
    batch = task.view.attrs.get("function") == "batch_norm"
    eager = "batch" if batch else "apply"
    apply = streamed(machine, task.traffic_bytes, c["compiled" if task.compiled else eager])
    return apply + streamed(machine, passes, c["statistics" if batch else "apply"])


def _row_chain(c: Constants, machine: Chip, length: Size, rows: Size) -> Size:
    """A block reads its row twice, 512 values per memory round trip."""
    trips = 2 * ceil(length / _BLOCK_VALUES)
    full = minimum(rows, _BLOCKS_PER_UNIT * machine.units)
    idle = rows < _ENOUGH_PER_UNIT * machine.units
    chain = where(idle, trips * c["round_trip_s"] * rows / full, 0.0)
    return maximum(chain, c["row_s"] * rows / machine.units)


def _compiled(c: Constants, machine: Chip, task: Task, x: Size, row_bytes: Size) -> Size:
    """The fused kernel's bytes; a row that does not stay on chip is read a second time."""
    again = where(row_bytes > _KEPT_ROW_BYTES, 1.0, 0.0) * minimum(x, task.traffic_bytes)
    return streamed(machine, task.traffic_bytes + again, c["compiled"])


def softmax(c: Constants, machine: Chip, task: Task) -> Size:
    """Two passes where a row fits on chip, else maximum, sum and result read it one by one."""
    view = task.view
    x = distinct_bytes(view.inputs[:1])
    elements = view.size("elements", product(view.inputs[0].shape) if view.inputs else 1)
    length = elements / maximum(view.size("rows", 1), 1)
    row_bytes = x / maximum(view.size("rows", 1), 1)
    if task.compiled:
        return _compiled(c, machine, task, x, row_bytes)
    shaped = bool(view.inputs) and bool(view.inputs[0].shape)
    inner = shaped and holds(length == view.inputs[0].shape[-1])
    if not inner:
        return streamed(machine, task.traffic_bytes + 2 * x, c["outer"])
    again = where(length > LONG_ROW, c["extra"], 0.0)
    again = where(row_bytes > c["kept_row_bytes"], maximum(again, 2.0), again)
    return streamed(machine, task.traffic_bytes + again * x, c["inner"])
