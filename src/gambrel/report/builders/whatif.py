"""A what-if: the gain, the whole before and after, the kinds and ops that change most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gambrel.advise.whatif import Difference, Side, TotalPoint, WhatIf
from gambrel.report.answers import Changed
from gambrel.report.blocks import (
    DataTable,
    Document,
    KeyFigure,
    Notes,
    col,
    figures,
    seconds,
    section,
    sections,
    side_columns,
    table_of,
    words,
)
from gambrel.report.builders.figures_of import expected_figure
from gambrel.report.options import Options
from gambrel.report.terms import range_text
from gambrel.report.text import shorten_path
from gambrel.units import format_capacity, format_number, format_si


def document(record: WhatIf | Changed, _options: Options) -> Document:
    """The gain leads."""
    found = _whatif(record)
    return Document(
        title=f"{found.model}: {' + '.join(found.changes)}",
        answer=(_gain(found),),
        sections=sections(
            section(_total(found)),
            section(_table("By kind of op", found.kinds)),
            section(_table("Ops that change most", found.ops, linked=True)),
            section(Notes(heading="What it costs", items=(found.about,) if found.about else ())),
            section(Notes(heading="Assumed after the change", items=found.notes)),
        ),
        source="the workload before and after the changes, each analyzed anew",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: WhatIf) -> Iterator[KeyFigure]:
    before, after = found.before, found.after
    yield KeyFigure(
        label="gain",
        text="unknown" if found.gain is None else f"{format_number(found.gain, 3)}×",
        note=f"by the {found.gain_kind} time, per item",
        formula=f"{found.gain_kind} time per item before / after",
        source=found.about,
    )
    for label, point in (("before", before), ("after", after)):
        time = point.total.expected_time_s
        source = f"{point.precision}, {point.runtime} on {point.hardware}"
        yield expected_figure(time, f"expected {label}", source=source)
    yield KeyFigure(
        label="traffic",
        text=format_si(after.total.traffic_bytes, "B"),
        note=f"before {format_si(before.total.traffic_bytes, 'B')}",
        key="traffic_bytes",
    )
    yield KeyFigure(
        label="memory",
        text=format_capacity(after.memory_bytes, 3),
        note=f"before {format_capacity(before.memory_bytes, 3)}",
        formula="weights, activations and caches alive at the peak",
    )


def content(record: WhatIf | Changed, _options: Options | None = None) -> WhatIf:
    """The differences; the analyses of both sides are for charts."""
    return _whatif(record)


def _whatif(record: WhatIf | Changed) -> WhatIf:
    return record.found if isinstance(record, Changed) else record


def _gain(found: WhatIf) -> str:
    if found.gain is None:
        return "The gain is unknown: the device publishes no roof that bounds this model."
    if found.gain < 1:
        verdict = f"{1 / found.gain:.2f}× slower per item"
    else:
        verdict = f"{found.gain:.2f}× faster per item"
    return f"{verdict}, by the {found.gain_kind} time."


def _total(found: WhatIf) -> DataTable:
    rows: list[tuple[str, Callable[[TotalPoint], str]]] = [
        ("device", lambda p: p.hardware),
        ("precision", lambda p: p.precision),
        ("runtime", lambda p: p.runtime),
        ("sizes", lambda p: ", ".join(f"{k} {v}" for k, v in p.sizes.items()) or "fixed"),
        ("work", lambda p: format_si(p.total.flops, "FLOP")),
        ("traffic", lambda p: format_si(p.total.traffic_bytes, "B")),
        ("intensity, FLOP/byte", lambda p: _intensity(p.total)),
        ("bound", lambda p: p.total.bound.value if p.total.bound else "unknown"),
        ("roofline time", lambda p: format_si(p.total.roofline_time_s, "s")),
        ("expected time", lambda p: _expected(p)),
        ("  its range", lambda p: range_text(p.total.expected_time_s)),
        ("expected per item", _per_item),
        ("memory", lambda p: f"{format_capacity(p.memory_bytes)}{_fits(p)}"),
    ]
    return DataTable(
        columns=(
            words("total", (name for name, _ in rows)),
            words("before", (show(found.before) for _, show in rows)),
            words("after", (show(found.after) for _, show in rows)),
        ),
        all=True,
    )


def _table(title: str, found: Sequence[Difference], *, linked: bool = False) -> DataTable:
    def both(text: Callable[[Side], str]) -> list[str]:
        return [f"{_of(r.before, text)} → {_of(r.after, text)}" for r in found]

    return DataTable(
        heading=title,
        columns=(
            words("name", (r.name for r in found), minimum=18, shorten=shorten_path),
            words("time", both(lambda s: seconds(s.time_s)), align="right"),
            figures("change", (r.change_s for r in found), seconds, "change_s"),
            words(
                "traffic",
                both(lambda s: format_si(s.traffic_bytes, "B", 3)),
                align="right",
                priority=2,
            ),
            words("FLOP/byte", both(_intensity), align="right", priority=3),
            words("bound", both(lambda s: s.bound.value if s.bound else "–"), priority=4),
        ),
        linked=linked,
    )


def rows(record: WhatIf | Changed) -> DataTable:
    """One row per op: both sides in base units."""
    sides = ("before", "after")
    times = side_columns(sides, "time_s", "time_{}_s")
    traffic = side_columns(sides, "traffic_bytes", "traffic_{}_bytes")
    return table_of(_whatif(record).ops, col("name", "name"), *times, *traffic)


def _of(side: Side | None, text: Callable[[Side], str]) -> str:
    return "none" if side is None else text(side)


def _intensity(side: Side) -> str:
    return "∞" if side.arithmetic_intensity is None else format_number(side.arithmetic_intensity, 3)


def _expected(point: TotalPoint) -> str:
    found = point.total.expected_time_s
    return "unknown" if found is None else f"{format_si(found.value, 's')}, {found.confidence}"


def _per_item(point: TotalPoint) -> str:
    found = point.total.expected_time_s
    return "unknown" if found is None else format_si(found.value / point.items, "s")


def _fits(point: TotalPoint) -> str:
    return ", does NOT fit" if point.fits is False else ""
