"""Memory that library kernels take while they run, besides their operands.

The rules hold for PyTorch's CPU kernels: oneDNN's where PyTorch calls them, its own elsewhere. Each
was read off the allocations of single ops (docs/memory.md) and is arithmetic on their sizes; none
is fitted. Channels that oneDNN pads to its vector width are left out: the width is the processor's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.liveness import Lifetime
from gambrel.ops import OpView
from gambrel.ops.base import Size, product, to_bytes
from gambrel.runtimes import Workspace
from gambrel.workload import Workload

#: Elements that an op needs besides its operands; None where no rule is known.
_Rule: TypeAlias = Callable[[OpView], Size | None]

#: Where PyTorch calls oneDNN for an fp32 convolution of one item: images above this many elements
#: (without the last of three spatial dimensions) and kernels above 3 x 3;
#: aten/src/ATen/native/Convolution.cpp, `use_mkldnn`.
_SMALL_IMAGE: Final = 20_480
_SMALL_KERNEL: Final = 3
#: Spatial dimensions of a volume: `use_mkldnn` multiplies the first four dimensions only.
_VOLUME: Final = 3
#: Fewer input channels are read in the layout that they come in (one vector of 16 fp32 values).
_PLAIN_CHANNELS: Final = 16
#: oneDNN has blocked kernels for groups of a multiple of this many channels, and up to this width
#: of a window; else it unrolls pieces of images, as many as there are threads.
_GROUP: Final = 4
_WIDEST: Final = 13
#: Rows of the gate weights, in units of the hidden size.
_GATES: Final = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def workspaces(
    workload: Workload, evaluator: Evaluator, rules: Workspace
) -> tuple[list[Lifetime], tuple[str, ...]]:
    """The workspace of every op as memory that lives while the op runs.

    Args:
        workload: The model.
        evaluator: Bound to the sizes and precision in question.
        rules: The runtime's, of the formats in which they hold.

    Returns:
        One lifetime per op that needs any, and the kinds of ops of which no rule is known. Ops of
        other kinds than convolutions and recurrences are taken to need none.
    """
    found: list[Lifetime] = []
    unknown: set[str] = set()
    for position, op in enumerate(workload.ops):
        rule = _RULES.get(op.kind)
        if rule is None:
            continue
        view = evaluator.op(op)
        elements = None
        if _is_ruled(view, rules) and not _is_exempt(op.name, op.kind, workload):
            elements = rule(view)
        if elements is None:
            unknown.add(op.kind)
        elif elements:
            found.append(_lifetime(view, position, op.outputs[0], elements))
    return found, tuple(sorted(unknown))


def _lifetime(view: OpView, position: int, tensor: int, elements: Size) -> Lifetime:
    return Lifetime(
        storage=-1,
        part="workspace",
        nbytes=to_bytes(elements, view.inputs[0].dtype),
        first=position,
        last=position,
        tensor=tensor,
    )


def _is_ruled(view: OpView, rules: Workspace) -> bool:
    return bool(view.outputs) and all(t.dtype in rules.formats for t in view.inputs[:2])


def _is_exempt(name: str, kind: str, workload: Workload) -> bool:
    """Recurrences of one step, and those of a training step, which keep more until backward."""
    return kind == "recurrent" and (workload.training or name.endswith("_cell"))


def _convolution(op: OpView) -> Size | None:
    """Reordered operands under oneDNN, else the image unrolled into columns.

    oneDNN copies input and weight into its blocked layout and writes an output in it. The copies go
    before the plain output is made: besides the operands there are input and weight at first (the
    output is not there yet), one more output at the end. A transposed output is copied once more.
    """
    if op.attrs.get("deformable"):
        return None
    transposed, grouped = bool(op.attrs.get("transposed")), _groups(op) > 1
    if not _uses_onednn(op, op.inputs[0].elements):
        return _columns(op)
    if not _is_blocked(op):
        return None
    copies = 2 if transposed and not grouped else 1
    read = op.inputs[0].elements if _is_reordered(op) else 0
    return max(read + op.inputs[1].elements, copies * op.outputs[0].elements)


def _convolution_backward(op: OpView) -> Size | None:
    """The gradient that comes in and the input in blocked layout, or the gradient of the weight.

    That of the weight is in both layouts at the end, when the other two copies are gone.
    """
    if op.attrs.get("deformable"):
        return None
    gradient, image, weight = (t.elements for t in op.inputs[:3])
    if not _uses_onednn(op, image):
        return _columns(op)
    if not _is_blocked(op):
        return None
    read = image if _is_reordered(op) else 0
    return max(gradient + read, weight)


def _uses_onednn(op: OpView, image: Size) -> bool:
    kernel = op.sizes["kernel"]
    large = len(kernel) > 1 and min(kernel[-2:]) > _SMALL_KERNEL
    if _groups(op) > 1 or op.size("batch") > 1 or large:
        return True
    if len(kernel) == _VOLUME:
        position = 0 if op.kind == "convolution" else 1
        image = image // op.inputs[position].shape[-1]
    return bool(image > _SMALL_IMAGE)


def _columns(op: OpView) -> Size:
    """Every value under every tap, for one item; a 1x1 kernel without a stride needs none."""
    kernel, spatial = product(op.size("kernel")), product(op.size("spatial"))
    if op.attrs.get("transposed"):
        return op.size("out_channels") * kernel * spatial
    image = op.inputs[0 if op.kind == "convolution" else 1].elements
    if kernel == 1 and image == op.size("batch") * op.size("in_channels") * spatial:
        return 0
    return op.size("batch") * op.size("in_channels") * kernel * spatial


def _groups(op: OpView) -> Size:
    return op.size("groups", 1)


def _is_blocked(op: OpView) -> bool:
    """Whether oneDNN has a blocked kernel; that of a depthwise volume was seen to copy more."""
    kernel, each = op.sizes["kernel"], op.size("in_channels") // _groups(op)
    if not _is_reordered(op):
        return True
    if _groups(op) > 1 and each == 1 and len(kernel) == _VOLUME:
        return False
    return max(kernel) <= _WIDEST and bool(_groups(op) == 1 or each == 1 or each % _GROUP == 0)


def _is_reordered(op: OpView) -> bool:
    return bool(_groups(op) > 1 or op.size("in_channels") >= _PLAIN_CHANNELS)


def _recurrent(op: OpView) -> Size | None:
    """An LSTM under oneDNN; other cells step by step.

    oneDNN packs the weights of one direction of one layer and keeps the gates of all its steps.
    Step by step, PyTorch computes the gates' input part of all steps at once, and holds the
    results of the steps until they are stacked, of both directions until they are joined. Behind
    the first layer, the results of the layer before are there as well.
    """
    cell = str(op.attrs.get("cell"))
    if cell not in _GATES:
        return None
    hidden, projection = op.size("hidden"), op.size("projection", 0)
    directions, layers = op.size("directions", 1), op.size("layers", 1)
    steps = op.size("batch") * op.size("seq")
    gates = _GATES[cell] * hidden * steps
    results = directions * (projection or hidden) * steps
    earlier = results if layers > 1 else 0
    if cell == "lstm" and not projection:
        widest = max(op.size("input_size"), directions * hidden if layers > 1 else 0)
        return _GATES[cell] * hidden * (widest + hidden) + gates + earlier
    stacked = results if directions > 1 else 0
    return gates + results + stacked + earlier


def _unknown(_op: OpView) -> None:
    """No rule: what forward keeps for it is not known either."""


_RULES: Final[dict[str, _Rule]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "recurrent": _recurrent,
    "recurrent_backward": _unknown,
}
