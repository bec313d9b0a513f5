"""The way from the speed of light to a measured time, one cause after another."""

from __future__ import annotations

from collections.abc import Sequence

from gambrel.advise.judge.records import Gap, GapStep, Judgement, Ruling
from gambrel.analysis.result import Analysis
from gambrel.units import format_percent, format_si


def gap(judged: Judgement, analyses: Sequence[Analysis]) -> Gap:
    """Explains a ruling.

    Args:
        judged: The ruling.
        analyses: The same work under the runtimes that were compared.
    """
    steps = _steps(judged, analyses)
    return Gap(
        reference=judged.reference,
        hardware=judged.hardware,
        ruling=judged.ruling,
        reason=judged.reason,
        measured_time_s=judged.measured_time_s,
        score=judged.score,
        steps=steps,
        next=_next(judged, steps),
    )


def _steps(judged: Judgement, analyses: Sequence[Analysis]) -> tuple[GapStep, ...]:
    limits = judged.limits
    best = next((a for a in analyses if a.runtime == limits.library), analyses[0])
    bound = limits.bound.value if limits.bound else "unknown"
    known = [
        ("speed of light", limits.sol_time_s, f"{bound} sets it"),
        ("cold caches", limits.cold_time_s, _cold(judged)),
        ("kernels of the runtime", best.roofline_time_s, _roofline(best)),
        ("what a library reaches", _without_launch(judged), "waves, alignment, ramp-up"),
        (
            "launch overhead",
            limits.library_time_s,
            "a graph or fusion hides it",
        ),
        ("this kernel", judged.measured_time_s, "slower than a library kernel"),
    ]
    steps: list[GapStep] = []
    before = 0.0
    for name, time_s, about in known:
        if time_s is None or (steps and time_s <= before):
            continue
        if judged.measured_time_s is not None and time_s > judged.measured_time_s:
            continue  # what is faster than a step did not take it
        steps.append(GapStep(name=name, time_s=time_s, added_s=time_s - before, about=about))
        before = time_s
    return tuple(steps)


def _without_launch(judged: Judgement) -> float | None:
    expected = judged.limits.library_expected
    return None if expected is None else expected.value - judged.limits.launch_s


def _cold(judged: Judgement) -> str:
    traffic = format_si(judged.limits.traffic_bytes, "B")
    return f"{traffic} cross the memory"


def _roofline(analysis: Analysis) -> str:
    moved = format_si(analysis.traffic_bytes, "B")
    return f"{analysis.launches} kernels move {moved}"


def _next(judged: Judgement, steps: Sequence[GapStep]) -> str:
    """The largest step that somebody can do something about."""
    if judged.ruling is Ruling.IMPOSSIBLE:
        return f"check the measurement first: {judged.causes[0]}" if judged.causes else ""
    if judged.ruling is Ruling.AT_LIMIT:
        return "stop: spend the effort on another kernel"
    open_ = [step for step in steps[1:] if step.added_s > 0]
    if not open_:
        return "nothing above the speed of light is known"
    largest = max(open_, key=lambda step: step.added_s)
    whole = judged.measured_time_s or largest.time_s
    share = format_percent(largest.added_s / whole)
    return f"{largest.name}: {share} of the time, {largest.about}"
