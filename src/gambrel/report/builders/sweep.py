"""A sweep: its front and its points, or where they were written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from gambrel.engine.tables import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    DataField,
    PointTable,
    Words,
    length,
    plain,
    take,
)
from gambrel.report.blocks import (
    Column,
    DataTable,
    Document,
    KeyFigure,
    amount,
    capacity,
    count,
    figures,
    rate_text,
    ratio,
    seconds,
    section,
    sections,
    words,
)
from gambrel.report.options import Options
from gambrel.units import format_count, format_si

if TYPE_CHECKING:
    from gambrel.analysis.sweep.record import Sweep

#: How columns whose name ends so are shown.
_SHOWN: Final = (
    ("_time_s", seconds),
    ("memory_bytes", capacity),
    ("_bytes", amount),
    ("flops", amount),
    ("items_per_s", rate_text),
    ("_per_s", amount),
    ("_j", lambda value: format_si(value, "J", 3)),
)
#: Which columns go first where a terminal is narrow; sizes stay.
_PRIORITIES: Final = {
    "device": 0,
    "expected_time_s": 0,
    "roofline_time_s": 1,
    "change": 1,
    "tensor": 1,
    "phase": 1,
    "causal": 1,
    "engine": 1,
    "precision": 2,
    "model": 3,
    "items_per_s": 3,
    "bound": 3,
    "fits": 4,
    "energy_per_item_j": 4,
    "memory_bytes": 5,
    "sol_time_s": 5,
    "runtime": 6,
}
_TITLES: Final = {
    "energy_per_item_j": "J per item",
    "items_per_s": "items per s",
    "memory_bytes": "memory",
    "traffic_bytes": "traffic",
}
#: Column, its label as a figure, unit, and whether more is better.
_BEST: Final = (
    ("items_per_s", "highest rate", "items/s", True),
    ("expected_time_s", "shortest run", "s", False),
    ("sol_time_s", "least speed of light", "s", False),
    ("energy_per_item_j", "least energy per item", "J", False),
)
#: What the other figures are; the definitions have those of an analysis.
_FORMULAS: Final = {
    "items_per_s": "items of a run / its expected time",
    "energy_per_item_j": "expected energy of a run / its items",
}
#: Texts that are figures, not names of a point.
_SAID: Final = ("bound", "refused", "confidence")
#: Columns that are left out where they say the same of every row.
_CONSTANT: Final = ("model", "refused", "runtime", "phase", "engine")


def document(found: Sweep, _options: Options) -> Document:
    """The front, then the points."""
    parts = []
    if found.front is not None:
        parts.append(section(_table(found, found.front, _front_heading(found))))
    if length(found.table):
        heading = "Points" if parts else ""
        parts.append(section(_table(found, found.table, heading)))
    return Document(
        title=f"{', '.join(found.models)}: {format_count(found.points, 'point')}",
        answer=tuple(_answer(found)),
        sections=sections(*parts),
        source="an analysis of each point, with the constants of its device and runtime",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: Sweep) -> Iterator[KeyFigure]:
    """How many points; the best rate, time and energy, and where each is reached."""
    yield KeyFigure(
        label="points",
        text=f"{found.points:,}",
        note=f"{found.rows:,} kept",
        formula="combinations of everything that was given",
    )
    table = found.table if length(found.table) or found.front is None else found.front
    fits = plain(table["fits"])
    for name, label, unit, most in _BEST:
        if name not in {f.name for f in found.fields}:
            continue
        values = [v if v is None or v == v else None for v in plain(table[name])]
        known = [(v, i) for i, v in enumerate(values) if v and fits[i] is not False]
        if known:
            value, at = max(known) if most else min(known)
            shown = f"{rate_text(value)} {unit}" if most else format_si(value, unit, 3)
            yield KeyFigure(
                label=label,
                text=shown,
                note=_where(found, table, at),
                key=name,
                formula=_FORMULAS.get(name, ""),
            )


def _where(found: Sweep, table: PointTable, row: int) -> str:
    """What tells a point from the others."""
    named = [
        f
        for f in found.fields
        if f.kind in (TEXT, WHOLE) and f.name not in _SAID and varies(table, f)
    ]
    said = [(f, plain(table[f.name])[row]) for f in named]
    return ", ".join(f"{f.name} {v:,}" if f.kind == WHOLE else str(v) for f, v in said)


def _front_heading(found: Sweep) -> str:
    return f"No other point is better in all of {', '.join(found.pareto)}"


def _answer(found: Sweep) -> list[str]:
    said = list(_best(found))
    if found.rows != found.points:
        said.append(f"{found.rows:,} of {found.points:,} points are kept.")
    if found.front is not None:
        said.append(f"The front over {', '.join(found.pareto)} has {length(found.front):,} points.")
    if found.path is not None:
        earlier = f", {found.resumed:,} of them by an earlier run" if found.resumed else ""
        said.append(f"{format_count(found.rows, 'point')} written to {found.path}{earlier}.")
    said += [text for text in (_too_large(found), _refused(found)) if text]
    return [*said, *found.warnings]


def _too_large(found: Sweep) -> str:
    """How many rows need more memory than there is: none of them is the best."""
    over = plain(found.table["fits"]).count(False) if length(found.table) else 0
    return f"{format_count(over, 'point')} not counted: too large for the memory" if over else ""


def _best(found: Sweep) -> Iterator[str]:
    """The point with the highest rate, in a sentence."""
    figure = next((f for f in _key_figures(found) if f.key == "items_per_s"), None)
    if figure is not None:
        yield f"Highest rate: {figure.text}{f' at {figure.note}' if figure.note else ''}"


def _refused(found: Sweep) -> str:
    """How many rows have no figures, and the first reason."""
    if not length(found.table):
        return ""
    reasons = [text for text in plain(found.table["refused"]) if text]
    if not reasons:
        return ""
    number = format_count(len(reasons), "point")
    verb = "is" if len(reasons) == 1 else "are"
    return f"{number} {verb} refused, the first because: {reasons[0]}"


def rows(found: Sweep) -> DataTable:
    """One column a field of the sweep; of a sweep on disk its front."""
    table = found.table if length(found.table) or found.front is None else found.front
    return DataTable(columns=tuple(column(field, table) for field in found.fields))


def _table(found: Sweep, table: PointTable, heading: str) -> DataTable:
    shown = [f for f in found.fields if varies(table, f) or f.name not in _CONSTANT]
    return DataTable(columns=tuple(column(field, table) for field in shown), heading=heading)


def varies(table: PointTable, field: DataField) -> bool:
    """Whether a column says different things of different rows."""
    return len(set(plain(table[field.name]))) > 1


def of_model(table: PointTable, name: str) -> PointTable:
    """The rows of one model."""
    models = table["model"]
    assert isinstance(models, Words)  # a column of texts
    return take(table, models.texts() == name)


def column(field: DataField, table: PointTable) -> Column:
    """A column of points as it is shown."""
    name, values = field.name, plain(table[field.name])
    sized = field.kind == WHOLE
    priority = _PRIORITIES.get(name, 0 if sized else 4)
    if name == "fits" and False in values:
        priority = 0
    title = _TITLES.get(name, name.removesuffix("_time_s").removesuffix("_bytes"))
    if sized:
        return figures(title, values, count, name, priority=priority)
    if field.kind == NUMBER:
        show = next((s for end, s in _SHOWN if name.endswith(end)), ratio)
        return figures(title, values, show, name, priority=priority)
    if field.kind == FLAG:
        said = [{True: "yes", False: "no", None: "unknown"}[value] for value in values]
        return words(title, said, name, priority=priority)
    return words(title, values, name, priority=priority)


def content(found: Sweep, _options: Options | None = None) -> dict[str, Any]:
    """Columns rather than rows: a sweep may have 1e5 points."""
    named = {f.name: plain(found.table[f.name]) for f in found.fields}
    sizes = {f.name: named.pop(f.name) for f in found.fields if f.kind == WHOLE}
    said: dict[str, Any] = {
        "model": ", ".join(found.models),
        "points": found.points,
        "rows": found.rows,
        "sizes": sizes,
        "columns": named,
    }
    if found.front is not None:
        said["pareto"] = list(found.pareto)
        said["front"] = {f.name: plain(found.front[f.name]) for f in found.fields}
    if found.path is not None:
        said |= {"path": str(found.path), "resumed": found.resumed}
    return said
