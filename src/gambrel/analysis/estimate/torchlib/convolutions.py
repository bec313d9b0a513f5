"""Convolutions as cuDNN runs them for PyTorch.

On devices with TF32 an fp32 convolution is an implicit GEMM on the matrix engine, which wants the
channels last: input and output, which PyTorch keeps with channels first, pass through memory once
more each. Few input channels, and grouped transposed or three-dimensional convolutions, run on the
vector units. The bias is a kernel of its own in eager mode.

Without TF32 (before Ampere) they run on the vector lanes: see `lanes`.

Constants of 16-bit convolutions come from whole models, where a device has them: the instructions
for a group hold no channels of another, and even few input channels run on the matrix engine. A
pointwise one with channels first streams at the share ``first`` of what it does with them last. No
faster than the cooling sustains, by the energy per FLOP that TensorRT's runs tell (``engines`` of
constants.json).
"""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.engine_forms import STEP_BYTES, one_tile
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip, Constants, ceil
from gambrel.analysis.estimate.torchlib.lanes import has_winograd, on_lanes
from gambrel.analysis.estimate.torchlib.products import sustained
from gambrel.analysis.estimate.torchlib.streams import streamed
from gambrel.analysis.estimate.torchlib.windows import windowed
from gambrel.dtypes import width_bytes
from gambrel.ops import OpView
from gambrel.ops.base import Size, distinct_bytes, holds, minimum, product, where
from gambrel.roofline import maximum

#: Tiles of the implicit GEMM are this wide; fewer channels leave a part of them empty. However few
#: there are, one walks along the reduction (``step_cycles``), its unit multiplies at the share
#: ``tile`` of its peak and, through a window, takes ``gather_bytes`` a cycle from the last cache;
#: ``start_cycles`` go before and after. All are what TensorRT's kernels take on NVIDIA's GPUs (the
#: ``engines`` of constants.json), which it chooses by timing: cuDNN's are no faster, and measured
#: convolutions of PyTorch are too large to show any. AMD's GPUs have none of them.
_TILE: Final = 64
#: Convolutions of groups take so much longer for the gradient of their weights, a sum over all
#: places for each tap, than for their outputs: training steps of networks of them on an RTX 3090 in
#: 16 bits (benchmarks/data/networks), with channels first, where cuDNN has no slow paths.
_WEIGHTS: Final = 3.0
#: Columns of a matrix instruction: the channels of a group fill whole ones, and share none with
#: another group.
_INSTRUCTION: Final = 16
#: Up to so many input channels (colours), convolutions run on the vector units.
_FEW: Final = 4


def convolution(c: Constants, machine: Chip, task: Task) -> Size:
    """The kernel, its layout passes and its bias; a gradient is a convolution for each factor."""
    view = task.view
    if _is_depthwise(view):
        return _depthwise(c, machine, task) * _of_weights(c, task) + _bias(c, machine, task)
    if not _on_lanes(c, machine, task):
        found = _half(c, machine, task) if "half" in c else _implicit(c, machine, task)
        kernel = maximum(found, _walk(c, machine, task))
    else:
        kernel = on_lanes(c, machine, task, *_images(task))
    return maximum(kernel * _of_weights(c, task), c["base_s"]) + _bias(c, machine, task)


def _on_lanes(c: Constants, machine: Chip, task: Task) -> bool:
    """GeForce's matrix units are no faster in TF32 than its vector units are in fp32."""
    return task.matrix_peak <= machine.vector_flop_per_s and "fill" in c


def least_share(c: Constants, machine: Chip, task: Task) -> float:
    """Of the multiplications that are counted, those that Winograd's algorithm needs."""
    view = task.view
    if _is_depthwise(view) or not _on_lanes(c, machine, task) or not has_winograd(view):
        return 1.0
    return 36 / (16 * 9)  # F(4x4, 3x3): products for 16 outputs of 9 taps each


def dense_flops(task: Task) -> Size:
    """FLOP when every output looks at all its taps: strides of transposed ones are not skipped."""
    view = task.view
    if not view.attrs.get("transposed") or not view.outputs:
        return task.matrix_flops
    outputs = product(view.outputs[0].shape)
    inner = product(view.size("kernel")) * view.size("in_channels") / view.size("groups", 1)
    return 2 * outputs * inner


