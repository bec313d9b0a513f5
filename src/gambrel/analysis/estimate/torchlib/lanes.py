"""Convolutions on the vector lanes, as cuDNN runs them in fp32 on devices without TF32.

The library takes about the fastest of three algorithms; the two of Winograd serve 3x3 kernels of
stride 1. All are matmuls in tiles, in waves over the units, beside their memory traffic:

* implicit: positions by output channels, along input channels and taps;
* fused Winograd F(2x2, 3x3): 16 products; a block computes 32 channels of a region of the image;
* unfused Winograd F(4x4, 3x3): 36 products of tiles of 4x4 outputs, which one kernel makes of the
  input and another turns into the output.

A region or tile that reaches beyond the edge of a small image is computed in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip, Constants, ceil
from gambrel.analysis.estimate.torchlib.products import throttled
from gambrel.analysis.estimate.torchlib.streams import streamed
from gambrel.ops import OpView
from gambrel.ops.base import Size, holds, minimum, product
from gambrel.roofline import maximum

#: Output channels of the tiles of 128 positions, by the kernels' names.
_COLUMNS: Final = (32, 64, 128)
#: Tiles (rows, columns) of the products of unfused Winograd.
_TILES: Final = ((128, 32), (64, 64), (32, 128))
#: Images, rows and columns that a block of fused Winograd computes: grids of its kernels.
_REGION: Final = (1, 8, 16)
#: Those that Pascal's kernels have besides, for small images.
_SMALL_REGIONS: Final = ((2, 8, 8), (4, 4, 8))

#: Width of what transforms write.
_BYTES: Final = 4

#: Seconds of blocks (number, FLOP each step, steps, share of the peak).
_Blocks: TypeAlias = Callable[[Size, int, Size, Size], Size]


class _Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """A convolution: images, rows and columns of the output, channels, taps, groups, bytes."""

    images: Size
    height: Size
    width: Size
    inputs: Size
    outputs: Size
    taps: Size
    groups: Size
    input_bytes: Size
    output_bytes: Size

    @property
    def kernels(self) -> Size:
        """Pairs of input and output channels."""
        return self.groups * self.inputs * self.outputs


def on_lanes(c: Constants, machine: Chip, task: Task, x: Size, y: Size) -> Size:
    """The fastest algorithm and its start.

    Args:
        c: Constants.
        machine: The device.
        task: A convolution.
        x: Bytes of the input.
        y: Bytes of the output.
    """
    view = task.view
    unit = roofline.ratio(machine.vector_flop_per_s, machine.units)

    def blocks(count: Size, area: int, steps: Size, share: Size) -> Size:
        filled = count / machine.units
        waves = maximum((1 - c["wave"]) * filled + c["wave"] * ceil(filled), 1.0)
        return waves * roofline.seconds(2 * area * steps, unit) / share

    sizes = _sizes(view, x, y)
    backward = view.kind == "convolution_backward"
    moved = task.traffic_bytes / (2 if backward else 1)
    implicit = _implicit(c, machine, moved, sizes, blocks)
    seconds = fastest = implicit
    if has_winograd(view):
        fastest = minimum(fastest, _unfused(c, machine, sizes, blocks))
        seconds = minimum(fastest, _fused(c, machine, sizes, blocks))
    if backward:  # the gradient of the weights has no fused Winograd
        wanted = (view.attrs.get(name, True) for name in ("grad_input", "grad_weight"))
        parts = zip(wanted, (seconds, fastest), strict=True)
        seconds = sum((part for is_wanted, part in parts if is_wanted), 0.0)
    rate = machine.vector_flop_per_s * c["direct"]
    return c["start_s"] + seconds * throttled(c, machine, rate, seconds)


def _sizes(view: OpView, x: Size, y: Size) -> _Sizes:
    spatial = view.size("spatial")
    return _Sizes(
        images=view.size("batch"),
        height=product(spatial[:-1]),
        width=spatial[-1],
        inputs=view.size("in_channels") / view.size("groups", 1),
        outputs=view.size("out_channels") / view.size("groups", 1),
        taps=product(view.size("kernel")),
        groups=view.size("groups", 1),
        input_bytes=x,
        output_bytes=y,
    )


def _implicit(c: Constants, machine: Chip, traffic_bytes: Size, s: _Sizes, blocks: _Blocks) -> Size:
    positions = ceil(s.images * s.height * s.width / 128) * s.groups
    steps = s.inputs * s.taps + c["fill"]
    best: Size = None
    for columns in _COLUMNS:
        share = c["direct"] / (1 + c["edge"] * (64 / columns - 1))
        count = positions * ceil(s.outputs / columns)
        seconds = blocks(count, 128 * columns, steps, share)
        best = seconds if best is None else minimum(best, seconds)
    return _beside(best, streamed(machine, traffic_bytes, c["operands"]))


def _fused(c: Constants, machine: Chip, s: _Sizes, blocks: _Blocks) -> Size:
    regions: Size = None
    for images, height, width in (_REGION, *(_SMALL_REGIONS if c["small_regions"] else ())):
        count = ceil(s.images / images) * ceil(s.height / height) * ceil(s.width / width)
        regions = count if regions is None else minimum(regions, count)
    tiles = regions * ceil(s.outputs / 32) * s.groups
    seconds = blocks(tiles, 16 * 32 * 32, s.inputs + c["fill_2"], c["winograd_2"])
    # 16 values are made of the 9 of each kernel.
    memory = s.input_bytes + s.output_bytes + 16 * _BYTES * s.kernels
    weights = streamed(machine, (9 + 16) * _BYTES * s.kernels, c["weights"])
    return _beside(seconds, streamed(machine, memory, c["operands"])) + weights


def _unfused(c: Constants, machine: Chip, s: _Sizes, blocks: _Blocks) -> Size:
    tiles = s.images * ceil(s.height / 4) * ceil(s.width / 4)
    best: Size = None
    for rows, columns in _TILES:
        count = 36 * ceil(tiles / rows) * ceil(s.outputs / columns) * s.groups
        seconds = blocks(count, rows * columns, s.inputs + c["fill_4"], c["winograd_4"])
        best = seconds if best is None else minimum(best, seconds)
    made = 36 * _BYTES * tiles * s.groups * (s.inputs + s.outputs)
    moved = made + 36 * _BYTES * s.kernels
    products = _beside(best, streamed(machine, moved, c["operands"]))
    transforms = streamed(machine, s.input_bytes + made + s.output_bytes, c["transforms"])
    weights = streamed(machine, (9 + 36) * _BYTES * s.kernels, c["weights"])
    return products + transforms + weights + c["start_4_s"]


def _beside(computing: Size, moving: Size) -> Size:
    return (computing**3 + moving**3) ** (1 / 3)


def has_winograd(view: OpView) -> bool:
    """A 3x3 kernel of stride 1: about as many positions leave as came."""
    if tuple(view.size("kernel")) != (3, 3):
        return False
    if not view.inputs or not view.outputs or view.attrs.get("transposed"):
        return False
    # Backward, what came is the second operand, behind the gradient of what left.
    backward = view.kind == "convolution_backward"
    came, left = view.inputs[:2][::-1] if backward else (view.inputs[0], view.outputs[0])
    pairs = zip(came.shape[2:], left.shape[2:], strict=True)
    return all(holds(a <= b + 2) for a, b in pairs)
