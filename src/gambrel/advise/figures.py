"""The figures that decisions rest on, each with what is expected and what is certain.

They come from a few facts about a model on a device, so that one device and a whole catalog are
judged by the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from gambrel.advise.limits import METRICS, format_metric
from gambrel.analysis.measures import STREAMED, Estimate
from gambrel.analysis.needs import EnergyEstimate
from gambrel.analysis.result import Analysis
from gambrel.analysis.sol import Sol
from gambrel.units import format_si


class _Powered(Protocol):
    """A device, or what an analysis keeps of it."""

    @property
    def tdp_w(self) -> float | None: ...
    @property
    def typical_power_w(self) -> float | None: ...
    @property
    def idle_power_w(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one run of a model on a device.

    Attributes:
        items: Items of the batch.
        expected: Expected time of the batch; None when unknown.
        roofline_s: Roofline of the batch under its runtime; None when no roof is known.
        sol_s: Speed of light of the batch; None when no roof is known.
        least_s: What a run takes at the least by an algorithm of fewer multiplications than the
            speed of light counts, where the runtime has one; None otherwise.
        proved: Whether the ceilings of the speed of light are published ones.
        doubt: Why a time below the speed of light by a factor is not impossible; an empty text
            where it is. Called only where one is asked for.
        memory_bytes: Footprint.
        power_cap_w: The most power that the device draws; None when not published.
        typical_power_w: What it is said to draw while it works; None when unknown.
        idle_power_w: What it draws at least; None when unknown.
        left_out: Ops without a formula, which every time leaves out; see `Analysis.left_out`.
        on_host: Ops that the compiler leaves to the host, see `Analysis.on_host`.
        energy: Estimate of the energy of the run.
        price: As the user gave it.
    """

    items: int
    expected: Estimate | None
    roofline_s: float | None
    sol_s: float | None
    memory_bytes: int
    power_cap_w: float | None
    typical_power_w: float | None = None
    idle_power_w: float | None = None
    left_out: str = ""
    on_host: str = ""
    energy: EnergyEstimate | None = None
    price: float | None = None
    least_s: float | None = None
    proved: bool = True
    doubt: Callable[[float], str] = field(default=lambda _: "", compare=False, repr=False)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure.

    Attributes:
        metric: A key of `METRICS`.
        unit: Of all numbers.
        value: Expected; None when unknown.
        low: Lower end of the range; for an unknown value, what it exceeds.
        high: Upper end of the range.
        best: No run is better (times: the speed of light), which may prove that a limit cannot be
            met. None when unknown.
        worst: No run is worse; proves that a limit is met. None when nothing proves it.
        confidence: ``high``, ``medium`` or ``low``; empty when unknown.
        reason: Where the figure and its confidence come from, or why it is unknown.
    """

    metric: str
    unit: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    best: float | None = None
    worst: float | None = None
    confidence: str = ""
    reason: str = ""

    @property
    def known(self) -> bool:
        """Whether it may be called the best: its value, or what it is at the worst, is known."""
        return self.value is not None or self.worst is not None

    @property
    def counted(self) -> float | None:
        """As what it counts where the best is named: of low confidence, the worse end of the range.

        So a guess ranks before a figure that is known better only if it is better in any case.
        """
        if self.confidence != "low" or self.value is None:
            return self.value
        worse = self.low if METRICS[self.metric].more_is_better else self.high
        return self.value if worse is None else worse


def facts_on(device: _Powered, **known: Any) -> Facts:
    """Facts of a run: what is known of it, and what the device draws.

    Args:
        device: Or what an analysis keeps of it.
        known: The other attributes of `Facts`.
    """
    return Facts(
        power_cap_w=device.tdp_w,
        typical_power_w=device.typical_power_w,
        idle_power_w=device.idle_power_w,
        **known,
    )


def facts_of(analysis: Analysis) -> Facts:
    """The facts of an analysis."""
    return facts_on(
        analysis.hardware,
        items=items_of(analysis),
        expected=analysis.expected_time_s,
        roofline_s=analysis.roofline_time_s,
        sol_s=analysis.sol_time_s,
        memory_bytes=analysis.footprint.total_bytes,
        left_out=analysis.left_out,
        on_host=analysis.on_host,
        energy=analysis.energy,
        proved=analysis.sol.proves,
        doubt=lambda factor: doubt_of(analysis.sol, factor),
    )


def doubt_of(sol: Sol, factor: float) -> str:
    """Why a time below the speed of light would not be impossible; empty where it is.

    Args:
        sol: The speed of light.
        factor: How many times shorter that time is.
    """
    floor = sol.floor_time_s
    if sol.caveats and (sol.time_s is None or floor is None or sol.time_s >= floor * factor):
        return sol.caveats[0]
    return "" if sol.proves else "its ceilings were measured, not published"


def items_of(analysis: Analysis) -> int:
    """Items of the batch."""
    return analysis.model.symbols.get("batch", 1)


def cautions(expected: Estimate | None) -> tuple[str, ...]:
    """What a reader must know of the kernels behind an expected time; empty where nothing."""
    return () if expected is None or not expected.caution else (expected.caution,)


def figure(facts: Facts, metric: str) -> Figure:
    """One figure.

    Raises:
        KeyError: No such metric; callers have checked the name.
    """
    return _FIGURES[metric](facts)


def _latency(facts: Facts) -> Figure:
    """From the input of a run to its result: no less than the time between two results."""
    time = _run_time(facts)
    if facts.expected is None or not facts.expected.streamed:
        return time
    return _made(
        "latency", low=time.low, best=time.best, confidence=time.confidence, reason=STREAMED
    )


def _run_time(facts: Facts) -> Figure:
    best = facts.sol_s if facts.least_s is None else facts.least_s
    expected = facts.expected
    if expected is None:
        why = "no measurement of this runtime on this device or a similar one is known"
        if facts.on_host:
            why = f"the time is not known of {facts.on_host}"
        return _made("latency", best=best, reason=why)
    if not facts.proved or (best is not None and expected.low < best):
        best = None  # it says less than what is expected here: reached so far, or as counted
    if facts.left_out:
        why = f"not known of {facts.left_out}; the others are expected to take "
        why += format_si(expected.value, "s")
        sure = expected.confidence
        return _made("latency", low=expected.low, best=best, confidence=sure, reason=why)
    return _made(
        "latency",
        value=expected.value,
        low=expected.low,
        high=expected.high,
        best=best,
        confidence=expected.confidence,
        reason=expected.reason,
    )


def _throughput(facts: Facts) -> Figure:
    return _per("throughput", facts.items, _run_time(facts))


def _per(metric: str, number: float, cost: Figure) -> Figure:
    """So many for each second or joule: the ends of the range change places."""

    def rate(value: float | None) -> float | None:
        return number / value if value else None

    return _made(
        metric,
        value=rate(cost.value),
        low=rate(cost.high),
        high=rate(cost.low),
        best=rate(cost.best),
        worst=rate(cost.worst),
        confidence=cost.confidence,
        reason=cost.reason,
    )


def _power(facts: Facts) -> Figure:
    """The most that the device draws proves; what is expected is measured, or typical.

    An estimate from constants of the arithmetic units leaves parts out: it is a lower end alone.
    """
    cap, spent = facts.power_cap_w, _spent(facts)
    most = "no thermal design power is published"
    if cap is not None:
        most = f"at most the thermal design power of {format_metric('power', cap)}"
        most += ", host not included"
    if spent is not None and spent.power_low_w is not None:
        return _made(
            "power",
            value=spent.average_power_w,
            low=spent.power_low_w,
            high=spent.power_high_w,
            worst=cap,
            confidence=spent.confidence,
            reason=f"{spent.reason}; {most}",
        )
    if facts.typical_power_w is not None:
        return _made(
            "power",
            value=facts.typical_power_w,
            low=facts.typical_power_w,
            high=cap,
            worst=cap,
            confidence="low",
            reason=f"typical power as it is stated for the device; {most}",
        )
    if spent is None:
        why = _why_unspent(facts)
        return _made("power", low=facts.idle_power_w, worst=cap, reason=f"{most}; {why}")
    return _made(
        "power",
        low=spent.average_power_w,
        worst=cap,
        confidence=spent.confidence,
        reason=spent.reason,
    )


def _energy(facts: Facts) -> Figure:
    """Per item; at most the design power for the slow end of the time."""
    time, cap, spent = _run_time(facts), facts.power_cap_w, _spent(facts)
    most = None if cap is None or time.high is None else cap * time.high / facts.items
    if spent is None:
        return _made("energy", worst=most, reason=_why_unspent(facts))
    power = _power(facts)
    if power.value is not None and time.value is not None:
        watts = (power.value, power.low, power.high)
        ends = [
            None if w is None or t is None else w * t / facts.items
            for w, t in zip(watts, (time.value, time.low, time.high), strict=True)
        ]
        return _made(
            "energy",
            value=ends[0],
            low=ends[1],
            high=ends[2],
            worst=most,
            confidence=power.confidence,
            reason=power.reason,
        )
    joules, static, seconds = spent.energy_j, spent.static_j, spent.time_s
    least = None
    if joules is not None and static is not None and seconds and time.low is not None:
        least = (joules - static * (1 - time.low / seconds)) / facts.items
    return _made(
        "energy",
        low=least,
        worst=most,
        confidence=spent.confidence,
        reason=spent.reason,
    )


def _spent(facts: Facts) -> EnergyEstimate | None:
    """The energy of the run at the time it is expected to take; None when any part is unknown."""
    found = facts.energy
    known = found is not None and found.energy_j is not None and found.time_kind == "expected"
    return found if known and not facts.left_out else None


def _why_unspent(facts: Facts) -> str:
    found = facts.energy
    if facts.expected is None or facts.left_out or found is None:
        return "its energy cannot be estimated without an expected time"
    return f"no energy estimate: {found.reason}"


def _efficiency(facts: Facts) -> Figure:
    return _per("efficiency", 1, _energy(facts))


def _memory(facts: Facts) -> Figure:
    why = "tensors alive at once, kernel workspace where known; allocator rounding not included"
    return _exact("memory", float(facts.memory_bytes), why)


def _price(facts: Facts) -> Figure:
    if facts.price is None:
        return _made("price", reason="no price was given")
    return _exact("price", facts.price, "as given")


def _exact(metric: str, value: float, reason: str) -> Figure:
    same = {"value": value, "low": value, "high": value, "best": value}
    return _made(metric, confidence="high", reason=reason, **same)


_FIGURES: Final[dict[str, Callable[[Facts], Figure]]] = {
    "latency": _latency,
    "throughput": _throughput,
    "power": _power,
    "energy": _energy,
    "efficiency": _efficiency,
    "memory": _memory,
    "price": _price,
}


def _made(metric: str, **given: Any) -> Figure:
    return Figure(metric=metric, unit=METRICS[metric].unit, **given)