def _wanted(task: Task) -> tuple[bool, bool]:
    """Whether an op makes the gradient of its input, and that of its weights."""
    if task.view.kind != "convolution_backward":
        return False, False
    attrs = task.view.attrs
    return bool(attrs.get("grad_input", True)), bool(attrs.get("grad_weight", True))


def _passes(task: Task) -> int:
    """How many convolutions the op is: two for both gradients."""
    return max(1, sum(_wanted(task)))


def _of_weights(c: Constants, task: Task) -> Size:
    """How much longer the gradients take for that of the weights of a grouped convolution.

    Of cuDNN, which has a ``tile``; of AMD's library none was measured.
    """
    _, weights = _wanted(task)
    if not weights or not c["tile"]:
        return 1.0
    longer = 1 + (_WEIGHTS - 1) / _passes(task)
    return where(task.view.size("groups", 1) > 1, longer, 1.0)


def _is_depthwise(view: OpView) -> bool:
    """One input channel for each group, in up to two dimensions."""
    groups, channels = view.size("groups", 1), view.size("in_channels")
    plain = not view.attrs.get("transposed") and len(view.size("kernel")) <= 2
    return plain and holds((groups == channels) & (channels > 1))


def _depthwise(c: Constants, machine: Chip, task: Task) -> Size:
    view = task.view
    outputs = view.size("batch") * view.size("out_channels") * product(view.size("spatial"))
    cycles = outputs * _passes(task) * (c["start"] + c["tap"] * product(view.size("kernel")))
    return windowed(machine, task, cycles, c["memory"])


def _bias(c: Constants, machine: Chip, task: Task) -> Size:
    """Eager mode adds it in a pass over the output; compilers do it in the next kernel."""
    view = task.view
    if task.compiled or not view.attrs.get("bias") or view.kind != "convolution":
        return 0.0
    seconds = streamed(machine, 2 * distinct_bytes(view.outputs[:1]), c["bias"])
    return maximum(seconds, c["base_s"])


def _implicit(c: Constants, machine: Chip, task: Task) -> Size:
    """On the matrix engine, or on the lanes where the library does not use the engine."""
    view = task.view
    x, y = _images(task)
    groups, inputs = view.size("groups", 1), view.size("in_channels")
    dims = len(view.size("kernel"))
    transposed = bool(view.attrs.get("transposed"))
    memory = streamed(machine, x + y, c["memory"])
    moving = streamed(machine, x + y, c["pointwise"]) if _is_pointwise(view) else memory
    on_engine = maximum(_engine(c, task, dims), moving) + _turned(c, machine, task, x, y)
    lanes = roofline.seconds(dense_flops(task), c["grouped_lanes"] * machine.vector_flop_per_s)
    grouped = maximum(lanes, memory)
    if dims < 3 and not transposed:
        of_groups = roofline.seconds(dense_flops(task), c["grouped"] * task.matrix_peak)
        grouped = maximum(of_groups, memory) + _relaid(c, machine, task, x, y)
    width = view.size("out_channels") / (view.size("out_channels") + c["few_half"])
    few = roofline.seconds(dense_flops(task), c["few_lanes"] * machine.vector_flop_per_s) / width
    few = maximum(few, memory)
    # 16-bit kernels pad the channels instead.
    few_lanes = (inputs <= _FEW) & (task.view.operand_dtype(2) == "fp32")
    found = where(few_lanes, few, on_engine)
    return where(groups > 1, grouped, found)


def _half(c: Constants, machine: Chip, task: Task) -> Size:
    """In 16 bits: products and traffic that overlap imperfectly, then the layout passes."""
    view = task.view
    x, y = _images(task)
    groups, inputs = view.size("groups", 1), view.size("in_channels")
    share = where(groups > 1, c["half_grouped"], where(inputs <= _FEW, c["few"], c["half"]))
    if "half_3x3" in c and has_winograd(view):
        share = share * c["half_3x3"]
    if len(view.size("kernel")) > 2:
        share = share * c["engine_3d"]
    if view.attrs.get("transposed"):
        share = share * c["transposed"]
    whole = _filled(view.size("out_channels"), inputs, view)
    filled = where(groups > 1, _of_group(view.size("out_channels") / groups), whole)
    rate = minimum(share * filled * task.matrix_peak, sustained(c, machine, task.matrix_peak))
    products = roofline.seconds(task.matrix_flops, rate)
    found = _overlapped(products, streamed(machine, x + y, _stream_share(c, task)))
    return found + _turned(c, machine, task, x, y)


