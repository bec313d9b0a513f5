"""Expected times where few whole runs were measured: shares of the roofs that a class attains.

Processors and Apple GPUs under llama.cpp, say, where no single kernel was timed. Each op starts,
then its slowest part decides:

    t = start + max(bytes / (memory · bandwidth), FLOP / (compute · peak), weights · unpack / lanes)

Weights that are stored in blocks of a few bits are unpacked before they are multiplied: each takes
``unpack`` lane cycles (two FLOP of the vector peak). That is why a 4-bit model does not run four
times as fast as a 16-bit one where the lanes are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.batches import Batch
from gambrel.analysis.estimate.constants import Calibration, Shares
from gambrel.analysis.estimate.estimator import Predicted
from gambrel.analysis.measures import Estimate
from gambrel.analysis.roofs import Roofs
from gambrel.dtypes import BITS
from gambrel.ops import Cost, OpView
from gambrel.ops.base import Engine, Size, holds, minimum
from gambrel.roofline import maximum
from gambrel.runtimes import Runtime, matches

#: Work that has a roof of its own; special functions are left out, as in the roofline.
_COUNTED: Final = (Engine.MATRIX, Engine.VECTOR)
_WHOLE: Final = 16
_WEIGHT: Final = "weight"
#: FLOP per byte below which the memory decides: the ridge points of processors and Apple GPUs lie
#: at 9 (Raspberry Pi 5) and above.
_THIN: Final = 8.0


def shares_of(runtime: Runtime, roofs: Roofs, calibration: Calibration) -> Shares | None:
    """The shares of a runtime on a class of device; None where nothing was measured."""
    if not roofs.memory_byte_per_s or roofs.off_chip_only:
        return None
    mine = (s for s in calibration.shares if s.runtime == runtime.id)
    return next((s for s in mine if matches(s.match, roofs.device)), None)


class SharesEstimator:
    """Predicts the ops of one analysis from shares of the roofs.

    Args:
        roofs: Of the device.
        shares: That its class attains under the runtime.
    """

    batched = True
    over_arrays = True
    partial = False

    def __init__(self, roofs: Roofs, shares: Shares) -> None:
        self._roofs = roofs
        self._shares = shares

    def in_sequence(self, _: OpView) -> bool:
        """Never: each dependent step is an op that starts."""
        return False

    def seconds(self, view: OpView, cost: Cost, roofline_time_s: Size) -> Predicted | None:
        """Of one execution, for scalars or arrays; None where a roof that may decide is unknown."""
        found = parts(view, cost, self._roofs, self._shares)
        if found is None:
            return None
        start = self._shares.start_s
        seconds = maximum(start + found, roofline_time_s)
        return Predicted(seconds=seconds, launch=minimum(start, seconds))

    def estimate(
        self, view: OpView, cost: Cost, roofline_time_s: float | None, count: int = 1
    ) -> Estimate | None:
        """Of ``count`` executions, with its range."""
        if roofline_time_s is None:
            return None
        one = self.seconds(view, cost, roofline_time_s / count)
        if one is None:
            return None
        return self._ranged(one.seconds * count, one.launch * count, roofline_time_s)

    def estimate_batch(self, batch: Batch, times: Sequence[float]) -> list[Estimate | None]:
        """Of one execution of each of some ops that differ in numbers only."""
        import numpy as np

        found = self.seconds(batch.view, batch.cost, np.asarray(times))
        if found is None:
            return [None] * len(times)
        seconds = np.broadcast_to(found.seconds, len(times)).tolist()
        launches = np.broadcast_to(found.launch, len(times)).tolist()
        return list(map(self._ranged, seconds, launches, times))

    def _ranged(self, seconds: float, launches_s: float, roofline_time_s: float) -> Estimate:
        value = max(roofline_time_s, seconds)
        return Estimate(
            value=value,
            low=max(roofline_time_s, value * self._shares.low),
            high=value * self._shares.high,
            confidence=self._shares.confidence,
            reason=self._shares.why,
            launches_s=launches_s,
        )


def parts(view: OpView, cost: Cost, roofs: Roofs, shares: Shares) -> Size | None:
    """Seconds of work without the start; None where a roof that may decide is unknown."""
    assert roofs.memory_byte_per_s is not None  # `shares_of` has checked it
    moved = cost.read_bytes + cost.write_bytes
    slowest: Size = roofline.seconds(moved, shares.memory * roofs.memory_byte_per_s)
    stored = _unpacked(view)
    compute = shares.compute if stored is None else shares.compute_stored
    for (engine, dtype), flops in cost.work.items():
        if engine not in _COUNTED:
            continue
        roof = roofs.least_time_roof(engine.value, dtype, cost.prunable)
        if roof is not None:
            slowest = maximum(slowest, roofline.seconds(flops, compute * roof[1]))
        elif engine is Engine.MATRIX and not _streams(flops, moved):
            return None
    lanes = lanes_of(roofs, shares.lanes_per_byte)
    if stored is not None and lanes:
        slowest = maximum(slowest, roofline.seconds(2 * shares.unpack * stored, lanes))
    return slowest


def lanes_of(roofs: Roofs, per_byte: float | None) -> float | None:
    """FLOP/s of the vector units: the device's own, else what its class has per byte/s."""
    own = roofs.vector_peak("fp32")
    return own if own or not per_byte else per_byte * (roofs.memory_byte_per_s or 0.0)


def _unpacked(view: OpView) -> Size | None:
    """Weights of an op that are stored in fewer bits than it multiplies; None without any."""
    if view.kind == "embedding":
        return None
    sizes = [
        t.elements for t in view.inputs if t.role == _WEIGHT and BITS.get(t.dtype, _WHOLE) < _WHOLE
    ]
    return sum(sizes) if sizes else None


def _streams(flops: Size, moved: Size) -> bool:
    """Whether work is so thin that the memory decides on any engine."""
    return holds(flops <= _THIN * moved)
