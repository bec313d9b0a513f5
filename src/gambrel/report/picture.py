"""A picture as data: curves, dots, arrows and notes over two axes, or bars. Every drawer takes it.

`gambrel.report.svg` draws it as SVG, `gambrel.report.plot_static` by matplotlib (PNG, PDF),
`gambrel.report.plot_interactive` as a plotly figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from gambrel.units import format_capacity, format_count, format_number, format_si

#: How numbers of an axis are written: a unit of its own way, or any other behind an SI prefix.
Unit: TypeAlias = str

#: Colours by name, on a light and on a dark ground, from Okabe and Ito, "Color Universal Design"
#: (2008), https://jfly.uni-koeln.de/color/ ; they differ in lightness as well, for any colour
#: vision and for grey print. Curves have numbers, bounds and memory levels their names.
COLORS: Final[dict[str, tuple[str, str]]] = {
    "c0": ("#0072b2", "#56b4e9"),
    "c1": ("#d55e00", "#ff9d5c"),
    "c2": ("#009e73", "#4fd1ae"),
    "c3": ("#b0508e", "#e29cc7"),
    "c4": ("#9a7500", "#f0c548"),
    "c5": ("#555555", "#bbbbbb"),
    "compute": ("#d55e00", "#ff9d5c"),
    "memory": ("#0072b2", "#56b4e9"),
    "network": ("#b0508e", "#e29cc7"),
    "overhead": ("#9a7500", "#f0c548"),
    "unknown": ("#777777", "#aaaaaa"),
    "DRAM": ("#0072b2", "#56b4e9"),
    "LLC": ("#009e73", "#4fd1ae"),
    "L2": ("#b8860b", "#f0c548"),
    "L1": ("#b0508e", "#e29cc7"),
    "ink": ("#1d2129", "#e8ebf0"),
    "grey": ("#9a9a9a", "#6b7280"),
    "star": ("#ffd43b", "#ffd43b"),
}
#: Colours of curves; more take them again.
CURVES: Final = 6


def color(key: int | str) -> str:
    """The name of a colour: of a curve by its number, or itself; one that is not there is grey."""
    name = f"c{key % CURVES}" if isinstance(key, int) else key
    return name if name in COLORS else "unknown"


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """An axis; logarithmic, as sizes and intensities span decades, unless it says otherwise.

    Attributes:
        title: What it shows.
        unit: How its numbers are written.
        ends: Limits; None takes those of what is drawn.
        linear: From zero in equal steps.
    """

    title: str
    unit: Unit = "count"
    ends: tuple[float, float] | None = None
    linear: bool = False

    @property
    def base(self) -> float:
        """Ticks are powers of it: sizes and capacities are binary."""
        return 2.0 if self.unit in ("count", "capacity") else 10.0


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A line through points.

    Attributes:
        name: Written at its end and in the legend.
        points: (x, y), by rising x; above zero on logarithmic axes.
        style: ``"solid"``, ``"dashed"``, ``"faint"``, ``"dots"`` (points without a line), or
            ``"area"`` (the points go around it).
        color: Number or name of its colour; curves of one colour belong together.
        about: Said where the reader points at it.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    style: Literal["solid", "dashed", "faint", "dots", "area"] = "solid"
    color: int | str = 0
    about: str = ""


class Dot(msgspec.Struct, frozen=True, kw_only=True):
    """A mark.

    Attributes:
        at: x and y.
        shape: One of `SHAPES`.
        color: As for a curve.
        size: 0 to 1, by which its radius grows.
        hollow: Drawn as an outline.
        group: Dots that a legend shows and hides together.
        about: Lines that are said where the reader points at it.
    """

    at: tuple[float, float]
    shape: str = "circle"
    color: int | str = 0
    size: float = 0.0
    hollow: bool = False
    group: str = ""
    about: tuple[str, ...] = ()


class Arrow(msgspec.Struct, frozen=True, kw_only=True):
    """From where something was, which is marked by a ring, to where it is."""

    start: tuple[float, float]
    end: tuple[float, float]
    color: int | str = 0


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A text at a place.

    Attributes:
        at: x and y.
        text: One line.
        side: Side of the place on which it stands, above it.
        faint: Whether it matters less.
        slanted: Along a line of slope one on logarithmic axes.
    """

    at: tuple[float, float]
    text: str
    side: Literal["left", "right"] = "right"
    faint: bool = False
    slanted: bool = False


