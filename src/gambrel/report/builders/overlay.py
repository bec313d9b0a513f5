"""An analysis with measured times beside the expected ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from gambrel.analysis.measures import Estimate
from gambrel.analysis.overlay import Overlay
from gambrel.analysis.result import OpResult
from gambrel.report.blocks import (
    Column,
    DataTable,
    Document,
    KeyFigure,
    Notes,
    figures,
    seconds,
    section,
)
from gambrel.report.builders import analysis as report
from gambrel.report.options import Options
from gambrel.report.terms import range_text
from gambrel.units import format_number, format_si

Row = tuple[OpResult, float | None]


def document(overlay: Overlay, options: Options) -> Document:
    """The document of the analysis; the measured time leads."""
    made = report.document(overlay.analysis, options)
    ranked = slowest(overlay)
    first, *rest = made.sections
    blocks = tuple(
        _measured(b, ranked) if isinstance(b, DataTable) and b.linked else b for b in first.blocks
    )
    notes = section(Notes(heading="Measured", items=overlay.notes, style="warning"))
    shown = [
        replace(first, blocks=blocks),
        *([notes] if overlay.notes else []),
        *rest,
    ]
    return replace(
        made,
        answer=(_answer(overlay), *made.answer),
        sections=tuple(shown),
        figures=(_figure(overlay), *made.figures[:5]),
    )


def slowest(overlay: Overlay) -> list[Row]:
    """The rows in the order of the table of ops."""
    return sorted(overlay.rows(), key=lambda row: -report.seconds_of(row[0].measures))


def _answer(overlay: Overlay) -> str:
    time = format_si(overlay.measured_time_s, "s")
    return f"Measured: {time}{_beside(overlay)}; {_matched(overlay)}"


def _beside(overlay: Overlay) -> str:
    """The measured time by the expected one, and whether it is within the range."""
    measured, expected = overlay.measured_time_s, overlay.analysis.expected_time_s
    if not measured or expected is None or not expected.value:
        return ""
    inside = expected.low <= measured <= expected.high
    where = "within" if inside else "outside"
    times = format_number(measured / expected.value, 3)
    return f", {times}× the expected {format_si(expected.value, 's')} ({where} its range)"


def _matched(overlay: Overlay) -> str:
    return f"{overlay.matched:,} of {len(overlay.times_s):,} ops are in {overlay.label}"


def _figure(overlay: Overlay) -> KeyFigure:
    expected = overlay.analysis.expected_time_s
    return KeyFigure(
        label="measured time",
        text=format_si(overlay.measured_time_s, "s"),
        note=f"expected {range_text(expected)}" if expected else "",
        key="measured_time_s",
        formula="time of the whole in the recording",
        source=overlay.label + (f", on {overlay.hardware}" if overlay.hardware else ""),
        confidence="; ".join(overlay.notes),
    )


def _measured(table: DataTable, ranked: Sequence[Row]) -> DataTable:
    """The table of ops with what was measured of each, after the expected times."""
    columns: list[Column] = list(table.columns)
    keys = [c.key for c in columns]
    after = "expected_time_s" if "expected_time_s" in keys else "roofline_time_s"
    at = keys.index(after) + 1
    columns[at:at] = _columns(ranked)
    return replace(table, columns=tuple(columns))


def _columns(ranked: Sequence[Row]) -> Iterator[Column]:
    yield figures("measured", (time for _, time in ranked), seconds, "measured_time_s")
    ratios = [_ratio(op.measures.expected_time_s, time) for op, time in ranked]
    if any(ratios):
        yield figures("× expected", ratios, _times, "ratio", priority=3)


def _ratio(expected: Estimate | None, time: float | None) -> float | None:
    return time / expected.value if time and expected and expected.value else None


def _times(value: float | None) -> str:
    return "–" if value is None else f"{format_number(value, 3)}×"


def content(overlay: Overlay, _options: Options | None = None) -> dict[str, Any]:
    """What was measured, and each op's times."""
    analysis = overlay.analysis
    ops = [
        {
            "name": op.name,
            "measured_time_s": time,
            "expected_time_s": op.measures.expected_time_s and op.measures.expected_time_s.value,
            "roofline_time_s": op.measures.roofline_time_s,
        }
        for op, time in zip(analysis.ops, overlay.times_s, strict=True)
    ]
    return {
        "model": analysis.model,
        "hardware": analysis.hardware.id,
        "label": overlay.label,
        "measured_time_s": overlay.measured_time_s,
        "measured_on": overlay.hardware,
        "notes": overlay.notes,
        "ops": ops,
    }
