"""Expected times of chips that map a network onto themselves and stream frames through it.

A network that fits on the chip is there as a whole; a run of b frames takes b·B.

B: a frame's multiply-adds by kind of layer, norms, poolings and outputs, each over its rate, plus a
fixed time.

A network that is larger is cut into parts, and for each batch every part takes the place of the one
before. A run takes b·(B + M) + A.

M: what a frame passes to the host and back between parts: changes of layout, which need a whole
map, and, where they come through DRAM, the network's inputs and outputs. A: weights over a
bandwidth, a time per layer, norm and change of layout.

Whether a network is cut is not known but likely: c = 1 / (1 + exp((1 - load) / 0.05)), where the
load is what is used of the scarcest resource (weights, or stages; a cubic mean of the two), and a
half for each norm or softmax. The expected time lies between both, t = (b·B)^(1-c) · (b·(B + M) +
A)^c: errors are factors, and a mean of the times would be far from either. Where neither is
unlikely the range holds both.

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
    POOL,
    WINDOW,
    StreamWork,
)
from gambrel.analysis.estimate.tiled import WholeTimes, part_of, ranged
from gambrel.analysis.estimate.tiled_constants import StreamConstants
from gambrel.analysis.measures import Estimate, Limiter
from gambrel.device.model import Device
from gambrel.ops.base import Size

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable

#: Width of the step between networks that fit and those that are cut.
STEP: Final = 0.05
#: Power by which the larger of two shares of resources counts.
_SCARCEST: Final = 3
#: From this likelihood on a range holds what a network takes that is cut, or whole.
_UNLIKELY: Final = 0.05
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
        start = c.frame_s * work.frames
        change = run_s(c, work) - frames - start
        share = change / work.all_weights if work.all_weights else 0.0
        shares = {Limiter.COMPUTE: frames, Limiter.MEMORY: change, Limiter.HOST: start}
        return WholeTimes(
            items=tuple(part_of(s + w * share, c) for s, w in zip(own, work.weights, strict=True)),
            total=self._total(work, start),
            limited_by=max(shares, key=lambda name: shares[name]),
            limiters=tuple(
                Limiter.MEMORY if w * share > s else Limiter.COMPUTE
                for s, w in zip(own, work.weights, strict=True)
            ),
        )

    def _total(self, work: StreamWork, start: float) -> Estimate:
        c = self._constants
        low, high = ends_s(c, work)
        one = ranged(run_s(c, work), c, self._reason, start)
        return msgspec.structs.replace(one, low=low, high=high, streamed=True)


def for_frames(c: StreamConstants, frames: float) -> StreamConstants:
    """The same with the range of a run of so many frames."""
    if frames >= MANY:
        return c
    return msgspec.structs.replace(c, low=c.low_few, high=c.high_few)


def cut_share(c: StreamConstants, work: StreamWork) -> float:
    """How likely it is that the network is cut into parts.

    A cut shows in rates that rise with the batch, as parts then take turns less often. On four
    chips the load says of 157 networks in 164 that were left out whether theirs do (Hailo Model
    Zoo, commits c83fc030, 0044d9aa and 08cf6ffc). On the Hailo-8 all networks with norms gain 2.0
    to 4.6 times, with two norms already at a load of 0.07 (YOLO11n). Of models with one norm there
    is a single row (YOLOv9c, gains 2.0 times), so that the half for one norm rests on little.
    """
    return 1 / (1 + math.exp(min(50.0, (1 - load_of(c, work)) / STEP)))


def load_of(c: StreamConstants, work: StreamWork) -> float:
    """The network over what the chip holds at once."""
    shares = (work.all_weights / c.held_weights, work.stages / c.held_stages)
    return float(sum(s**_SCARCEST for s in shares) ** (1 / _SCARCEST)) + work.norms / 2


def change_s(c: StreamConstants, work: StreamWork) -> float:
    """What loading all parts takes, s."""
    loading = roofline.seconds(work.all_weights, c.switch_per_s)
    return float(loading + work.norms * c.norm_s + work.moves * c.move_s + work.layers * c.layer_s)


def frame_s(c: StreamConstants, work: StreamWork) -> float:
    """What the frames of a run take where nothing is cut, s."""
    rates = _rates(c)
    busy = sum(roofline.seconds(n, rates[kind]) for kind, n in work.totals.items())
    return float(busy + c.frame_s * work.frames)


def cut_s(c: StreamConstants, work: StreamWork) -> float:
    """What a run takes where the network is cut, s."""
    passes = work.moves * c.move_frame_s
    if c.passed_per_s:
        passes += float(roofline.seconds(work.passed, c.passed_per_s))
    return float(frame_s(c, work) + passes * work.frames + change_s(c, work))


def run_s(c: StreamConstants, work: StreamWork) -> float:
    """What a run is expected to take, s."""
    whole, likely = frame_s(c, work), cut_share(c, work)
    return float(whole ** (1 - likely) * cut_s(c, work) ** likely)


def ends_s(c: StreamConstants, work: StreamWork) -> tuple[float, float]:
    """The range of a run: that of its frames in flight, and of a network cut or not in doubt."""
    expected, likely, own = run_s(c, work), cut_share(c, work), for_frames(c, work.frames)
    low, high = expected * min(1.0, own.low), expected * max(1.0, own.high)
    if likely < 1 - _UNLIKELY:
        low = min(low, frame_s(c, work) * c.low)
    if likely > _UNLIKELY:
        high = max(high, cut_s(c, work) * c.high)
    return low, high


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
        POOL: c.pool_per_s,
    }
