"""A what-if for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gambrel.advise.whatif import Difference, Point, Side, WhatIf
from gambrel.analysis.measures import Estimate
from gambrel.report.advice_json import document
from gambrel.report.layout import Column, line, listed, show, table
from gambrel.report.options import Options
from gambrel.report.text import shorten_path
from gambrel.units import format_capacity, format_number, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType


def render(found: WhatIf, options: Options | None = None) -> str:
    """The whole before and after, then the kinds and the ops that change most."""
    options = options or Options()
    shown = found.ops[: options.top] if options.top else found.ops
    return show(
        [
            [line((f"{found.model}: {' + '.join(found.changes)}", "bold")), line(_gain(found))],
            [_total(found, options.columns)],
            _table("By kind of op", found.kinds, options.columns),
            _table(
                f"Ops that change most ({len(shown)} of {len(found.ops)})", shown, options.columns
            ),
            listed("What it costs", [found.about] if found.about else []),
            listed("Assumed after the change", found.notes),
        ],
        options,
    )


def to_json(found: WhatIf) -> str:
    """Both sides and their differences as JSON text."""
    return document("gambrel/what-if", found)


def _gain(found: WhatIf) -> str:
    if found.gain is None:
        return "The gain is unknown: the device publishes no roof that bounds this model."
    if found.gain < 1:
        verdict = f"{1 / found.gain:.3g}× slower per item"
    else:
        verdict = f"{found.gain:.3g}× faster per item"
    return f"{verdict}, by the {found.gain_kind} time."


def _total(found: WhatIf, width: int) -> RenderableType:
    rows: list[tuple[str, Callable[[Point], str]]] = [
        ("device", lambda p: p.hardware),
        ("precision", lambda p: p.precision),
        ("runtime", lambda p: p.runtime),
        ("sizes", lambda p: ", ".join(f"{k} {v}" for k, v in p.sizes.items()) or "fixed"),
        ("work", lambda p: format_si(p.total.flops, "FLOP")),
        ("traffic", lambda p: format_si(p.total.traffic_bytes, "B")),
        ("intensity, FLOP/byte", lambda p: _intensity(p.total)),
        ("bound", lambda p: p.total.bound.value if p.total.bound else "unknown"),
        ("bound time", lambda p: format_si(p.total.roofline_time_s, "s")),
        ("expected time", lambda p: _estimate(p.total.expected_time_s)),
        ("  its range", lambda p: _range(p.total.expected_time_s)),
        ("expected per item", _per_item),
        ("memory", lambda p: f"{format_capacity(p.memory_bytes)}{_fits(p)}"),
    ]
    columns = [
        Column(title="total", cells=tuple(name for name, _ in rows), align="left"),
        Column(title="before", cells=tuple(f(found.before) for _, f in rows), align="left"),
        Column(title="after", cells=tuple(f(found.after) for _, f in rows), align="left"),
    ]
    return table(columns, width)


def _table(title: str, rows: Sequence[Difference], width: int) -> list[RenderableType]:
    if not rows:
        return []

    def both(text: Callable[[Side], str]) -> tuple[str, ...]:
        return tuple(f"{_of(r.before, text)} → {_of(r.after, text)}" for r in rows)

    columns = [
        Column(
            title="name",
            cells=tuple(r.name for r in rows),
            align="left",
            minimum=18,
            shorten=shorten_path,
        ),
        Column(title="time", cells=both(lambda s: format_si(s.time_s, "s", 3))),
        Column(
            title="change",
            cells=tuple(format_si(r.change_s, "s", 3) for r in rows),
        ),
        Column(
            title="traffic", cells=both(lambda s: format_si(s.traffic_bytes, "B", 3)), priority=2
        ),
        Column(title="FLOP/byte", cells=both(_intensity), priority=3),
        Column(
            title="bound",
            cells=both(lambda s: s.bound.value if s.bound else "–"),
            align="left",
            priority=4,
        ),
    ]
    return [line((title, "bold")), table(columns, width)]


def _of(side: Side | None, text: Callable[[Side], str]) -> str:
    return "none" if side is None else text(side)


def _intensity(side: Side) -> str:
    return "∞" if side.arithmetic_intensity is None else format_number(side.arithmetic_intensity, 3)


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return "unknown"
    return f"{format_si(found.value, 's')}, {found.confidence}"


def _range(found: Estimate | None) -> str:
    if found is None:
        return "unknown"
    return f"{format_si(found.low, 's', 3)} to {format_si(found.high, 's', 3)}"


def _per_item(point: Point) -> str:
    found = point.total.expected_time_s
    return "unknown" if found is None else format_si(found.value / point.items, "s")


def _fits(point: Point) -> str:
    return ", does NOT fit" if point.fits is False else ""