class ReferenceLine(msgspec.Struct, frozen=True, kw_only=True):
    """A horizontal line over the whole width: a ridge, a capacity."""

    name: str
    value: float


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the legend; one without text is a gap."""

    text: str = ""
    shape: str = "circle"
    color: int | str = "unknown"
    hollow: bool = False


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that a reader of a page drags; what lies beyond it fades.

    Attributes:
        axis: ``"x"`` or ``"y"``.
        name: What is limited.
        keep: The side that is allowed: ``"above"`` or ``"below"``.
        value: Where it stands at first; None for none.
    """

    axis: Literal["x", "y"]
    name: str
    keep: Literal["above", "below"]
    value: float | None = None


class Chart(msgspec.Struct, frozen=True, kw_only=True, tag="curves"):
    """What is drawn over two axes.

    Attributes:
        title: Of the picture.
        about: One or two sentences: what it says and how it was made.
        x: The axis below.
        y: The axis on the left.
        curves: In drawing order.
        levels: Lines across.
        mark: The analysis' own point; None for none.
        dots: In drawing order.
        arrows: Between two runs.
        notes: Texts in the frame.
        legend: Beside it.
        limits: That a reader of a page may drag.
    """

    title: str
    about: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    levels: tuple[ReferenceLine, ...] = ()
    mark: tuple[float, float] | None = None
    dots: tuple[Dot, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    notes: tuple[Note, ...] = ()
    legend: tuple[Key, ...] = ()
    limits: tuple[Threshold, ...] = ()


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a bar chart.

    Attributes:
        name: Of the row.
        values: One a series; None where unknown.
        color: A word that colours the row: a bound, or empty.
        note: Behind the bars, e.g. how often the row occurs.
        ends: Range of the first value; None for none.
        missing: Why there is no value; the row is greyed.
    """

    name: str
    values: tuple[float | None, ...]
    color: str = ""
    note: str = ""
    ends: tuple[float, float] | None = None
    missing: str = ""

    @property
    def known(self) -> tuple[float, ...]:
        """The values that are known."""
        return tuple(v for v in self.values if v is not None)

    def said(self, unit: Unit) -> str:
        """What stands behind the bars."""
        if self.missing:
            return self.missing
        parts = ("unknown" if v is None else formatted(v, unit) for v in self.values)
        return f"{' / '.join(parts)}{f', {self.note}' if self.note else ''}"


class Bars(msgspec.Struct, frozen=True, kw_only=True, tag="bars"):
    """Horizontal bars from zero.

    Attributes:
        title: Of the picture.
        about: As for `Chart`.
        unit: Of all values.
        series: Names of the values of a row; the first is drawn full, the second as an outline.
        rows: From the top.
        legend: What the colours mean.
    """

    title: str
    about: str
    unit: Unit
    series: tuple[str, ...]
    rows: tuple[Bar, ...]
    legend: tuple[Key, ...] = ()

    @property
    def forms(self) -> str:
        """What full and outlined bars and the lines over them are; empty for plain bars."""
        ranged = ["line: range"] if any(row.ends for row in self.rows) else []
        if len(self.series) > 1:
            forms = ("full", *("outline" for _ in self.series[1:]))
            named = [f"{form}: {name}" for form, name in zip(forms, self.series, strict=True)]
            return ", ".join(named + ranged)
        return ", ".join([f"bar: {self.series[0]}", *ranged]) if ranged else ""


#: Bound → what its colour says in a legend.
_LIMITS: Final = {
    "compute": "compute-bound",
    "memory": "memory-bound",
    "network": "network-bound",
    "overhead": "launches or host",
}


#: The same of the expected time, which is no verdict of the roofline.
_LIMITERS: Final = {
    "compute": "limited by compute",
    "memory": "limited by memory traffic",
    "network": "limited by the network",
    "overhead": "limited by launches or the host",
}


def limit_keys(rows: Iterable[Bar], *, expected: bool = False) -> tuple[Key, ...]:
    """The legend of bars that are coloured by what limits them.

    Args:
        rows: The bars.
        expected: By what takes most of the expected time, rather than by the roofline's verdict.
    """
    used = {row.color for row in rows if row.known}
    texts = _LIMITERS if expected else _LIMITS
    return tuple(
        Key(text=text, shape="square", color=name) for name, text in texts.items() if name in used
    )


Picture: TypeAlias = Chart | Bars


def formatted(value: float, unit: Unit) -> str:
    """A number of an axis."""
    if unit == "capacity":
        return format_capacity(value, 3)
    if unit == "count":
        return _count(value)
    if unit in ("FLOP/byte", "token/s"):
        return format_number(value, 3)
    if unit == "%":
        return f"{format_number(value, 3)} %"
    if not unit and 1e-3 <= abs(value) < 1:
        return format_number(value, 3)  # a ratio: nobody writes 900 m
    return format_si(value, unit, 3)


def _count(value: float) -> str:
    if value < 1e4:
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"
    return f"{value / 1024:,.0f}k" if value % 1024 == 0 else format_si(value, "", 3)


def _polygon(
    corners: int, turn: float = 0.0, inner: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """Corners on a circle of radius one from the top, turned; every other at ``inner``."""
    steps = corners * (2 if inner else 1)
    return tuple(
        (radius * math.sin(angle), radius * math.cos(angle))
        for i in range(steps)
        for angle in [2 * math.pi * i / steps + turn]
        for radius in [inner if inner and i % 2 else 1.0]
    )


#: Shape → corners, y upwards; a circle has none.
SHAPES: Final = {
    "circle": (),
    "square": _polygon(4, math.pi / 4),
    "diamond": _polygon(4),
    "triangle-up": _polygon(3),
    "triangle-down": _polygon(3, math.pi),
    "cross": _polygon(4, 0.0, 0.4),
    "x": _polygon(4, math.pi / 4, 0.4),
    "pentagon": _polygon(5),
    "hexagon": _polygon(6),
    "star": _polygon(5, 0.0, 0.42),
}

#: Bars of one picture.
MOST_BARS: Final = 40


def drawn_bars(
    title: str,
    about: str,
    rows: Iterable[Bar],
    *,
    unit: Unit = "",
    series: tuple[str, ...] = ("value",),
    legend: Callable[[tuple[Bar, ...]], tuple[Key, ...]] = limit_keys,
) -> tuple[Bars, ...]:
    """One picture, or none without a known value; of very many rows the first.

    Args:
        title: Of the picture.
        about: What it says.
        rows: From the top.
        unit: Of all values.
        series: Names of the values of a row.
        legend: What the colours of the rows that are shown mean.
    """
    every = tuple(rows)
    if not any(row.known for row in every):
        return ()
    shown, left = every[:MOST_BARS], len(every) - MOST_BARS
    about += f" {format_count(left, 'more row')} in the table." if left > 0 else ""
    return (
        Bars(title=title, about=about, unit=unit, series=series, rows=shown, legend=legend(shown)),
    )


def color_keys(**texts: str) -> Callable[[tuple[Bar, ...]], tuple[Key, ...]]:
    """A legend of the colours in use, each with its text."""
    return lambda rows: tuple(
        Key(text=text, shape="square", color=name)
        for name, text in texts.items()
        if any(row.color == name for row in rows)
    )
