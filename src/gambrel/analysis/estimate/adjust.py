"""A device's own factors on expected times, from a user's measured runs of whole models.

What predicts a runtime on a class of device is taken as it is, and three parts of each time are
scaled: computing, moving data, and launch overhead (with the host that launches). So few
numbers follow from few models, and carry over to others. Where nothing is known of the runtime on
that class, the roofs of the device are the base, at shares that are guesses until they are scaled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from gambrel import roofline
from gambrel.analysis.estimate.batches import Batch
from gambrel.analysis.estimate.constants import Adjustment, Calibration, Shares
from gambrel.analysis.estimate.engine_constants import EngineConstants
from gambrel.analysis.estimate.estimator import Predictor
from gambrel.analysis.estimate.formula_input import Predicted
from gambrel.analysis.estimate.language_constants import LanguageRates, PhaseRange
from gambrel.analysis.estimate.tiled_constants import StreamConstants
from gambrel.analysis.measures import Estimate
from gambrel.analysis.roofs import Roofs
from gambrel.device.model import Device
from gambrel.ops import Cost, OpView
from gambrel.ops.base import Size, where
from gambrel.roofline import maximum
from gambrel.runtimes import Runtime, matches

COMPUTE, MEMORY, LAUNCH = "compute", "memory", "launch"
PARTS: Final = (COMPUTE, MEMORY, LAUNCH)
#: A share of the roofline is memory where the bytes take so much of it.
_MEMORY_BOUND: Final = 0.999
#: Of `EngineConstants.constants`: shares shrink as times grow, cycles and seconds grow with them.
_ENGINE: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    COMPUTE: (("compute", "attention"), ("finish", "tap", "element")),
    MEMORY: (("memory", "cache"), ()),
    LAUNCH: ((), ("launch", "step", "start_s", "call_s")),
}
_SHARES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    COMPUTE: (("compute", "compute_stored", "matrix", "attention_compute"), ("unpack",)),
    MEMORY: (("memory", "cached", "attention"), ()),
    LAUNCH: ((), ("start_s", "exchange_s", "step_s")),
}
_CYCLES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    COMPUTE: ((), ("window", "depthwise", "linear", "finish"))
}
_STREAM: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    COMPUTE: (("window_per_s", "point_per_s", "depthwise_per_s", "norm_per_s", "pool_per_s"), ()),
    MEMORY: (("output_per_s", "passed_per_s", "switch_per_s"), ()),
    LAUNCH: ((), ("frame_s", "norm_s", "move_s", "move_frame_s", "layer_s")),
}
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def guess(runtime: str, device: str) -> Shares:
    """Shares of the roofs to scale, where nothing is known of a runtime on a class of device."""
    return Shares(
        runtime=runtime,
        match=(device,),
        memory=0.7,
        compute=0.5,
        compute_stored=0.5,
        unpack=4.0,
        start_s=5e-6,
        low=0.25,
        high=4.0,
        confidence="low",
        rows=0,
        error=0.0,
        why="shares of the roofs",
        source="",
    )


def applied(
    calibration: Calibration, runtime: Runtime, device: Device
) -> tuple[Calibration, Adjustment | None]:
    """The calibration with a user's factors on what it has of a runtime on a class of device.

    Args:
        calibration: All constants.
        runtime: The runtime.
        device: The device.

    Returns:
        The calibration, and the factors; None where there are none of this runtime and device.
    """
    ids = (runtime.id, runtime.part_of)
    mine = (a for a in calibration.adjusted if a.runtime in ids and a.device == device.id)
    one = next(mine, None)
    if one is None:
        return calibration, None
    names = {runtime.id, *runtime.constants}
    own = replace(
        calibration,
        shares=[
            _fields(c, one, _SHARES) if c.runtime in names and matches(c.match, device) else c
            for c in calibration.shares
        ],
        cycles=[
            _fields(c, one, _CYCLES) if c.runtime in names and matches(c.match, device) else c
            for c in calibration.cycles
        ],
        streams=[
            _streamed(c, one) if c.runtime in names and c.device == device.id else c
            for c in calibration.streams
        ],
        engines=[
            adjusted_engine(c, one) if c.runtime in names and matches(c.match, device) else c
            for c in calibration.engines
        ],
        language=tuple(
            _language(c, one) if c.runtime in names and matches(c.match, device) else c
            for c in calibration.language
        ),
    )
    return own, one


def guessed(one: Adjustment) -> Shares:
    """Shares where nothing is known of a runtime on a class of device."""
    return _fields(guess(one.runtime, one.device), one, _SHARES)


def adjusted_engine(c: EngineConstants, one: Adjustment) -> EngineConstants:
    """The constants of a class as they are on the device."""
    return replace(
        c,
        constants=_changed(c.constants, one.factors, _ENGINE),
        devices=(one.device,),
        low=one.low,
        high=one.high,
        confidence=one.confidence,
        why=one.why,
    )


def _language(c: LanguageRates, one: Adjustment) -> LanguageRates:
    """The rates of a class, or of a chip, as they are on the device."""
    slower = {name: 1 / one.factors[name] for name in (COMPUTE, MEMORY)}
    own = PhaseRange(low=one.low, high=one.high, confidence=one.confidence, rows=one.rows)
    return replace(
        c,
        byte_per_s=c.byte_per_s and c.byte_per_s * slower[MEMORY],
        cache_byte_per_s=c.cache_byte_per_s and c.cache_byte_per_s * slower[MEMORY],
        memory=c.memory and c.memory * slower[MEMORY],
        flop_per_s={name: n * slower[COMPUTE] for name, n in c.flop_per_s.items()},
        compute={name: n * slower[COMPUTE] for name, n in c.compute.items()},
        attention_flop_per_s=c.attention_flop_per_s and c.attention_flop_per_s * slower[COMPUTE],
        start_s=c.start_s * one.factors[LAUNCH],
        prompt_start_s=c.prompt_start_s * one.factors[LAUNCH],
        decode=own,
        prompts=c.prompts and own,
        models=one.models,
        why=one.why,
    )


def _streamed(c: StreamConstants, one: Adjustment) -> StreamConstants:
    """The constants of a chip that streams frames, with one range for any number of them."""
    found = _fields(c, one, _STREAM)
    return replace(found, low_few=one.low, high_few=one.high, rows=one.rows, models=one.models)


def _fields(
    c: _Struct, one: Adjustment, parts: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
) -> _Struct:
    """Constants with factors on their fields, their range and confidence."""
    given = {k: getattr(c, k) for pair in parts.values() for names in pair for k in names}
    said = {"why": one.why} if hasattr(c, "why") else {"held_out": one.held_out}
    changed = _changed(given, one.factors, parts)
    return replace(c, **changed, **said, low=one.low, high=one.high, confidence=one.confidence)


def _changed(
    given: Mapping[str, float | None],
    factors: Mapping[str, float],
    parts: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]],
) -> dict[str, float]:
    found = {k: v for k, v in given.items() if v is not None}
    for part, (shares, times) in parts.items():
        found |= {k: found[k] * (1 / factors[part]) for k in shares if k in found}
        found |= {k: found[k] * factors[part] for k in times if k in found}
    return found


class AdjustedKernels:
    """Predicts ops as another estimator does, with a device's own factors.

    Args:
        base: The other one.
        one: The factors.
        roofs: Of the device.
    """

    over_arrays = True

    def __init__(self, base: Predictor, one: Adjustment, roofs: Roofs) -> None:
        self._base, self._one, self._roofs = base, one, roofs

    @property
    def batched(self) -> bool:
        """As the other."""
        return self._base.batched

    @property
    def partial(self) -> bool:
        """As the other."""
        return self._base.partial

    @property
    def host_factor(self) -> float:
        """On the host's time for each launch."""
        return self._one.factors[LAUNCH]

    def in_sequence(self, view: OpView) -> bool:
        """As the other."""
        return self._base.in_sequence(view)

    def seconds(self, view: OpView, cost: Cost, roofline_time_s: Size) -> Predicted | None:
        """Of one execution, for arrays as well."""
        found = self._base.seconds(view, cost, roofline_time_s)
        if found is None:
            return None
        launch = found.launch * self._one.factors[LAUNCH]
        work = (found.seconds - found.launch) * self._factor(cost, roofline_time_s)
        whole = maximum(launch + work, roofline_time_s)
        return replace(found, seconds=whole, launch=launch)

    def estimate(
        self, view: OpView, cost: Cost, roofline_time_s: float | None, count: int = 1
    ) -> Estimate | None:
        """Of ``count`` executions, with its range."""
        found = self._base.estimate(view, cost, roofline_time_s, count)
        if found is None or roofline_time_s is None:
            return found
        return self._scaled(found, cost, roofline_time_s, roofline_time_s / count)

    def estimate_batch(self, batch: Batch, times: Sequence[float]) -> list[Estimate | None]:
        """Of ops that differ in numbers only."""
        found = self._base.estimate_batch(batch, times)
        moved = batch.cost.read_bytes + batch.cost.write_bytes
        import numpy as np

        each = np.broadcast_to(moved, len(times)).tolist()
        return [
            one if one is None else self._scaled_by(one, self._by_bytes(n, t), t)
            for one, n, t in zip(found, each, times, strict=True)
        ]

    def _scaled(self, one: Estimate, cost: Cost, roofline_time_s: float, each_s: float) -> Estimate:
        return self._scaled_by(one, float(self._factor(cost, each_s)), roofline_time_s)

    def _scaled_by(self, one: Estimate, factor: float, roofline_time_s: float) -> Estimate:
        launches = one.launches_s * self._one.factors[LAUNCH]
        value = max(launches + (one.value - one.launches_s) * factor, roofline_time_s)
        return replace(
            one,
            value=value,
            low=max(value * self._one.low, roofline_time_s),
            high=value * self._one.high,
            launches_s=min(launches, value),
            confidence=self._one.confidence,
            reason=self._one.why,
        )

    def _factor(self, cost: Cost, roofline_time_s: Size) -> Size:
        return self._by_bytes(cost.read_bytes + cost.write_bytes, roofline_time_s)

    def _by_bytes(self, moved: Size, roofline_time_s: Size) -> Size:
        """The factor of what decides the roofline."""
        rate = self._roofs.memory_byte_per_s
        factors = self._one.factors
        if not rate:
            return factors[COMPUTE]
        bound = roofline.seconds(moved, rate) >= _MEMORY_BOUND * roofline_time_s
        return where(bound, factors[MEMORY], factors[COMPUTE])
