"""The history of metrics: first, last and change of each; its page draws them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gambrel.advise.gate.records import Trend, TrendPoint
from gambrel.report.blocks import (
    Document,
    KeyFigure,
    col,
    section,
    sections,
    table_of,
)
from gambrel.report.builders.gate import shown
from gambrel.report.options import Options
from gambrel.report.picture import Axis, Chart, Curve
from gambrel.units import format_count, format_percent

#: Metrics that are drawn; more cannot be told apart.
_DRAWN = 6
#: Metrics that have figures at the top: those that moved most.
_SHOWN = 3


def document(found: Trend, _options: Options) -> Document:
    """One row a metric."""
    rows = sorted(_by_metric(found).values(), key=_moved)
    times = len({p.recorded for p in found.points})
    most = rows[0]
    return Document(
        title=f"History {found.file}",
        answer=(
            f"{format_count(len(rows), 'metric')} over {format_count(times, 'recording')}",
            f"Moved most: {most[0].metric}, {_change(most)} since {most[0].recorded[:10]}",
        ),
        sections=sections(
            section(
                table_of(
                    rows,
                    col("metric", lambda r: r[0].metric, key="metric", minimum=34),
                    col("times", lambda r: str(len(r)), key="times"),
                    col("first", lambda r: shown(r[0].sample, r[0].unit), key="first"),
                    col("last", lambda r: shown(r[-1].sample, r[-1].unit), key="last"),
                    col("change", lambda r: _change(r), key="change"),
                )
            )
        ),
        source=f"the history {found.file}",
        figures=tuple(_key_figures(rows, times)),
    )


def _key_figures(rows: Sequence[list[TrendPoint]], times: int) -> Iterator[KeyFigure]:
    for points in rows[:_SHOWN]:
        first, last = points[0], points[-1]
        yield KeyFigure(
            label=first.metric,
            text=_change(points),
            note=f"{shown(first.sample, first.unit)} to {shown(last.sample, last.unit)}",
            formula="last recording / first recording - 1",
        )
    yield KeyFigure(
        label="recordings",
        text=f"{times:,}",
        note=format_count(len(rows), "metric"),
        formula="different times in the history",
    )


def pictures(found: Trend, _options: Options) -> tuple[Chart, ...]:
    """The metrics that changed most, each relative to its first value."""
    histories = [r for r in _by_metric(found).values() if len(r) > 1 and r[0].sample > 0]
    histories.sort(key=_moved)
    curves = tuple(
        Curve(
            name=points[0].metric,
            points=tuple(
                (float(i + 1), 100 * p.sample / points[0].sample) for i, p in enumerate(points)
            ),
            color=i,
        )
        for i, points in enumerate(histories[:_DRAWN])
    )
    if not curves:
        return ()
    most = max(len(curve.points) for curve in curves)
    return (
        Chart(
            title="Change since the first recording",
            about="The metrics that changed most, each relative to its first value.",
            x=Axis(title="recording", linear=True, ends=(0.8, most + 0.2)),
            y=Axis(title="share of the first value", unit="%", linear=True),
            curves=curves,
        ),
    )


def _by_metric(found: Trend) -> dict[str, list[TrendPoint]]:
    made: dict[str, list[TrendPoint]] = {}
    for point in found.points:
        made.setdefault(point.metric, []).append(point)
    return made


def _moved(points: list[TrendPoint]) -> float:
    """Sorts by the size of the change, the largest first."""
    return -abs(points[-1].sample / points[0].sample - 1) if points[0].sample else 0.0


def _change(points: list[TrendPoint]) -> str:
    first = points[0].sample
    change = points[-1].sample / first - 1 if first else None
    return "unknown" if change is None else f"{'+' if change > 0 else ''}{format_percent(change)}"
