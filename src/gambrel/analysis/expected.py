"""Expected times under a runtime: kernels, kernel-launch overhead, and the host that launches them.

The device runs its queue of kernels while the host fills it. Where the host is slower the device
waits: the run ends when both are through.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from gambrel.analysis.costs import CostTable
from gambrel.analysis.estimate.adjust import AdjustedKernels, applied, guessed
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.cycles import cycles_estimator
from gambrel.analysis.estimate.engine import EngineEstimator, engine_estimator
from gambrel.analysis.estimate.estimator import Estimator, Predictor
from gambrel.analysis.estimate.kinship import FRAMEWORKS
from gambrel.analysis.estimate.language import for_language, language_estimator
from gambrel.analysis.estimate.shares import OpsEstimator, shares_estimator, shares_of
from gambrel.analysis.estimate.stream import StreamEstimator, stream_estimator
from gambrel.analysis.estimate.tiled import TiledEstimator, tiled_estimator
from gambrel.analysis.estimate.tiled_work import inputs_at_once
from gambrel.analysis.estimate.totals import total
from gambrel.analysis.evaluation import Evaluation, Resource
from gambrel.analysis.item_times import ItemTimes, item_times
from gambrel.analysis.measures import Bound, Estimate, Limiter
from gambrel.analysis.queue import State, behind
from gambrel.analysis.roofs import Roofs, of_one_die
from gambrel.analysis.settings import Settings
from gambrel.device.model import Device
from gambrel.dtypes import bits_of_weights
from gambrel.ops import Cost
from gambrel.ops.base import Size
from gambrel.ops.base import total as summed
from gambrel.roofline import maximum
from gambrel.runtimes import Host, Kernels, Runtime

#: Engines beside the one that the constants of a device are of.
BESIDE: Final = frozenset({"dla", "npu"})
#: Predicts kernel by kernel, or whole runs.
Whole: TypeAlias = TiledEstimator | StreamEstimator | EngineEstimator
Forecaster: TypeAlias = Predictor | Whole

#: From this share of the time on, a host that was not measured is worth a lower confidence.
_HOST_MATTERS: Final = 0.2
_LEVELS: Final = ("high", "medium", "low")
LIMITERS: Final = {
    Bound.COMPUTE: Limiter.COMPUTE,
    Bound.MEMORY: Limiter.MEMORY,
    Bound.NETWORK: Limiter.NETWORK,
}


#: Seconds that a device waits for the host in all, as expected and at both ends of the range.
Waits: TypeAlias = tuple[float, float, float]


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """Expected times of a cost table.

    Attributes:
        items: Of one execution of each item; None where nothing is known of it. Empty where many
            devices are asked for the same table.
        total: Of the run; None where nothing is known of any.
        limited_by: What takes the largest share of the run; None without an expected time.
        limiters: The same of each item, where the prediction says it; else its roofline decides.
    """

    items: tuple[Estimate | None, ...]
    total: Estimate | None
    limited_by: Limiter | None
    limiters: tuple[Limiter, ...] = ()

    def no_faster_than(
        self, sol_time_s: float | None, *, proved: bool, least_s: float | None = None
    ) -> Expected:
        """The same with the run and its range cut at the speed of light, which is said.

        Args:
            sol_time_s: Of the run.
            proved: Whether no run is faster. Where its ceilings are only the best that anybody
                reached, the range reaches up to it instead.
            least_s: What a run takes at the least by an algorithm of fewer multiplications than
                are counted; None where there is none.
        """
        one = self.total
        if one is None or sol_time_s is None or one.low >= sol_time_s:
            return self
        if least_s is not None:
            why = f"{one.reason}; Winograd's algorithm multiplies less than is counted"
            cut = replace(_raised(one, least_s), low=max(one.low, least_s), reason=why)
            return replace(self, total=cut)
        if not proved and one.value < sol_time_s:
            why = f"{one.reason}; no run so far reached the rate that this takes"
            seen = replace(one, high=max(one.high, sol_time_s), confidence="low", reason=why)
            return replace(self, total=seen)
        cut = replace(
            _raised(one, sol_time_s),
            low=sol_time_s,
            reason=f"{one.reason}; the range is cut at the speed of light",
        )
        return replace(self, total=cut)

    def less_sure(self, why: str) -> Expected:
        """The same with low confidence."""
        one = self.total
        if one is None:
            return self
        return replace(self, total=replace(one, confidence="low", reason=f"{one.reason}; {why}"))

    def with_unpacking(self, runtime: str, precision: str) -> Expected:
        """The same with a range that holds a run that unpacks its weights, of low confidence.

        Weights of b bits are then read, written in 16 and read again, (b + 32) / b times their
        bytes, and each kernel has another before it.

        Args:
            runtime: Which has no kernels for the format.
            precision: The format.
        """
        one, bits = self.total, bits_of_weights(precision)
        if one is None or bits is None:
            return self
        started = one.launches_s + one.host_s
        more = max(one.value - started, 0.0) * _UNPACKED_BITS / bits + started
        why = f"{one.reason}; {runtime} has no kernels of its own in {precision}"
        return replace(self, total=replace(one, high=one.high + more, confidence="low", reason=why))


#: Bits that unpacking moves beside the packed ones: 16 written, 16 read.
_UNPACKED_BITS: Final = 32


def _raised(one: Estimate, least: float) -> Estimate:
    """The same with a value of ``least`` at least; the range reaches as far above it as before."""
    value = max(one.value, least)
    return replace(one, value=value, high=one.high * value / one.value)


def at_the_roofline(expected: Expected, table: CostTable, evaluation: Evaluation) -> Expected:
    """The same with the run no shorter than its kernels take by the roofline.

    Kernels of an engine follow one another; the form was fitted to networks of convolutions and
    GEMMs, and says too little of others.
    """
    one = expected.total
    if one is None:
        return expected
    least = float(_kernels_s(evaluation, table))
    if one.value >= least:
        return expected
    cut = replace(
        _raised(one, least),
        confidence="low",
        reason=f"{one.reason}; raised to the roofline of its kernels",
    )
    return replace(expected, total=cut)


def _kernels_s(evaluation: Evaluation, table: CostTable) -> Size:
    """Roofline time of all kernels of known roofs, one after another."""
    if evaluation.time_s is not None:
        return evaluation.time_s
    pairs = zip(evaluation.times, table.items, strict=True)
    return summed(t * item.count for t, item in pairs if t is not None)


def estimator_of(
    roofs: Roofs, runtime: Runtime, settings: Settings, *, language: bool = False
) -> Forecaster | None:
    """What predicts a runtime on a device; None where nothing of it was measured.

    Nothing was of accelerators beside a GPU: they run no kernels, and a host does not launch them.

    Args:
        roofs: Of the device.
        runtime: That runs the workload.
        settings: Whose constants count.
        language: Whether a phase of a language model is to run.
    """
    if roofs.engine in BESIDE:
        return None
    constants = runtime.constants
    calibration, one = applied(settings.calibration or packaged(), runtime, roofs.device)
    if language:
        calibration = for_language(calibration, runtime)
    whole = tiled_estimator(roofs.device, constants, calibration)
    stream = stream_estimator(roofs.device, constants, calibration)
    if whole is not None or stream is not None:
        return whole or stream
    core = cycles_estimator(runtime, roofs.device, calibration)
    core = core or language_estimator(runtime, roofs, calibration)
    if core is not None:
        return core
    kernels = [name for name in constants if name in FRAMEWORKS]
    single: Estimator | None = None
    if kernels:
        compiled = runtime.kernels not in (Kernels.OP, Kernels.FUNCTION)
        single = Estimator(of_one_die(roofs), calibration, kernels[0], compiled=compiled)
    engine = engine_estimator(roofs, constants, calibration, single)
    if engine is not None:
        return engine
    if single is not None and single.knows:
        return single if one is None else AdjustedKernels(single, one, roofs)
    shares = shares_of(runtime, roofs, calibration)
    if shares is not None:
        return shares_estimator(roofs, shares)
    if one is not None and roofs.memory_byte_per_s:
        return shares_estimator(roofs, guessed(one))
    return single


def fitting(table: CostTable, estimator: Forecaster | None) -> Forecaster | None:
    """The estimator that describes a table: an engine's, or that of its kernels one by one."""
    if isinstance(estimator, OpsEstimator):
        return estimator.at(inputs_at_once(table))
    return estimator.suited(table) if isinstance(estimator, EngineEstimator) else estimator


