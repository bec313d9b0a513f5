"""A gate: what got worse leads; every metric follows."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gambrel.advise.gate.records import GateRecorded, GateReport, GateRow, GateState
from gambrel.report.blocks import (
    Document,
    KeyFigure,
    Notes,
    col,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.units import format_count, format_number, format_percent, format_si

_STYLES: Final = {
    GateState.REGRESSION: "fail",
    GateState.VANISHED: "fail",
    GateState.INVALID: "fail",
    GateState.IMPROVED: "total",
}

#: Units that are shown shorter.
_UNITS: Final = {"byte": "B"}
#: Columns to which names may be shortened: what a model, a device and a figure take.
_NAME: Final = 34


def document(found: GateReport | GateRecorded, _options: Options) -> Document:
    """The report of a check, or what was recorded."""
    return _recorded(found) if isinstance(found, GateRecorded) else _report(found)


def _report(found: GateReport) -> Document:
    counts = Counter(row.state for row in found.rows)
    said = ", ".join(f"{n:,} {state.value}" for state, n in sorted(counts.items(), key=_rank))
    worst = found.rows[0]
    lead = (f"Worst: {worst.metric}, {worst.about}",) if worst.state.fails else ()
    return Document(
        title=f"Gate against {found.baseline_file}",
        answer=(f"{'PASS' if found.passed else 'FAIL'}: {said}", *lead, *_power(found.rows)),
        style="total" if found.passed else "fail",
        sections=sections(
            section(
                table_of(
                    found.rows,
                    col("metric", "metric", minimum=_NAME),
                    col("state", "state.value", key="state", styles=tuple(map(_style, found.rows))),
                    col("baseline", lambda r: value_text(r, r.baseline), key="baseline"),
                    col("now", lambda r: value_text(r, r.value), key="value"),
                    col("worse by", "worse_share", _signed),
                    col("allowed", "tolerance_share", _share, 3),
                    col("detectable", "detectable_share", _share, 2),
                )
            ),
            section(Notes(heading="Notes", items=found.notes)),
        ),
        source=f"medians here and in {found.baseline_file}",
        figures=tuple(_key_figures(found.rows)),
    )


#: What happened to a metric → how that is told.
_STATES: Final = {
    GateState.IMPROVED: "metrics that got better by more than a change is allowed to be",
    GateState.UNCHANGED: "metrics whose change is within what is allowed",
    GateState.NEW: "metrics that the baseline does not have",
}


def _key_figures(rows: Sequence[GateRow]) -> Iterator[KeyFigure]:
    states = Counter(row.state for row in rows)
    failed = [row for row in rows if row.state.fails]
    yield KeyFigure(
        label="fail",
        text=format_count(len(failed), "metric"),
        note=f"of {len(rows):,}",
        formula="worse by more than is allowed, gone, or not a number",
    )
    moved = [row for row in rows if row.worse_share is not None]
    if moved:
        worst = max(moved, key=lambda row: row.worse_share or 0.0)
        yield KeyFigure(
            label="worst change",
            text=_signed(worst.worse_share),
            note=worst.metric,
            formula="share by which the median got worse",
            source=worst.about,
        )
    for state in (GateState.IMPROVED, GateState.UNCHANGED, GateState.NEW):
        yield KeyFigure(
            label=state.value, text=format_count(states[state], "metric"), formula=_STATES[state]
        )


def _power(rows: Sequence[GateRow]) -> tuple[str, ...]:
    """Which changes so many runs of such spread would show; nothing where nothing has chance."""
    seen = [(r.detectable_share, r.metric) for r in rows if r.detectable_share]
    if not seen:
        return ()
    middle = format_percent(statistics.median(share for share, _ in seen))
    largest, name = max(seen)
    most = f", of {name} above {format_percent(largest)}" if len(seen) > 1 else ""
    return (f"Detectable with these runs: changes above {middle}{most}",)


def _recorded(found: GateRecorded) -> Document:
    baseline = found.baseline
    runs = sum(len(metric.samples) for metric in baseline.metrics)
    machines = {m.machine or baseline.machine for m in baseline.metrics if m.measured} - {""}
    where = f" on {', '.join(sorted(machines))}" if machines else ""
    return Document(
        title=f"Baseline {found.path}",
        answer=(
            f"Recorded {format_count(len(baseline.metrics), 'metric')}, "
            f"{format_count(runs, 'sample')}{where}",
        ),
        sections=sections(
            section(
                table_of(
                    baseline.metrics,
                    col("metric", "name", minimum=_NAME),
                    col("samples", lambda m: str(len(m.samples)), key="samples"),
                    col("source", "source", priority=1),
                )
            )
        ),
        source="the results that were recorded",
        figures=(
            KeyFigure(
                label="metrics",
                text=f"{len(baseline.metrics):,}",
                formula="different figures among the results",
            ),
            KeyFigure(
                label="samples",
                text=f"{runs:,}",
                formula="values of all metrics",
            ),
        ),
    )


def _rank(item: tuple[GateState, int]) -> int:
    return list(GateState).index(item[0])


def _style(row: GateRow) -> str:
    return _STYLES.get(row.state, "")


def value_text(row: GateRow, value: float | None) -> str:
    """A value of a row, or that it has none."""
    return "none" if value is None else shown(value, row.unit)


def shown(value: float, unit: str) -> str:
    """A value with its unit as people write it."""
    return format_number(value) if unit == "1" else format_si(value, _UNITS.get(unit, unit), 4)


def _signed(share: float | None) -> str:
    if share is None:
        return ""
    return f"{'+' if share > 0 else ''}{format_percent(share)}"


def _share(share: float | None) -> str:
    return "" if share is None else format_percent(share)
