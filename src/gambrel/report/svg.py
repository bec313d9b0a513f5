"""Pictures as SVG text: one drawing for the page (coloured by its style) and for files.

Every colour is a class, so that a page's light and dark colours apply; a file carries the same
classes in a style of its own. Text from a model is escaped and its control characters made visible.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Final

from gambrel.report.picture import Bars, Chart, Curve, Picture, Unit
from gambrel.report.text import clean, shorten
from gambrel.units import format_capacity, format_number, format_si

WIDTH: Final = 620
HEIGHT: Final = 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 138, 34, 52
_ROW: Final = 34
#: Curves beyond these take the colours again.
COLORS: Final = 6

#: Colours of light and dark grounds, by class (Okabe and Ito's palette).
STYLE: Final = """
.pic { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.pic text { font-size: 13px; fill: var(--soft, #5b6472); }
.pic .t { font-size: 15px; font-weight: 600; fill: var(--ink, #1d2129); }
.pic .v { fill: var(--ink, #1d2129); }
.pic .g { stroke: var(--line, #d9dde3); stroke-width: 1; }
.pic .f { fill: none; stroke: var(--line, #d9dde3); }
.pic .l { fill: none; stroke-width: 2.2; }
.pic .d { stroke-dasharray: 5 4; stroke-width: 1.6; }
.pic .r { stroke: var(--ink, #1d2129); stroke-width: 1.6; stroke-dasharray: 2 3; }
.pic .m { fill: var(--star, #ffd43b); stroke: var(--ink, #1d2129); stroke-width: 1.3; }
.pic .o { fill: none; stroke-width: 1.8; }
.pic .h { paint-order: stroke; stroke: var(--ground, #ffffff); stroke-width: 4px; }
.c0 { --c: #0072b2; } .c1 { --c: #d55e00; } .c2 { --c: #009e73; }
.c3 { --c: #b0508e; } .c4 { --c: #9a7500; } .c5 { --c: #555555; }
.compute { --c: #d55e00; } .memory { --c: #0072b2; } .network { --c: #b0508e; }
.overhead { --c: #9a7500; }
@media (prefers-color-scheme: dark) {
.c0 { --c: #56b4e9; } .c1 { --c: #ff9d5c; } .c2 { --c: #4fd1ae; }
.c3 { --c: #e29cc7; } .c4 { --c: #f0c548; } .c5 { --c: #bbbbbb; }
.compute { --c: #ff9d5c; } .memory { --c: #56b4e9; } .network { --c: #e29cc7; }
.overhead { --c: #f0c548; }
}
.pic .l, .pic .o { stroke: var(--c, #777777); }
.pic .b, .pic .p { fill: var(--c, #777777); }
.pic .n { fill: var(--c, #777777); font-weight: 600; }
"""

#: The page's own colours by name, for a file that stands alone.
GROUND: Final = """
:root { --ground: #ffffff; --ink: #1d2129; --soft: #5b6472; --line: #d9dde3; --star: #ffd43b; }
@media (prefers-color-scheme: dark) {
:root { --ground: #14171c; --ink: #e8ebf0; --soft: #a0a9b8; --line: #323944; }
}
.ground { fill: var(--ground); }
"""


def draw(picture: Picture) -> str:
    """One picture as an ``svg`` element without a style of its own, for a page that has it."""
    body, height = _body(picture)
    return _element(body, height, "", _described(picture))


def draw_file(pictures: Sequence[Picture]) -> str:
    """All pictures below each other as an SVG file."""
    parts: list[str] = []
    top = 0.0
    for picture in pictures:
        body, height = _body(picture)
        parts.append(f'<g transform="translate(0 {top:g})">{body}</g>')
        top += height + 16
    ground = f'<rect class="ground" width="{WIDTH}" height="{top:g}"/>'
    names = "; ".join(p.title for p in pictures)
    return _element(ground + "".join(parts), top, f"<style>{GROUND}{STYLE}</style>", names) + "\n"


def _described(picture: Picture) -> str:
    return f"{picture.title}. {picture.about}"


def _element(body: str, height: float, style: str, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pic" role="img" '
        f'aria-label="{_escaped(label)}" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{WIDTH}" height="{height:g}">{style}{body}</svg>'
    )


def _body(picture: Picture) -> tuple[str, float]:
    if isinstance(picture, Bars):
        return _bars(picture)
    return _chart(picture), HEIGHT


def _escaped(text: str) -> str:
    return html.escape(clean(text), quote=True)


def _text(x: float, y: float, text: str, css: str = "", anchor: str = "start") -> str:
    named = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{_escaped(text)}</text>'


def _line(a: tuple[float, float], b: tuple[float, float], css: str) -> str:
    return f'<line class="{css}" x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"/>'


def formatted(value: float, unit: Unit) -> str:
    """A number of an axis."""
    if unit == "capacity":
        return format_capacity(value, 3)
    if unit == "s":
        return format_si(value, "s", 3)
    if unit == "count" and value < 1e4:
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"
    if unit == "count":
        return f"{value / 1024:,.0f}k" if value % 1024 == 0 else format_si(value, "", 3)
    return format_number(value, 3)


class _Scale:
    """A logarithmic axis from values to pixels."""

    def __init__(
        self, values: Iterable[float], low: float, high: float, unit: Unit, margin: float = 0.0
    ) -> None:
        known = [v for v in values if v > 0 and math.isfinite(v)] or [1.0]
        small, large = min(known), max(known)
        if large < small * 1.5:
            small, large = small / 2, large * 2
        self._a, self._b = math.log(small), math.log(large)
        self._a -= margin * (self._b - self._a)
        self._low, self._high, self._unit = low, high, unit

    def __call__(self, value: float) -> float:
        share = (math.log(value) - self._a) / (self._b - self._a)
        return self._low + share * (self._high - self._low)

    def ticks(self, most: int) -> list[float]:
        """Round values: powers of 2 or 10, thinned to at most ``most``."""
        base = 10.0 if self._unit in ("FLOP/byte", "s", "token/s") else 2.0
        first = math.ceil(self._a / math.log(base) - 1e-9)
        last = math.floor(self._b / math.log(base) + 1e-9)
        powers = [base**i for i in range(first, last + 1)]
        for steps in ((1, 2, 5), range(1, 10), [i / 10 for i in range(10, 100)]):
            if base == 10.0 and len(powers) < 3:
                powers = sorted(
                    v
                    for i in range(first - 1, last + 2)
                    for v in (s * base**i for s in steps)
                    if self._a - 1e-9 <= math.log(v) <= self._b + 1e-9
                )
        step = max(1, -(-len(powers) // most))
        return powers[::step]


def _chart(chart: Chart) -> str:
    mark = [chart.mark] if chart.mark else []
    levels = [v.value for v in chart.levels]
    xs = [x for c in chart.curves for x, _ in c.points] + [m[0] for m in mark]
    ys = [y for c in chart.curves for _, y in c.points] + [m[1] for m in mark] + levels
    x = _Scale(xs, _LEFT, WIDTH - _RIGHT, chart.x.unit)
    y = _Scale(ys, HEIGHT - _BOTTOM, _TOP + 18, chart.y.unit, margin=0.08)
    parts = [_text(12, 21, shorten(clean(chart.title), 74), "t"), *_grid(chart, x, y)]
    parts += [_curve(c, x, y) for c in chart.curves]
    for level in chart.levels:
        at = y(level.value)
        parts.append(_line((_LEFT, at), (WIDTH - _RIGHT, at), "r"))
        said = f"{level.name} {formatted(level.value, chart.y.unit)}"
        below = at > HEIGHT - _BOTTOM - 40  # curves start there, above the line
        parts.append(_text(_LEFT + 8, at + 15 if below else at - 5, said, "v h"))
    parts += _names(chart, y)
    if chart.mark:
        parts.append(_star(x(chart.mark[0]), y(chart.mark[1])))
    return "".join(parts)


def _grid(chart: Chart, x: _Scale, y: _Scale) -> list[str]:
    low, high = HEIGHT - _BOTTOM, _TOP
    parts = [
        f'<rect class="f" x="{_LEFT}" y="{high}" width="{WIDTH - _LEFT - _RIGHT}" '
        f'height="{low - high}"/>'
    ]
    for value in x.ticks(7):
        parts.append(_line((x(value), high), (x(value), low), "g"))
        parts.append(_text(x(value), low + 18, formatted(value, chart.x.unit), "", "middle"))
    for value in y.ticks(7):
        parts.append(_line((_LEFT, y(value)), (WIDTH - _RIGHT, y(value)), "g"))
        parts.append(_text(_LEFT - 6, y(value) + 4, formatted(value, chart.y.unit), "", "end"))
    parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 12, chart.x.title, "", "middle"))
    middle = (low + high) / 2
    parts.append(
        f'<text transform="translate(14 {middle:.1f}) rotate(-90)" text-anchor="middle">'
        f"{_escaped(chart.y.title)}</text>"
    )
    return parts


def _curve(curve: Curve, x: _Scale, y: _Scale) -> str:
    css = f"c{curve.color % COLORS}"
    points = [(x(a), y(b)) for a, b in curve.points if a > 0 and b > 0]
    if curve.style == "dots":
        dots = (f'<circle class="p {css}" cx="{a:.1f}" cy="{b:.1f}" r="4"/>' for a, b in points)
        return "".join(dots)
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    dashed = " d" if curve.style == "dashed" else ""
    return f'<polyline class="l {css}{dashed}" points="{path}"/>'


def _names(chart: Chart, y: _Scale) -> list[str]:
    """Names at the ends of curves, moved apart where they would overlap."""
    named = [c for c in chart.curves if c.name and c.points]
    ends = sorted((y(c.points[-1][1]), i) for i, c in enumerate(named))
    places = spread([at for at, _ in ends], 15.0, _TOP + 6.0, HEIGHT - _BOTTOM)
    return [
        _text(
            WIDTH - _RIGHT + 8,
            at + 4,
            shorten(clean(named[i].name), 16),
            f"n c{named[i].color % COLORS}",
        )
        for at, (_, i) in zip(places, ends, strict=True)
    ]


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones (in rising order) that are at least ``gap`` apart.

    They stay between ``low`` and ``high`` as far as there is room.
    """
    places: list[float] = []
    for value in wanted:
        places.append(max(value, places[-1] + gap) if places else max(value, low))
    limit = high
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], limit)
        limit = places[i] - gap
    return places


def _star(x: float, y: float) -> str:
    corners = []
    for i in range(10):
        radius = 8.0 if i % 2 == 0 else 3.4
        angle = math.pi * (i / 5 - 0.5)
        corners.append(f"{x + radius * math.cos(angle):.1f},{y + radius * math.sin(angle):.1f}")
    return f'<polygon class="m" points="{" ".join(corners)}"/>'


def _bars(bars: Bars) -> tuple[str, float]:
    name_width, right = 176, 150
    longest = max((v for row in bars.rows for v in row.values), default=0.0) or 1.0
    room = WIDTH - name_width - right

    def length(value: float) -> float:
        return max(value / longest * room, 0.5)

    parts = [_text(12, 21, shorten(clean(bars.title), 74), "t"), _legend(bars)]
    for i, row in enumerate(bars.rows):
        top = _TOP + 24 + i * _ROW
        css = row.color if row.color in _BOUNDS else "c5"
        parts.append(_text(name_width - 8, top + 15, shorten(clean(row.name), 25), "v", "end"))
        for j, value in reversed(list(enumerate(row.values))):
            shape = "b" if j == 0 else "o"
            inset = 4 if j == 0 else 0
            parts.append(
                f'<rect class="{shape} {css}" x="{name_width}" y="{top + inset}" '
                f'width="{length(value):.1f}" height="{22 - 2 * inset}"/>'
            )
        said = " / ".join(formatted(v, bars.unit) for v in row.values)
        end = name_width + max(map(length, row.values), default=0.0)
        parts.append(_text(end + 8, top + 15, said))
    return "".join(parts), _TOP + 34 + len(bars.rows) * _ROW


_BOUNDS: Final = frozenset({"compute", "memory", "network", "overhead"})


def _legend(bars: Bars) -> str:
    """What full and outlined bars are, and what the colours in use mean."""
    forms = ("full", *("outline" for _ in bars.series[1:]))
    said = [f"{form}: {name}" for form, name in zip(forms, bars.series, strict=True)]
    parts = [_text(12, 42, ", ".join(said))]
    used = dict.fromkeys(r.color for r in bars.rows if r.color in _BOUNDS)
    x = WIDTH - 118.0 * len(used)
    for name in used:
        parts.append(f'<rect class="b {name}" x="{x}" y="32" width="11" height="11"/>')
        parts.append(_text(x + 16, 42, f"{name}-bound"))
        x += 118
    return "".join(parts)