def expected_times(
    table: CostTable,
    evaluation: Evaluation,
    estimator: Forecaster | None,
    runtime: Runtime,
    device: Device,
) -> Expected:
    """The expected time of every item and of the run.

    Args:
        table: Of the workload under the runtime.
        evaluation: Of the table on the device.
        estimator: Of kernels; None where nothing is known.
        runtime: That runs it.
        device: The machine.
    """
    estimator = fitting(table, estimator)
    if estimator is None:
        return Expected(items=(None,) * len(table.items), total=None, limited_by=None)
    if isinstance(estimator, EngineEstimator):
        return at_the_roofline(_whole(table, estimator), table, evaluation)
    if isinstance(estimator, Whole):
        return _whole(table, estimator)
    items = item_times(table, evaluation, estimator)
    return _of_items(items, table, evaluation, estimator, runtime, device)


def _of_items(
    items: ItemTimes,
    table: CostTable,
    evaluation: Evaluation,
    estimator: Predictor,
    runtime: Runtime,
    device: Device,
) -> Expected:
    """The expected time of the run from those of its items."""
    if not estimator.partial and lacks(items, table):
        return Expected(items=items, total=None, limited_by=None)
    whole = total(
        (_times(one, item.count), None if t is None else t * item.count)
        for one, t, item in zip(items, evaluation.times, table.items, strict=True)
    )
    if whole is None:
        return Expected(items=items, total=None, limited_by=None)
    if isinstance(estimator, OpsEstimator):
        whole = estimator.of_run(whole)
    host = host_on(runtime, device, estimator)
    waits = None if host is None else _waits(table, items, evaluation, host)
    whole = with_host(whole, waits, runtime, device, host)
    spent = [None if one is None else one.value - one.launches_s for one in items]
    if isinstance(estimator, OpsEstimator) and estimator.limiter is not None:
        limiters = tuple(estimator.limiter(item.view, item.cost) for item in table.items)
        most = most_of(limiters, spent, table, whole)
        return Expected(items=items, total=whole, limited_by=most, limiters=limiters)
    return Expected(
        items=items, total=whole, limited_by=limiter_of_run(table, evaluation, spent, whole)
    )


