"""A ruling on a measured time: the verdict leads, then the limits that it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gambrel.advise.judge.records import CandidateRun, Gap, Judgement, Ruling
from gambrel.report.blocks import (
    Document,
    FactList,
    KeyFigure,
    Notes,
    section,
    sections,
)
from gambrel.report.builders.kernel_limits import facts, library_text, limit_figures
from gambrel.report.options import Options
from gambrel.units import format_number, format_percent, format_si

_STYLES: Final = {
    Ruling.IMPOSSIBLE: "fail",
    Ruling.INVALID: "fail",
    Ruling.UNKNOWN: "warning",
    Ruling.AT_LIMIT: "total",
    Ruling.LIBRARY: "total",
}


def document(found: Judgement, _options: Options) -> Document:
    """Verdict, measured time with its score, headroom."""
    return Document(
        title=f"{found.reference} on {found.hardware}, {found.limits.precision}",
        answer=(
            ruled(found),
            f"Measured: {format_si(found.measured_time_s, 's')} ({found.origin}){_score(found)}",
            *((f"Headroom: {_headroom(found)}",) if found.headroom_s is not None else ()),
        ),
        style=_STYLES.get(found.ruling, ""),
        sections=sections(
            section(Notes(heading="What would explain it", items=found.causes)),
            section(FactList(items=facts(found.limits), heading="Limits")),
            section(FactList(items=(("Library", library_text(found.limits)),))),
            section(FactList(items=_trial(found.trial), heading="Run")),
            section(Notes(heading="Notes", items=found.notes), folded="notes"),
        ),
        source="the measured time and the limits of the device",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: Judgement) -> Iterator[KeyFigure]:
    yield measured_figure(found, found.origin)
    yield from limit_figures(found.limits)
    yield from score_figures(found)
    if found.headroom_s is not None:
        yield KeyFigure(
            label="headroom",
            text=format_si(found.headroom_s, "s", 3),
            note=f"{format_number(found.headroom_factor, 3)}×",
            formula="measured time - speed of light with cold caches",
        )


def measured_figure(found: Judgement | Gap, note: str = "") -> KeyFigure:
    """The time that is judged."""
    return KeyFigure(
        label="measured",
        text=format_si(found.measured_time_s, "s"),
        note=note,
        key="measured_time_s",
        formula="as given, or the median of the runs",
    )


def score_figures(found: Judgement | Gap) -> Iterator[KeyFigure]:
    """The score, where there is a limit to score against."""
    if found.score is not None:
        yield KeyFigure(
            label="score",
            text=format_number(found.score, 3),
            note="1 is the limit",
            formula="speed of light with cold caches / measured time",
        )


def ruled(found: Judgement | Gap) -> str:
    """The ruling and its reason, of which each word stands there once."""
    word = found.ruling.value
    if found.reason.startswith(f"{word} "):
        return f"{word.upper()}{found.reason[len(word) :]}"
    return f"{word.upper()}: {found.reason}"


def _score(found: Judgement) -> str:
    if found.score is None:
        return ""
    closed, base = found.gap_closed, found.baseline_time_s
    text = f", score {format_number(found.score)}"
    if closed is None:
        return text
    named = f"{format_si(base, 's')} {found.baseline}"
    if closed < 0:
        return f"{text}; slower than {named}"
    return f"{text}; {format_percent(closed)} of the way from {named} to the limit"


def _headroom(found: Judgement) -> str:
    share = found.headroom_share
    whole = "" if share is None else f", {format_percent(share)} of the whole model"
    if not found.headroom_s:
        return "none"
    return f"{format_si(found.headroom_s, 's')} ({format_number(found.headroom_factor)}×){whole}"


def _trial(trial: CandidateRun | None) -> tuple[tuple[str, str], ...]:
    if trial is None:
        return ()
    spread = f"{format_si(trial.low_s, 's')} to {format_si(trial.high_s, 's')}"
    items = [("Device", trial.device)]
    if trial.time_s is not None:
        items.append(
            ("Time", f"{format_si(trial.time_s, 's')} median, {spread}, {trial.samples:,} calls")
        )
        items.append(("Before", f"{trial.warmup_count} calls to warm up; {trial.cache}"))
    if trial.error_share is not None:
        allowed = format_number(trial.tolerance_share)
        items.append(
            ("Error", f"{format_number(trial.error_share)} of the largest value, {allowed} allowed")
        )
    if trial.inputs:
        items.append(("Inputs", ", ".join(trial.inputs)))
    items += [(f.name, f.about) for f in trial.findings]
    return tuple(items)
