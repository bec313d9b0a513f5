"""Expected times of chips that map a network onto themselves and stream frames through it.

A run of b frames takes

    t = b·B + c·A

B: a frame's multiply-adds by kind of layer, norms and outputs, each over its rate, plus a fixed
time. A: a network that is larger than the chip is cut into parts, and for each batch every part
takes the place of the one before: weights over a bandwidth, a time per layer, norm and change of
layout. c: how
likely it is that the network is cut, 1 / (1 + exp((1 - load) / 0.12)), where the load is its
weights and a frame's activations over what the chip holds, and a half for each norm or softmax.

b/t is the rate that vendors quote, with other frames in flight. The latency of a single frame is
longer than t at b = 1 and is not known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate.constants import Calibration
from gambrel.analysis.estimate.stream_work import (
    DEPTHWISE,
    NORM,
    OUTPUT,
    POINT,
    WINDOW,
    StreamWork,
)
from gambrel.analysis.estimate.tiled import WholeTimes, part_of, ranged
from gambrel.analysis.estimate.tiled_constants import StreamConstants
from gambrel.analysis.measures import Limiter
from gambrel.device.model import Device
from gambrel.ops.base import Size

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable

#: Width of the step between networks that fit and those that are cut.
_STEP: Final = 0.12
#: Frames of the larger batch that was measured.
MANY: Final = 8
FORMAT: Final = "int8"


class StreamEstimator:
    """Predicts runs of streamed frames.

    Args:
        constants: Of the chip.
    """

    #: Ops are not predicted one by one.
    batched: Final = False

    def __init__(self, constants: StreamConstants) -> None:
        self._constants = constants
        self._reason = (
            f"{_basis(constants)}; frames are streamed: this is the time per batch, a single frame "
            "takes longer to pass through"
        )

    def seconds(self, table: CostTable) -> tuple[Size, Size] | None:
        """Of the run and of what the host adds, at one point."""
        times = self.times(table)
        return None if times is None else (times.total.value, times.total.host_s)

    def times(self, table: CostTable) -> WholeTimes | None:
        """The times of a table; None in another number format than int8."""
        work = table.stream
        if work.dtype != FORMAT:
            return None
        c = for_frames(self._constants, work.frames)
        rates = _rates(c)
        own = [sum(roofline.seconds(n, rates[k]) for k, n in w.items()) for w in work.items]
        frames = sum(s * n for s, n in zip(own, work.counts, strict=True))
        change = cut_share(c, work) * change_s(c, work)
        start = c.frame_s * work.frames
        share = change / work.all_weights if work.all_weights else 0.0
        shares = {Limiter.COMPUTE: frames, Limiter.MEMORY: change, Limiter.HOST: start}
        return WholeTimes(
            items=tuple(part_of(s + w * share, c) for s, w in zip(own, work.weights, strict=True)),
            total=msgspec.structs.replace(
                ranged(frames + change + start, c, self._reason, start), streamed=True
            ),
            limited_by=max(shares, key=lambda name: shares[name]),
            limiters=tuple(
                Limiter.MEMORY if w * share > s else Limiter.COMPUTE
                for s, w in zip(own, work.weights, strict=True)
            ),
        )


def for_frames(c: StreamConstants, frames: float) -> StreamConstants:
    """The same with the range of a run of so many frames."""
    if frames >= MANY:
        return c
    return msgspec.structs.replace(c, low=c.low_few, high=c.high_few)


def cut_share(c: StreamConstants, work: StreamWork) -> float:
    """How likely it is that the network is cut into parts.

    A cut shows in rates that rise with the batch, as parts then take turns less often. On the
    Hailo-8 (Hailo Model Zoo, commit c83fc030) the 20 measured models without a norm whose load is
    below 0.7 gain nothing between batch 1 and 8 (median 1.00). The nine with norms and such a load
    gain 2.0 to 4.6 times: with two norms already at a load of 0.07 (YOLO11n). Of models with one
    norm there is a single row (YOLOv9c, load 0.54, gains 2.0 times), so that the half for one norm
    rests on little where a network is small.
    """
    load = (
        work.all_weights / c.held_weights + work.activations / c.held_activations + work.norms / 2
    )
    return 1 / (1 + math.exp(min(50.0, (1 - load) / _STEP)))


def change_s(c: StreamConstants, work: StreamWork) -> float:
    """What loading all parts takes, s."""
    loading = roofline.seconds(work.all_weights, c.switch_per_s)
    return float(loading + work.norms * c.norm_s + work.moves * c.move_s + work.layers * c.layer_s)


def frame_s(c: StreamConstants, work: StreamWork) -> float:
    """What the frames of a run take, s."""
    rates = _rates(c)
    busy = sum(roofline.seconds(n, rates[kind]) for kind, n in work.totals.items())
    return float(busy + c.frame_s * work.frames)


def stream_estimator(
    device: Device, names: tuple[str, ...], calibration: Calibration
) -> StreamEstimator | None:
    """What predicts streamed frames on a device; None where nothing was measured of it."""
    for c in calibration.streams:
        if c.runtime in names and c.device == device.id:
            return StreamEstimator(c)
    return None


def _basis(c: StreamConstants) -> str:
    if not c.rows:
        return c.note
    error = f", {c.held_out.mape:.0%} mean error on others" if c.held_out else ""
    return f"{c.rows} rates of {c.models} models on this chip{error}"


def _rates(c: StreamConstants) -> dict[str, float]:
    return {
        WINDOW: c.window_per_s,
        POINT: c.point_per_s,
        DEPTHWISE: c.depthwise_per_s,
        NORM: c.norm_per_s,
        OUTPUT: c.output_per_s,
    }