def most_of(
    limiters: Sequence[Limiter],
    spent: Sequence[float | None],
    table: CostTable,
    whole: Estimate,
) -> Limiter:
    """What takes the largest share, where the prediction says what decides each op."""
    shares: dict[Limiter, float] = defaultdict(float)
    shares[Limiter.LAUNCHES] = whole.launches_s
    for limiter, seconds, item in zip(limiters, spent, table.items, strict=True):
        shares[limiter] += (seconds or 0.0) * item.count
    return max(shares, key=lambda name: shares[name])


def expected_seconds(
    table: CostTable,
    evaluation: Evaluation,
    estimator: Forecaster | None,
    runtime: Runtime,
    device: Device,
) -> tuple[Size, Size] | None:
    """The expected time of the run at every point of a sweep, without its range.

    Returns:
        Seconds, and how many of them the device waits for the host; None where nothing is known.
    """
    estimator = fitting(table, estimator)
    if estimator is None:
        return None
    if isinstance(estimator, Whole):
        whole = estimator.seconds(table)
        if whole is None or not isinstance(estimator, EngineEstimator):
            return whole
        return maximum(whole[0], _kernels_s(evaluation, table)), whole[1]
    bare = isinstance(estimator, OpsEstimator)  # needs no roofline
    found = [
        estimator.seconds(item.view, item.cost, 0.0 if t is None else t)
        if bare or t is not None
        else None
        for t, item in zip(evaluation.times, table.items, strict=True)
    ]
    if all(one is None for one in found) or (not estimator.partial and lacks(found, table)):
        return None
    seconds: list[Size] = []
    for one, t, item in zip(found, evaluation.times, table.items, strict=True):
        floor = 0.0 if t is None else t
        alone = floor if one is None else one.seconds
        if one is not None and item.launches != 1 and not estimator.in_sequence(item.view):
            alone = maximum(floor, alone + one.launch * (item.launches - 1))
        seconds.append(alone)
    host = host_on(runtime, device, estimator)
    busy = sum(s * item.count for s, item in zip(seconds, table.items, strict=True))
    if isinstance(estimator, OpsEstimator):
        busy = busy + estimator.run_s
    if host is None:
        return busy, 0.0
    latencies = [0.0 if one is None else one.latency for one in found]
    waits = waited(table, seconds, latencies, host.per_launch_s) + host.per_run_s
    return busy + waits, waits


def lacks(found: Sequence[object], table: CostTable) -> bool:
    """Whether an op that does something has no prediction; a repeated one does nothing."""
    pairs = zip(found, (item.cost for item in table.items), strict=True)
    return any(one is None and not does_nothing(cost) for one, cost in pairs)


def does_nothing(cost: Cost) -> bool:
    """Whether an op neither computes nor moves anything, at one point."""
    moved = cost.read_bytes + cost.write_bytes
    return not cost.work and isinstance(moved, (int, float)) and not moved


