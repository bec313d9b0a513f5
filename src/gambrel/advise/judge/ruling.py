"""From a measured time and limits to a ruling with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gambrel import roofline
from gambrel.advise.judge.causes import causes_of
from gambrel.advise.judge.records import CandidateRun, Judgement, KernelLimits, Ruling
from gambrel.units import format_number, format_percent, format_si

#: Share of the speed of light from which on nothing is left to gain: our choice, stated in the
#: documentation; DRAM refresh and the start and end of a kernel alone take several per cent.
STOP: Final = 0.85
#: A chip may run above the clock of its datasheet: an H100 SXM is rated at 1,830 MHz and clocks up
#: to 1,980 MHz (NVIDIA H100 data sheet and nvidia-smi -q -d CLOCK, 2023): 8 %.
CLOCK: Final = 1980 / 1830


#: Rulings under which a score would say nothing.
_NO_SCORE: Final = frozenset({Ruling.INVALID, Ruling.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A time to be judged.

    Attributes:
        time_s: Seconds; None where a candidate did not get so far.
        origin: Where it comes from.
        baseline_s: Time of a baseline; None takes the expected library kernel.
        whole_s: Time of the whole model that this is a part of; None for none.
        rest_s: Time of what is beside it, where the whole is estimated.
        trial: How a candidate was run.
        elsewhere: What it was measured on, where that is not the device that is asked about.
    """

    time_s: float | None
    origin: str
    baseline_s: float | None = None
    whole_s: float | None = None
    rest_s: float | None = None
    trial: CandidateRun | None = None
    elsewhere: str = ""


def rule(limits: KernelLimits, measured: Measured) -> Judgement:
    """Judges a measured time.

    Args:
        limits: What the device allows.
        measured: The time and where it comes from.
    """
    time_s, cold = measured.time_s, limits.cold_time_s
    ruling, reason, causes = _decide(limits, measured)
    base = measured.baseline_s
    baseline = "as given" if base is not None else f"expected of {limits.library}"
    if base is None:
        base = limits.library_time_s
    known = time_s is not None and cold is not None and ruling not in _NO_SCORE
    open_ = known and ruling is not Ruling.IMPOSSIBLE
    headroom = max(time_s - cold, 0.0) if time_s is not None and cold is not None else None
    return Judgement(
        reference=limits.reference,
        hardware=limits.hardware,
        ruling=ruling,
        reason=reason,
        measured_time_s=time_s,
        origin=measured.origin,
        limits=limits,
        score=_ratio(cold, time_s) if known else None,
        headroom_factor=_ratio(time_s, cold) if open_ else None,
        headroom_s=headroom if open_ else None,
        headroom_share=_ratio(headroom, _whole(measured)) if open_ else None,
        gap_closed=_gap_closed(base, time_s, cold) if open_ else None,
        baseline_time_s=base,
        baseline=baseline if base is not None else "",
        causes=causes,
        trial=measured.trial,
        notes=limits.notes,
    )


def _decide(limits: KernelLimits, measured: Measured) -> tuple[Ruling, str, tuple[str, ...]]:
    trial, time_s = measured.trial, measured.time_s
    wrong = [] if trial is None else [f for f in trial.findings if f.invalid]
    if wrong:
        return Ruling.INVALID, f"{wrong[0].name}: {wrong[0].about}", ()
    if measured.elsewhere:
        why = f"measured on {measured.elsewhere}, which says nothing about {limits.hardware}"
        right = "" if trial is None else "; its outputs are right"
        return Ruling.UNKNOWN, f"{why}{right}", ()
    if time_s is None or limits.cold_time_s is None or limits.sol_time_s is None:
        missing = ", ".join(limits.unknown) or "a ceiling"
        what = "nothing was measured" if time_s is None else f"not known: {missing}"
        return Ruling.UNKNOWN, what, ()
    if time_s * CLOCK < limits.sol_time_s:
        return _too_fast(limits, time_s)
    if time_s <= roofline.seconds(limits.cold_time_s, STOP):
        return Ruling.AT_LIMIT, _at_limit(limits, time_s), ()
    return (*_headroom(limits, time_s), ())


def _too_fast(limits: KernelLimits, time_s: float) -> tuple[Ruling, str, tuple[str, ...]]:
    light = format_si(limits.sol_time_s, "s")
    floor = limits.floor_time_s
    if limits.caveats and (floor is None or time_s * CLOCK >= floor):
        why = f"faster than the work as counted allows ({light}), where {limits.caveats[0]}"
        return Ruling.AT_LIMIT, why, ()
    if not limits.proves:
        why = (
            f"faster than the best figure known of this device allows ({light}), which is no "
            "published limit"
        )
        return Ruling.AT_LIMIT, why, ()
    why = f"no run of this work on {limits.hardware} is faster than {light}"
    if limits.caveats and floor is not None:
        least = format_si(floor, "s")
        why += f", nor than {least} with the fewest operations of any algorithm"
    return Ruling.IMPOSSIBLE, why, causes_of(limits, time_s)


def _at_limit(limits: KernelLimits, time_s: float) -> str:
    cold = limits.cold_time_s or 0.0
    share = format_percent(min(_ratio(cold, time_s) or 0.0, 1.0))
    if time_s < cold:
        return (
            f"faster than the memory allows with cold caches ({format_si(cold, 's')}): data stayed "
            "on chip between runs, or the clock was above the datasheet's; flush the L2 to see "
            "which"
        )
    bound = limits.bound.value if limits.bound else "unknown"
    return f"{share} of the {bound} limit: stop"


def _headroom(limits: KernelLimits, time_s: float) -> tuple[Ruling, str]:
    expected, cold = limits.library_expected, limits.cold_time_s or 0.0
    factor = format_number(_ratio(time_s, cold))
    if expected is None:
        return Ruling.HEADROOM, f"headroom {factor}×; no library kernel is known here"
    library = f"{limits.library}'s kernel is expected to take {format_si(expected.value, 's')}"
    if time_s > expected.high:
        ahead = format_number(_ratio(time_s, expected.value))
        return Ruling.HEADROOM, f"headroom {factor}×: {library}, {ahead}× faster than this"
    launch = ""
    if expected.launches_s + expected.host_s > expected.value / 2:
        launch = (
            f"; {format_si(expected.launches_s + expected.host_s, 's')} of that is launch overhead:"
            " fuse it with its neighbours or use a graph"
        )
    if time_s >= expected.low:
        return Ruling.LIBRARY, f"{library}{launch}; the limit is {factor}× away"
    return Ruling.HEADROOM, f"headroom {factor}×, and already faster than the library: {library}"


def _whole(measured: Measured) -> float | None:
    if measured.rest_s is None or measured.time_s is None:
        return measured.whole_s
    return measured.rest_s + measured.time_s


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else roofline.ratio(a, b)


def _gap_closed(base: float | None, time_s: float | None, cold: float | None) -> float | None:
    """Share of the way from a baseline to the speed of light; negative when slower than it."""
    if base is None or time_s is None or cold is None or base <= cold:
        return None
    return roofline.ratio(base - time_s, base - cold)
