"""A small picture as data: curves over two axes, or bars; drawn by `gambrel.report.svg`."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

#: How numbers of an axis are written.
Unit: TypeAlias = Literal["count", "capacity", "s", "FLOP/byte", "token/s"]


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """An axis; logarithmic, as sizes and intensities span decades.

    Attributes:
        title: What it shows.
        unit: How its numbers are written.
    """

    title: str
    unit: Unit = "count"


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A line through points.

    Attributes:
        name: Written at its end and in the legend.
        points: (x, y), both above zero, by rising x.
        style: ``"solid"``, ``"dashed"``, or ``"dots"`` (points without a line).
        color: Number of its colour; curves of one colour belong together.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    style: Literal["solid", "dashed", "dots"] = "solid"
    color: int = 0


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A horizontal line over the whole width: a ridge, a capacity."""

    name: str
    value: float


class Chart(msgspec.Struct, frozen=True, kw_only=True, tag="curves"):
    """Curves over two logarithmic axes.

    Attributes:
        title: Of the picture.
        about: One or two sentences: what it says and how it was made.
        x: The axis below.
        y: The axis on the left.
        curves: In drawing order.
        levels: Lines across.
        mark: The analysis' own point; None for none.
    """

    title: str
    about: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...] = ()
    mark: tuple[float, float] | None = None


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a bar chart.

    Attributes:
        name: Of the row.
        values: One a series.
        color: A word that colours the row: a bound, or empty.
        note: Behind the bars, e.g. how often the row occurs.
    """

    name: str
    values: tuple[float, ...]
    color: str = ""
    note: str = ""


class Bars(msgspec.Struct, frozen=True, kw_only=True, tag="bars"):
    """Horizontal bars from zero.

    Attributes:
        title: Of the picture.
        about: As for `Chart`.
        unit: Of all values.
        series: Names of the values of a row; the first is drawn full, the second as an outline.
        rows: From the top.
    """

    title: str
    about: str
    unit: Unit
    series: tuple[str, ...]
    rows: tuple[Bar, ...]


Picture: TypeAlias = Chart | Bars