def _whole(table: CostTable, estimator: Whole) -> Expected:
    times = estimator.times(table)
    if times is None:
        return Expected(items=(None,) * len(table.items), total=None, limited_by=None)
    return Expected(
        items=times.items,
        total=times.total,
        limited_by=times.limited_by,
        limiters=times.limiters,
    )


def limiter_of(estimate: Estimate | None, limit: Resource | None) -> Limiter | None:
    """What takes the largest share of the expected time of one op."""
    if estimate is None or limit is None:
        return None
    shares = {
        LIMITERS[limit[1]]: estimate.value - estimate.launches_s - estimate.host_s,
        Limiter.LAUNCHES: estimate.launches_s,
        Limiter.HOST: estimate.host_s,
    }
    return max(shares, key=lambda name: shares[name])


def waited(
    table: CostTable, seconds: Sequence[Size], latencies: Sequence[Size], per_launch_s: Size
) -> Size:
    """How long the device waits for the host in all, s; seconds and latencies by item."""
    busy: Size = 0.0
    found: State = (0.0, 0.0)
    for times, handed in table.queue:
        rows = [(seconds[i], launches, latencies[i]) for i, launches in handed]
        found = behind(found, rows, times, per_launch_s)
        busy = busy + times * sum(one for one, _, _ in rows)
    return maximum(0.0, found[1] - busy)


def _times(one: Estimate | None, count: int) -> Estimate | None:
    return None if one is None else one.times(count)


def with_host(
    whole: Estimate, waits: Waits | None, runtime: Runtime, device: Device, host: Host | None
) -> Estimate:
    """The estimate with the time that the device waits for the host.

    Args:
        whole: Of the run, without it.
        waits: See `Waits`; None without a host that is known.
        runtime: That runs it.
        device: The machine.
        host: What it takes.
    """
    if host is None or waits is None:
        unknown = not runtime.graph and bool(runtime.host) and device.category != "cpu"
        if not unknown:
            return whole
        reason = f"{whole.reason}; host time with this class of device is not known"
        return replace(whole, confidence="low", reason=reason)
    value, low, high = waits
    value = value + host.per_run_s
    found = replace(
        whole,
        value=whole.value + value,
        low=whole.low + low,
        high=whole.high + (high + host.per_run_s),
        host_s=value,
    )
    return _host_confidence(found, host) if found.host_share > _HOST_MATTERS else found


def host_on(runtime: Runtime, device: Device, estimator: Predictor) -> Host | None:
    """The host time with a device, by a user's own runs where there are some."""
    host = runtime.host_on(device)
    if host is None or not isinstance(estimator, AdjustedKernels):
        return host
    names = ("per_launch_s", "low_s", "high_s", "per_run_s")
    own = {name: getattr(host, name) * estimator.host_factor for name in names}
    return replace(host, **own)


def _host_confidence(found: Estimate, host: Host) -> Estimate:
    level = max(found.confidence, "medium", key=_LEVELS.index)
    reason = (
        f"the host needs {host.low_s * 1e6:.0f} to {host.high_s * 1e6:.0f} µs for each launch on "
        f"the machines that were measured; {found.reason}"
    )
    return replace(found, confidence=level, reason=reason)


def _waits(
    table: CostTable, items: Sequence[Estimate | None], evaluation: Evaluation, host: Host
) -> Waits:
    """How long the device waits for the host."""
    latencies = [0.0 if one is None else one.idle_start_s for one in items]

    def at(end: str, per_launch_s: float) -> float:
        pairs = zip(items, evaluation.times, strict=True)
        seconds = [(t if one is None else getattr(one, end)) or 0.0 for one, t in pairs]
        return float(waited(table, seconds, latencies, per_launch_s))

    return at("value", host.per_launch_s), at("low", host.low_s), at("high", host.high_s)


def limiter_of_run(
    table: CostTable,
    evaluation: Evaluation,
    spent: Sequence[float | None],
    whole: Estimate,
) -> Limiter | None:
    """What takes the largest share; ``spent``: of each item its time without launches, if known."""
    shares: dict[Limiter, float] = defaultdict(float)
    shares[Limiter.HOST] = whole.host_s
    shares[Limiter.LAUNCHES] = whole.launches_s
    for seconds, time_s, limit, item in zip(
        spent, evaluation.times, evaluation.limits, table.items, strict=True
    ):
        if limit is not None:
            own = time_s or 0.0 if seconds is None else seconds
            shares[LIMITERS[limit[1]]] += own * item.count
    return max(shares, key=lambda name: shares[name]) if any(shares.values()) else None
