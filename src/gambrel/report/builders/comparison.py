"""A comparison: one line a row, best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gambrel.advise.compare import Comparison, Row
from gambrel.advise.limits import METRICS
from gambrel.report.blocks import (
    Column,
    DataTable,
    Document,
    KeyFigure,
    Notes,
    section,
    sections,
    verdict_of_fit,
    words,
)
from gambrel.report.builders.check import value_text
from gambrel.report.options import Options
from gambrel.report.text import clean
from gambrel.units import format_count

#: Metrics whose best value stands at the top of a page.
_FIGURES: Final = 5
_FOOT = (
    "Expected values; where none is known, what it lies between, or is at most (for power: the "
    "thermal design power) or at least. * marks rows that no other beats in all these metrics."
)
#: What ≈ means, where it stands.
DOUBT = "≈ marks low confidence, which ranks by the worse end of its range."


def document(found: Comparison, _options: Options) -> Document:
    """The best row leads."""
    rows = found.rows
    columns = (*_varying(rows), *figure_columns(rows, found.metrics), *_about(rows))
    models = ", ".join(dict.fromkeys(r.model for r in rows))
    return Document(
        title=f"{models}: {format_count(len(rows), 'row')}, best {found.metrics[0]} first",
        answer=_answer(found),
        sections=sections(
            section(DataTable(columns=columns, note=_FOOT)),
            section(
                Notes(heading="Notes", items=(*doubtful(rows), *_precisions(rows), *found.notes))
            ),
        ),
        figures=tuple(best_figures(rows, found.metrics)),
    )


def best_figures(rows: Sequence[Row], metrics: Sequence[str]) -> Iterator[KeyFigure]:
    """The best of each metric among the rows that fit, and which row has it."""
    for metric in metrics[:_FIGURES]:
        known = [r for r in rows if r.fits is not False and r.figures[metric].value is not None]
        if not known:
            continue
        pick = max if METRICS[metric].more_is_better else min
        best = pick(known, key=lambda r: r.figures[metric].counted or 0.0)
        figure = best.figures[metric]
        yield KeyFigure(
            label=f"best {metric}",
            text=value_text(figure),
            note=f"{best.hardware}, {best.precision}",
            formula=METRICS[metric].about,
            source=f"{best.model} with {best.runtime} ({best.runtime_reason})",
            confidence=f"{figure.confidence}: {figure.reason}" if figure.confidence else "",
        )


def doubtful(rows: Iterable[Row]) -> tuple[str, ...]:
    """What the mark of low confidence means, where a row has it."""
    marked = any(f.confidence == "low" and f.value for r in rows for f in r.figures.values())
    return (DOUBT,) if marked else ()


def _answer(found: Comparison) -> tuple[str, ...]:
    if not found.rows:
        return ("Nothing to compare.",)
    metric = found.metrics[0]
    fitting = [r for r in found.rows if r.fits is not False]
    if not fitting:
        return ("None of them fits in the memory of its device.",)
    best = next((r for r in fitting if r.figures[metric].known), None)
    if best is None:
        return (f"Best {metric}: unknown, as it is known of none of them.",)
    batch = f", batch {best.sizes['batch']}" if "batch" in best.sizes else ""
    shown = value_text(best.figures[metric])
    how = f"{best.precision}{batch}{under(best)}"
    return (f"Best {metric}: {shown}, {best.model} on {best.hardware}, {how}",)


def under(row: Row) -> str:
    """The runtime of a row, for a sentence; empty where it has none."""
    runtime = getattr(row, "runtime", "")
    return f", {runtime}" if runtime else ""


def _varying(rows: Sequence[Row]) -> list[Column]:
    """What tells the rows apart: always the device, the rest where it differs."""
    columns = [
        words(
            "device",
            (f"{r.hardware}{' *' if r.pareto else ''}" for r in rows),
            "hardware",
            values=tuple(r.hardware for r in rows),
        ),
        words("format", (r.precision for r in rows), "precision", priority=1),
    ]
    if len({r.model for r in rows}) > 1:
        columns.insert(0, words("model", (r.model for r in rows), "model"))
    if len({r.sizes.get("batch") for r in rows}) > 1:
        cells = (str(r.sizes.get("batch", "–")) for r in rows)
        columns.append(words("batch", cells, "batch", align="right"))
    return [*columns, *runtime_column(rows)]


def runtime_column(rows: Sequence[Row]) -> list[Column]:
    """The runtimes of rows, where they have any; one that differs always stays."""
    runtimes = [getattr(r, "runtime", "") for r in rows]
    if not any(runtimes):
        return []
    return [words("runtime", runtimes, "runtime", priority=0 if len(set(runtimes)) > 1 else 1)]


def figure_columns(rows: Sequence[Row], metrics: Sequence[str]) -> list[Column]:
    """One column a metric; the first ones stay on narrow terminals."""
    return [
        Column(
            title=metric,
            key=metric,
            cells=tuple(value_text(r.figures[metric]) for r in rows),
            values=tuple(r.figures[metric].value for r in rows),
            priority=max(0, i - 1),
        )
        for i, metric in enumerate(metrics)
    ]


def _about(rows: Sequence[Row]) -> list[Column]:
    bounds = (r.bound.value if r.bound else "unknown" for r in rows)
    lacking = any(r.fits is False for r in rows)  # then nothing is more important
    fits = (verdict_of_fit(r.fits) for r in rows)
    return [
        words("bound", bounds, "bound", priority=6),
        words("fits", fits, "fits", priority=0 if lacking else 5),
    ]


def _precisions(rows: Sequence[Row]) -> list[str]:
    """Why each device has the format that it has, where nobody asked for it."""
    given = ("as asked", "part by part")
    chosen = [r.precision_reason for r in rows if r.precision_reason not in given]
    distinct = list(dict.fromkeys(chosen))
    if len(distinct) > 4:
        return ["each device in the format that its engine is made for, because none was given."]
    return [f"{clean(reason).rstrip('.')}." for reason in distinct]