def _stream_share(c: Constants, task: Task) -> float:
    """The share of the bandwidth that a 16-bit convolution's images stream at."""
    if not _is_pointwise(task.view):
        return c["memory"]
    first = not task.compiled and not task.view.attrs.get("channels_last")
    return c["pointwise"] * (c.get("first", 1.0) if first else 1.0)


def _overlapped(a: Size, b: Size) -> Size:
    """The 3-norm: somewhat more than the larger."""
    return (a**3 + b**3) ** (1 / 3)


def _filled(outputs: Size, inputs: Size, view: OpView) -> Size:
    """The share of a tile's columns and of its reduction that a convolution fills."""
    taps = product(view.size("kernel"))
    return minimum(1.0, outputs / _TILE) * minimum(1.0, inputs * taps / _TILE)


def _of_group(outputs: Size) -> Size:
    """The share of the columns of matrix instructions that the outputs of a group fill."""
    return outputs / (_INSTRUCTION * ceil(outputs / _INSTRUCTION))


def _walk(c: Constants, machine: Chip, task: Task) -> Size:
    """The least of a kernel: its start, and one tile along the reduction."""
    view = task.view
    taps, width = product(view.size("kernel")), width_bytes(view.operand_dtype(2))
    inputs = view.size("in_channels") / view.size("groups", 1)
    steps = ceil(inputs * taps * width / STEP_BYTES)
    walk = (c["start_cycles"] + c["step_cycles"] * steps) / machine.clock_hz
    if not c["tile"]:
        return walk
    step_bytes = steps * STEP_BYTES
    return walk + one_tile(
        _TILE,
        _TILE,
        step_bytes / width,
        c["tile"] * roofline.ratio(task.matrix_peak, machine.units),
        where(taps > 1, step_bytes, 0.0),
        c["gather_bytes"] * machine.clock_hz,
    )


def _images(task: Task) -> tuple[Size, Size]:
    """Bytes of input and output; both gradients read that of the output."""
    view = task.view
    if view.kind == "convolution" and view.outputs:
        return distinct_bytes(view.inputs[:1]), distinct_bytes(view.outputs[:1])
    half = task.traffic_bytes / 2 * (4 / 3 if _passes(task) > 1 else 1)
    return half, half


def _engine(c: Constants, task: Task, dims: int) -> Size:
    """The matrix engine at the share that its tiles are filled."""
    view = task.view
    filled = _filled(view.size("out_channels"), view.size("in_channels"), view)
    share = (c["engine_3d"] if dims > 2 else c["engine"]) * filled
    if view.attrs.get("transposed") and dims < 3:
        share = where(dense_flops(task) > 1.5 * task.matrix_flops, share * c["transposed"], share)
    return roofline.seconds(task.matrix_flops, share * task.matrix_peak)


def _is_pointwise(view: OpView) -> bool:
    """A 1x1 kernel of stride 1 is a GEMM in either layout."""
    if holds(product(view.size("kernel")) != 1) or not view.inputs or not view.outputs:
        return False
    given, made = view.inputs[0].shape[2:], view.outputs[0].shape[2:]
    alike = len(given) == len(made)
    return alike and all(holds(a == b) for a, b in zip(given, made, strict=True))


def _turned(c: Constants, machine: Chip, task: Task, x: Size, y: Size) -> Size:
    """As `_relaid`; a pointwise convolution turns nothing, its gradients do."""
    if task.view.kind == "convolution" and _is_pointwise(task.view):
        return 0.0
    return _relaid(c, machine, task, x, y)


def _relaid(c: Constants, machine: Chip, task: Task, x: Size, y: Size) -> Size:
    """The passes that put channels last and back; compiled 2-d models only turn their input."""
    if task.view.attrs.get("channels_last"):
        return 0.0
    if not task.compiled or len(task.view.size("kernel")) != 2:
        return maximum(streamed(machine, 2 * (x + y), c["relay"]), 2 * c["base_s"])
    given = bool(task.view.inputs) and task.view.inputs[0].role == "input"
    return maximum(streamed(machine, 2 * x, c["relay"]), c["base_s"]) if given else 0.0
