"""The roofline in a terminal: lines in Braille dots, ops as symbols, readable without colour.

Own drawing: plotext, the library for this, takes 136 ms to import and places no labels at lines or
points, and a roof without its name says nothing. rich colours the text.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from gambrel import roofline
from gambrel.analysis.result import Analysis
from gambrel.report.chart import ChartPoint, Move, RooflineChart, decades, describe
from gambrel.report.options import Options
from gambrel.report.roof_lines import MemoryRoof, RoofLine
from gambrel.report.terminal import line, show
from gambrel.report.text import clean, display_width, shorten
from gambrel.units import format_number, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Symbol of an op by its bound.
_SYMBOL: Final = {
    "compute": "◆",
    "memory": "●",
    "network": "■",
    "unknown": "?",
    "total": "★",
}
#: Bit of the Braille cell for dot (row, column); Unicode 15.0, section 21.1.
_DOT: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_LEFT = 10  # columns of the rate labels
_MARGIN = 2  # columns on each side for ops without a place on the intensity axis


@dataclass(slots=True)
class _Canvas:
    """A grid of cells; each holds Braille dots or one symbol."""

    columns: int
    rows: int
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    styles: dict[tuple[int, int], str] = field(default_factory=dict)
    symbols: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)

    def dot(self, x: int, y: int, style: str) -> None:
        """Sets one dot; ``x`` counts half columns, ``y`` quarter rows from the top."""
        cell = (x // 2, y // 4)
        if 0 <= cell[0] < self.columns and 0 <= cell[1] < self.rows:
            self.dots[cell] = self.dots.get(cell, 0) | _DOT[y % 4][x % 2]
            if style == "roof" or cell not in self.styles:
                self.styles[cell] = style

    def put(self, column: int, row: int, symbol: str, style: str) -> None:
        """Puts a symbol; outside the grid it is moved to the edge."""
        cell = (min(max(column, 0), self.columns - 1), min(max(row, 0), self.rows - 1))
        self.symbols[cell] = (symbol, style)

    def write(self, column: int, row: int, text: str, style: str) -> bool:
        """Writes text where no symbol or other text is; says whether there was room."""
        cells = [(column + i, row) for i in range(display_width(text))]
        free = all(c not in self.symbols and 0 <= c[0] < self.columns for c in cells)
        if not free or not 0 <= row < self.rows or len(text) != len(cells):
            return False
        for cell, char in zip(cells, text, strict=True):
            self.symbols[cell] = (char, style)
        return True

    def parts(self, row: int) -> list[tuple[str, str]]:
        """One row as runs of one style."""
        cells = [self._cell((column, row)) for column in range(self.columns)]
        runs = groupby(cells, key=lambda cell: cell[1])
        return [("".join(symbol for symbol, _ in run), style) for style, run in runs]

    def _cell(self, cell: tuple[int, int]) -> tuple[str, str]:
        if cell in self.symbols:
            return self.symbols[cell]
        if cell in self.dots:
            return chr(0x2800 + self.dots[cell]), self.styles[cell]
        return " ", ""


@dataclass(frozen=True, slots=True)
class _Axes:
    """From FLOP/byte and FLOP/s to dots."""

    chart: RooflineChart
    columns: int
    rows: int

    def x(self, intensity: float) -> float:
        """Half columns from the left edge of the grid."""
        low, high = self.chart.x_range
        inner = (self.columns - 2 * _MARGIN) * 2 - 1
        return _MARGIN * 2 + math.log(intensity / low) / math.log(high / low) * inner

    def y(self, value: float) -> float:
        """Quarter rows from the top."""
        low, high = self.chart.y_range
        return math.log(high / value) / math.log(high / low) * (self.rows * 4 - 1)

    def intensity(self, x: int) -> float:
        """The inverse of `x`."""
        low, high = self.chart.x_range
        inner = (self.columns - 2 * _MARGIN) * 2 - 1
        return float(low * (high / low) ** ((x - _MARGIN * 2) / inner))


def render(analysis: Analysis, options: Options | None = None) -> str:
    """Draws the roofline of an analysis for a terminal of ``options.width`` columns."""
    options = options or Options()
    return draw(describe(analysis, options.title), options)


def draw(chart: RooflineChart, options: Options) -> str:
    """Draws a chart as text: title, plot, intensity axis, legend."""
    rows = options.height - 5
    canvas = _Canvas(options.columns - _LEFT, rows)
    axes = _Axes(chart, canvas.columns, rows)
    _draw_roofs(canvas, axes)
    for move in chart.moves:
        _draw_move(canvas, axes, move)
    for point in (*reversed(chart.points), *([chart.total] if chart.total.name else [])):
        _draw_point(canvas, axes, point)
    left_out = _draw_labels(canvas, axes)
    ticks = _rate_labels(axes)
    plot: list[RenderableType] = [
        line((shorten(clean(chart.title), options.columns), "title")),
        line("  FLOP/s"),
        *(line(f"{ticks.get(r, ''):>{_LEFT - 2}} │", *canvas.parts(r)) for r in range(rows)),
        *map(line, _bottom(axes)),
        *map(line, _legend(chart, left_out, options.columns)),
    ]
    return show([plot], options)


def _draw_roofs(canvas: _Canvas, axes: _Axes) -> None:
    """Every roof is a line from the slant of the main memory to the right edge."""
    chart = axes.chart
    slope = next((m.byte_per_s for m in chart.memory_roofs if m.used), None)
    top = max((r.peak_flop_per_s for r in chart.roofs if r.used), default=None)
    ceiling = top or max((r.peak_flop_per_s for r in chart.roofs), default=math.inf)
    for x in range(canvas.columns * 2):
        intensity = axes.intensity(x)
        for roof in chart.roofs:
            under = slope is None or intensity * slope >= roof.peak_flop_per_s
            if under and (roof.used or x % 4 == 0):
                _dot(canvas, axes, x, roof.peak_flop_per_s, "roof" if roof.used else "dim")
        for memory in chart.memory_roofs:
            rate = intensity * memory.byte_per_s
            if rate <= ceiling and (memory.used or x % 4 == 0):
                _dot(canvas, axes, x, rate, "roof" if memory.used else "dim")


def _dot(canvas: _Canvas, axes: _Axes, x: int, rate: float, style: str) -> None:
    low, high = axes.chart.y_range
    if low <= rate <= high:
        canvas.dot(x, round(axes.y(rate)), style)


def _draw_move(canvas: _Canvas, axes: _Axes, move: Move) -> None:
    """A line of dots from where a point was, marked by a small circle."""
    x0, y0 = axes.x(move.start[0]), axes.y(move.start[1])
    x1, y1 = axes.x(move.end[0]), axes.y(move.end[1])
    steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
    for i in range(steps + 1):
        x, y = x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps
        canvas.dot(int(x), round(y), _style(move.bound))
    canvas.put(int(x0) // 2, int(y0) // 4, "○", _style(move.bound))


def _draw_point(canvas: _Canvas, axes: _Axes, point: ChartPoint) -> None:
    key = "total" if point.index < 0 else point.bound
    column, row = _place(axes, point)
    canvas.put(column, row, _SYMBOL[key], "total" if key == "total" else _style(point.bound))


def _place(axes: _Axes, point: ChartPoint) -> tuple[int, int]:
    """The cell of a point; margins are the outermost columns and the last row."""
    rate = point.drawn_flop_per_s
    if rate is not None:
        row = int(axes.y(rate)) // 4
    elif point.margin == "bottom":
        row = axes.rows - 1
    else:
        row = int(point.along * axes.rows)
    if point.arithmetic_intensity is not None:
        return int(axes.x(point.arithmetic_intensity)) // 2, row
    return (axes.columns - 1 if point.margin == "right" else 0), row


def _style(bound: str) -> str:
    return "dim" if bound == "unknown" else bound


def _draw_labels(canvas: _Canvas, axes: _Axes) -> list[str]:
    """Names the roofs on their lines; returns the labels for which there was no room."""
    chart = axes.chart
    for ridge in chart.ridges:
        if ridge.main:
            column = int(axes.x(ridge.arithmetic_intensity)) // 2
            canvas.put(column, int(axes.y(ridge.flop_per_s)) // 4, "┬", "roof")
    # Used roofs come first: where two are close, the one that matters has its name.
    roofs = sorted(chart.roofs, key=lambda r: not r.used)
    memories = sorted(chart.memory_roofs, key=lambda m: not m.used)
    left_out = [r.label for r in roofs if not _label_roof(canvas, axes, r)]
    return left_out + [m.label for m in memories if not _label_memory(canvas, axes, m)]


def _label_roof(canvas: _Canvas, axes: _Axes, roof: RoofLine) -> bool:
    """Writes above the line at the right, or into the line where another roof runs just above.

    Where ops are in the way the unit is left out: the axis has it.
    """
    rows = {int(axes.y(r.peak_flop_per_s)) // 4 for r in axes.chart.roofs}
    row = int(axes.y(roof.peak_flop_per_s)) // 4
    places = (row, row - 1) if row - 1 in rows else (row - 1, row)
    for label in (roof.label, roof.label.removesuffix("FLOP/s")):
        text = shorten(clean(label), canvas.columns * 2 // 3)
        column = canvas.columns - _MARGIN - 1 - display_width(text)
        if any(canvas.write(column, at, text, "" if roof.used else "dim") for at in places):
            return True
    return False


def _label_memory(canvas: _Canvas, axes: _Axes, memory: MemoryRoof) -> bool:
    """Writes left of the line, from the middle upwards."""
    text = clean(memory.label)
    low, high = axes.chart.y_range
    for row in range(canvas.rows // 2, 0, -1):
        rate = high * (low / high) ** ((row * 4 + 2) / (canvas.rows * 4 - 1))
        column = int(axes.x(roofline.ratio(rate, memory.byte_per_s))) // 2 - len(text) - 2
        if canvas.write(column, row, text, "" if memory.used else "dim"):
            return True
    return False


def _rate_labels(axes: _Axes) -> dict[int, str]:
    """Row to label, at powers of ten (of a thousand where there are many)."""
    low, high = axes.chart.y_range
    rates = decades(low, high)
    step = 1 if len(rates) <= axes.rows // 2 else 3
    shown = [v for v in rates if round(math.log10(v)) % step == 0]
    return {int(axes.y(v)) // 4: format_si(v, "") for v in shown}


def _bottom(axes: _Axes) -> list[str]:
    """The axis with ticks, their labels, and the ridge point below."""
    low, high = axes.chart.x_range
    rule, labels = ["─"] * axes.columns, list("FLOP/byte".ljust(axes.columns + _LEFT))
    ticks = [(axes.x(v), format_number(v), "┴") for v in decades(low, high)]
    for ridge in axes.chart.ridges:
        if ridge.main:
            # The ridge comes first, so that a power of ten close to it gives way.
            value = f"▲{format_number(ridge.arithmetic_intensity, 3)}"
            ticks.insert(0, (axes.x(ridge.arithmetic_intensity), value, "┼"))
    for x, text, mark in ticks:
        column = int(x) // 2
        at = _LEFT + column
        space = labels[max(at - 1, 0) : at + len(text) + 1]
        if (
            0 <= column < axes.columns
            and at + len(text) <= len(labels)
            and not "".join(space).strip()
        ):
            labels[at : at + len(text)] = text
            rule[column] = mark
    zero = " " * (_LEFT - 2)
    return [f"{zero} └{''.join(rule)}", "".join(labels).rstrip()]


def _legend(chart: RooflineChart, left_out: Sequence[str], width: int) -> list[str]:
    """Explains the symbols in use; leaves out what does not occur."""
    bounds = dict.fromkeys(p.bound for p in chart.points)
    parts = [f"{_SYMBOL[b]} {b}-bound" if b != "unknown" else "? bound unknown" for b in bounds]
    if chart.total.name:
        parts.append(f"★ {chart.total.kind}")
    if chart.moves:
        parts.append("○ first run")
    if chart.ridges:
        parts.append("▲ ridge point")
    margins = {p.margin for p in chart.points}
    if "left" in margins:
        parts.append("left edge: no work")
    if "right" in margins:
        parts.append("right edge: no traffic")
    if "bottom" in margins:
        parts.append("bottom: time unknown")
    # A no-break space keeps each entry whole; rich would break there.
    lines = textwrap.wrap("  ".join(part.replace(" ", "\u00a0") for part in parts), width)
    entries = [text.replace("\u00a0", " ") for text in lines]
    return [*entries, f"not labelled: {', '.join(left_out)}"] if left_out else entries
