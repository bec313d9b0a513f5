"""Kernels that move data: element-wise chains, reductions, scans, copies.

A pass over data takes its bytes over a share of the data-sheet bandwidth; which share depends on
how the kernel walks through memory, not on the sizes. Several ops of eager PyTorch are more passes
than their inputs and outputs say, because they are made of several kernels.
"""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip, Constants
from gambrel.ops import OpView
from gambrel.ops.base import Size, distinct_bytes, holds, product
from gambrel.roofline import maximum

#: Reductions that also carry the index of what they chose.
_INDEXED: Final = frozenset({"argmin", "argmax", "min", "max"})
#: logsumexp: maximum (1), difference (2), exponential in place (2), sum (1).
_LOGSUMEXP_PASSES: Final = 6
#: A loss with reduction reads both inputs, writes the element losses and reads them again; the
#: compulsory traffic holds the first two.
_LOSS_EXTRA: Final = 2
#: Lane cycles of a power with a variable exponent, by the name of its constant.
_POWERS: Final = frozenset({"pow"})


def streamed(machine: Chip, nbytes: Size, share: float) -> Size:
    """Seconds of a pass over memory at a share of its bandwidth."""
    return roofline.seconds(nbytes, share * machine.byte_per_s)


def computed(machine: Chip, lane_cycles: Size) -> Size:
    """Seconds of work that keeps the vector lanes busy: one FMA per lane and cycle."""
    if not machine.vector_flop_per_s:
        return 0.0
    return roofline.seconds(2 * lane_cycles, machine.vector_flop_per_s)


def elementwise(c: Constants, machine: Chip, task: Task) -> Size:
    """Inputs once and outputs once; operands that are broadcast cost address arithmetic.

    Eager ``masked_fill`` copies its input and then fills the copy in place: a pass more.
    """
    view = task.view
    share = c["broadcast"] if _broadcasts(view) else c["same"]
    if task.compiled:
        share = c["compiled"]
    seconds = streamed(machine, task.traffic_bytes, share)
    if view.attrs.get("function") == "masked_fill" and not (task.compiled or _in_place(view)):
        seconds = seconds + streamed(machine, 2 * distinct_bytes(view.outputs[:1]), c["same"])
    if view.attrs.get("function") in _POWERS:
        elements = product(view.outputs[0].shape) if view.outputs else view.size("elements", 1)
        seconds = maximum(seconds, computed(machine, c["pow_cycles"] * elements))
    return maximum(seconds, computed(machine, task.vector_flops / 2))


def _in_place(view: OpView) -> bool:
    """Whether the result is written over an operand."""
    return not {t.storage for t in view.outputs}.isdisjoint(t.storage for t in view.inputs)


def _broadcasts(view: OpView) -> bool:
    """Whether an operand of several elements has another shape than the result."""
    if not view.outputs:
        return False
    shape = view.outputs[0].shape
    return any(t.shape and _differs(t.shape, shape) for t in view.inputs)


def _differs(given: tuple[Size, ...], shape: tuple[Size, ...]) -> bool:
    if len(given) != len(shape):
        return True
    return any(holds(a != b) for a, b in zip(given, shape, strict=True))


def reduction(c: Constants, machine: Chip, task: Task) -> Size:
    """One pass; `logsumexp` is made of four kernels."""
    view = task.view
    function = view.attrs.get("function")
    if task.compiled:
        return streamed(machine, task.traffic_bytes, c["compiled"])
    if function == "logsumexp":
        nbytes = _LOGSUMEXP_PASSES * distinct_bytes(view.inputs[:1])
        return streamed(machine, maximum(nbytes, task.traffic_bytes), c["plain"])
    return streamed(machine, task.traffic_bytes, c["indexed" if function in _INDEXED else "plain"])


def loss(c: Constants, machine: Chip, task: Task) -> Size:
    """The element losses pass through memory before they are summed."""
    if task.compiled:
        return streamed(machine, task.traffic_bytes, c["compiled"])
    extra = _LOSS_EXTRA * distinct_bytes(task.view.inputs[:1])
    return streamed(machine, task.traffic_bytes + extra, c["plain"])


def scan(c: Constants, machine: Chip, task: Task) -> Size:
    """Read and write, with a dependence between the blocks of a row."""
    return streamed(machine, task.traffic_bytes, c["scan"])


def copy(c: Constants, machine: Chip, task: Task) -> Size:
    """Concatenations, transposing clones and gathers."""
    if task.compiled:
        return streamed(machine, task.traffic_bytes, c["compiled"])
    share = c["cat"] if task.view.attrs.get("function") in ("cat", "stack") else c["strided"]
    return streamed(machine, task.traffic_bytes, share)
