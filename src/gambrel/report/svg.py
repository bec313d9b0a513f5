"""Pictures as SVG text: one drawing for the page (coloured by its style) and for files.

Every colour is a class, so that a page's light and dark colours apply; a file carries the same
classes in a style of its own. Text from a model is escaped and its control characters made visible.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gambrel.report.picture import (
    COLORS,
    SHAPES,
    Arrow,
    Axis,
    Bars,
    Chart,
    Curve,
    Dot,
    Key,
    Note,
    Picture,
    color,
    formatted,
)
from gambrel.report.text import clean, cut, shorten

WIDTH: Final = 620
HEIGHT: Final = 360
_TOP: Final = 34
_ROW: Final = 34
#: Radius of the smallest and the largest dot.
_SMALLEST, _LARGEST = 3.0, 10.0
#: Pixels of a character in the widest of the fonts that browsers take; characters of a bar's name.
_WIDE, _NAME = 8.0, 25


@dataclass(frozen=True, slots=True)
class _Frame:
    """Pixels of a chart and of the room around its frame."""

    width: int = WIDTH
    height: int = HEIGHT
    left: int = 84
    right: int = 138
    bottom: int = 52


#: A chart with a legend is larger.
_LARGE: Final = _Frame(900, 560, 74, 190, 46)


def _colors(ground: int) -> str:
    return "\n".join(f".k-{name} {{ --c: {both[ground]}; }}" for name, both in COLORS.items())


#: Colours of light and dark grounds, by class.
STYLE: Final = f"""
.pic {{ font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }}
.pic text {{ font-size: 13px; fill: var(--soft, #5b6472); }}
.pic .t {{ font-size: 15px; font-weight: 600; fill: var(--ink, #1d2129); }}
.pic .v {{ fill: var(--ink, #1d2129); }}
.pic .s {{ font-size: 11px; }}
.pic .g {{ stroke: var(--line, #d9dde3); stroke-width: 1; }}
.pic .f {{ fill: none; stroke: var(--line, #d9dde3); }}
.pic .l {{ fill: none; stroke-width: 2.2; }}
.pic .d {{ stroke-dasharray: 5 4; stroke-width: 1.6; }}
.pic .w {{ stroke-dasharray: 3 3; stroke-width: 0.8; }}
.pic .r {{ stroke: var(--ink, #1d2129); stroke-width: 1.6; stroke-dasharray: 2 3; }}
.pic .y {{ stroke: var(--ink, #1d2129); stroke-width: 1.6; }}
.pic .m {{ fill: var(--star, #ffd43b); stroke: var(--ink, #1d2129); stroke-width: 1.3; }}
.pic .o {{ fill: none; stroke-width: 1.8; }}
.pic .p {{ stroke: var(--ground, #ffffff); stroke-width: 0.7; }}
.pic .h {{ paint-order: stroke; stroke: var(--ground, #ffffff); stroke-width: 4px; }}
{_colors(0)}
@media (prefers-color-scheme: dark) {{
{_colors(1)}
}}
.pic .l, .pic .o {{ stroke: var(--c, #777777); }}
.pic .b, .pic .p {{ fill: var(--c, #777777); }}
.pic .n {{ fill: var(--c, #777777); font-weight: 600; }}
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
    body, width, height = _body(picture)
    return _element(body, width, height, "", f"{picture.title}. {picture.about}".strip())


def draw_file(pictures: Sequence[Picture]) -> str:
    """All pictures below each other as an SVG file."""
    parts: list[str] = []
    top, wide = 0.0, WIDTH
    for picture in pictures:
        body, width, height = _body(picture)
        parts.append(f'<g transform="translate(0 {top:g})">{body}</g>')
        top, wide = top + height + 16, max(wide, width)
    ground = f'<rect class="ground" width="{wide}" height="{top:g}"/>'
    names = "; ".join(p.title for p in pictures)
    return _element(ground + "".join(parts), wide, top, f"<style>{GROUND}{STYLE}</style>", names)


def _element(body: str, width: float, height: float, style: str, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pic" role="img" '
        f'aria-label="{_escaped(label)}" viewBox="0 0 {width} {height:g}" '
        f'width="{width}" height="{height:g}">{style}{body}</svg>\n'
    )


def _body(picture: Picture) -> tuple[str, int, float]:
    """What is drawn, its width and its height."""
    if isinstance(picture, Bars):
        body, height = _bars(picture)
        return body, WIDTH, height
    frame = _LARGE if picture.legend else _Frame()
    return _Plot(picture, frame).drawn(), frame.width, frame.height


def _escaped(text: str) -> str:
    return html.escape(clean(text), quote=True)


def _text(x: float, y: float, text: str, css: str = "", anchor: str = "start") -> str:
    named = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{_escaped(text)}</text>'


def _line(a: tuple[float, float], b: tuple[float, float], css: str) -> str:
    return f'<line class="{css}" x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"/>'


def _said(about: Iterable[str]) -> str:
    """What a browser shows where the reader points."""
    text = "\n".join(_escaped(line) for line in about if line)
    return f"<title>{text}</title>" if text else ""


class _Scale:
    """An axis from values to pixels."""

    def __init__(
        self, axis: Axis, values: Iterable[float], low: float, high: float, margin: float = 0.0
    ) -> None:
        self.axis = axis
        if axis.ends is not None:
            small, large = axis.ends
        elif axis.linear:
            small, large = 0.0, 1.08 * max(values, default=1.0) or 1.0
        else:
            known = [v for v in values if v > 0 and math.isfinite(v)] or [1.0]
            small, large = min(known), max(known)
            if large < small * 1.5:
                small, large = small / 2, large * 2
        self._a, self._b = self._of(small), self._of(large)
        if axis.ends is None and not axis.linear:
            self._a -= margin * (self._b - self._a)
        self._low, self._high = low, high

    def _of(self, value: float) -> float:
        return value if self.axis.linear else math.log(value)

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self._a) / (self._b - self._a)
        return self._low + share * (self._high - self._low)

    def unit(self) -> float:
        """Pixels of a factor of e."""
        return (self._high - self._low) / (self._b - self._a)

    def ticks(self, most: int) -> list[float]:
        """Round values: powers of 2 or 10 or their multiples, thinned to at most ``most``."""
        base = self.axis.base
        if self.axis.linear:
            return self._even(self._a, self._b, most)
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
        if base == 2.0 and len(powers) < 3:
            return self._even(math.exp(self._a), math.exp(self._b), most)
        step = max(1, -(-len(powers) // most))
        return powers[::step]

    def _even(self, low: float, high: float, most: int) -> list[float]:
        """Values in equal steps, each a power of the base; counts are whole."""
        base = self.axis.base
        step = base ** math.ceil(math.log(max((high - low) / most, 1e-30), base))
        step = max(step, 1.0) if self.axis.unit == "count" else step
        return [step * i for i in range(math.ceil(low / step - 1e-9), int(high / step + 1e-9) + 1)]


class _Plot:
    """A chart within its frame."""

    def __init__(self, chart: Chart, frame: _Frame) -> None:
        self.chart, self.frame = chart, frame
        self.right, self.low = frame.width - frame.right, frame.height - frame.bottom
        mark = [chart.mark] if chart.mark else []
        places = [p for c in chart.curves for p in c.points] + mark
        places += [d.at for d in chart.dots] + [n.at for n in chart.notes]
        ys = [p[1] for p in places] + [v.value for v in chart.levels]
        self.x = _Scale(chart.x, [p[0] for p in places], frame.left, self.right)
        high = _TOP if chart.y.ends else _TOP + 18
        self.y = _Scale(chart.y, ys, self.low, high, margin=0.08)

    def drawn(self) -> str:
        """All of it."""
        chart = self.chart
        parts = [_text(12, 21, shorten(clean(chart.title), self.frame.width // 8), "t")]
        parts += self._grid()
        parts += map(self._curve, chart.curves)
        parts += self._levels()
        parts += map(self._note, chart.notes)
        parts += map(self._arrow, chart.arrows)
        parts += map(self._dot, sorted(chart.dots, key=lambda d: (d.shape == "star", -d.size)))
        parts += self._names()
        parts += self._legend()
        if chart.mark:
            parts.append(_shape("star", self._at(chart.mark), 8.0, "m"))
        return "".join(parts)

    def _at(self, place: tuple[float, float]) -> tuple[float, float]:
        return self.x(place[0]), self.y(place[1])

    def _grid(self) -> Iterator[str]:
        left, right, low, high = self.frame.left, self.right, self.low, _TOP
        yield (
            f'<rect class="f" x="{left}" y="{high}" width="{right - left}" height="{low - high}"/>'
        )
        for value in self.x.ticks(9 if self.chart.x.ends else 7):
            yield _line((self.x(value), high), (self.x(value), low), "g")
            said = formatted(value, self.chart.x.unit)
            yield _text(self.x(value), low + 18, said, "", "middle")
        for value in self.y.ticks(12 if self.chart.y.ends else 7):
            yield _line((left, self.y(value)), (right, self.y(value)), "g")
            said = formatted(value, self.chart.y.unit)
            yield _text(left - 6, self.y(value) + 4, said, "", "end")
        bottom = self.frame.height - 12
        yield _text((left + right) / 2, bottom, self.chart.x.title, "", "middle")
        yield (
            f'<text transform="translate(14 {(low + high) / 2:.1f}) rotate(-90)" '
            f'text-anchor="middle">{_escaped(self.chart.y.title)}</text>'
        )

    def _curve(self, curve: Curve) -> str:
        css = f"k-{color(curve.color)}"
        linear = self.chart.x.linear
        points = [self._at(p) for p in curve.points if linear or min(p) > 0]
        if curve.style == "dots":
            return "".join(_shape("circle", at, 4.0, f"p {css}") for at in points)
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        tag = "polyline"
        look = {"dashed": f"l {css} d", "faint": f"l {css} w"}.get(curve.style, f"l {css}")
        if curve.style == "area":
            tag, look = "polygon", f"b {css}"
        about = _said([curve.about])
        drawn = f'<{tag} class="{look}" points="{path}"'
        return f"{drawn}>{about}</{tag}>" if about else f"{drawn}/>"

    def _levels(self) -> Iterator[str]:
        for level in self.chart.levels:
            at = self.y(level.value)
            yield _line((self.frame.left, at), (self.right, at), "r")
            said = f"{level.name} {formatted(level.value, self.chart.y.unit)}"
            below = at > self.low - 40  # curves start there, above the line
            yield _text(self.frame.left + 8, at + 15 if below else at - 5, said, "v h")

    def _arrow(self, arrow: Arrow) -> str:
        """A ring, a line and two short lines at its end."""
        (a, b), (c, d) = self._at(arrow.start), self._at(arrow.end)
        css, angle = f"k-{color(arrow.color)}", math.atan2(d - b, c - a)
        tips = [(c - 7 * math.cos(angle + t), d - 7 * math.sin(angle + t)) for t in (0.4, -0.4)]
        (e, f), (g, h) = tips
        path = f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}M{e:.1f} {f:.1f}L{c:.1f} {d:.1f}L{g:.1f} {h:.1f}"
        return f'<path class="o {css}" d="{path}"/>' + _shape("circle", (a, b), 3.5, f"o {css}")

    def _dot(self, dot: Dot) -> str:
        radius = _SMALLEST + (_LARGEST - _SMALLEST) * dot.size
        css = f"{'o' if dot.hollow else 'p'} k-{color(dot.color)}"
        css = "m" if dot.color == "star" and not dot.hollow else css
        return _shape(dot.shape, self._at(dot.at), radius, css, _said(dot.about))

    def _note(self, note: Note) -> str:
        x, y = self._at(note.at)
        side = "end" if note.side == "left" else "start"
        css = "s h" if note.faint else "s v h"
        said = shorten(clean(note.text), 60)
        if not note.slanted:
            return _text(x + (-4 if note.side == "left" else 4), y - 4, said, css, side)
        angle = math.degrees(math.atan2(self.y.unit(), self.x.unit()))
        return (
            f'<text class="{css}" transform="translate({x - 4:.1f} {y - 5:.1f}) '
            f'rotate({angle:.1f})">{_escaped(said)}</text>'
        )

    def _names(self) -> Iterator[str]:
        """Names at the ends of curves, moved apart where they would overlap."""
        named = [c for c in self.chart.curves if c.name and c.points]
        ends = sorted((self.y(c.points[-1][1]), i) for i, c in enumerate(named))
        places = spread([at for at, _ in ends], 15.0, _TOP + 6.0, self.low)
        for at, (_, i) in zip(places, ends, strict=True):
            css = f"n k-{color(named[i].color)}"
            yield _text(self.right + 8, at + 4, shorten(clean(named[i].name), 16), css)

    def _legend(self) -> Iterator[str]:
        top = _TOP + 12.0
        for key in self.chart.legend:
            if key.text:
                yield _key(key, self.right + 18.0, top)
            top += 19 if key.text else 9


def _key(key: Key, x: float, y: float) -> str:
    css = "m" if key.color == "star" else f"{'o' if key.hollow else 'p'} k-{color(key.color)}"
    said = shorten(clean(key.text), 26)
    whole = _said([key.text]) if said != clean(key.text) else ""
    return _shape(key.shape, (x, y), 5.5, css, whole) + _text(x + 12, y + 4, said, "s v")


def _shape(name: str, at: tuple[float, float], radius: float, css: str, inside: str = "") -> str:
    x, y = at
    corners = " ".join(f"{x + radius * a:.1f},{y - radius * b:.1f}" for a, b in SHAPES[name])
    tag, where = "polygon", f'points="{corners}"'
    if not corners:
        tag, where = "circle", f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'
    drawn = f'<{tag} class="{css}" {where}'
    return f"{drawn}>{inside}</{tag}>" if inside else f"{drawn}/>"


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


def _bars(bars: Bars) -> tuple[str, float]:
    name_width, right = 12 + int(_NAME * _WIDE), 150
    longest = max((v for row in bars.rows for v in row.known), default=0.0) or 1.0
    room = WIDTH - name_width - right

    def length(value: float) -> float:
        return max(value / longest * room, 0.5)

    parts = [_text(12, 21, shorten(clean(bars.title), 74), "t"), _legend(bars)]
    for i, row in enumerate(bars.rows):
        top = _TOP + 24 + i * _ROW
        css = f"k-{color(row.color or 5)}"
        parts.append(_text(name_width - 8, top + 15, cut(clean(row.name), _NAME), "v", "end"))
        for j, value in reversed(list(enumerate(row.values))):
            if value is None:
                continue
            shape = "b" if j == 0 else "o"
            inset = 4 if j == 0 else 0
            parts.append(
                f'<rect class="{shape} {css}" x="{name_width}" y="{top + inset}" '
                f'width="{length(value):.1f}" height="{22 - 2 * inset}"/>'
            )
        end = name_width + max(map(length, row.known), default=0.0)
        if row.ends:
            low, high = (name_width + min(length(v), room) for v in row.ends)
            parts.append(_line((low, top + 11), (high, top + 11), "y"))
            end = max(end, high)
        room_left = max(int((WIDTH - end - 8) / _WIDE), 12)
        parts.append(_text(end + 8, top + 15, cut(clean(row.said(bars.unit)), room_left)))
    return "".join(parts), _TOP + 34 + len(bars.rows) * _ROW


def _legend(bars: Bars) -> str:
    """What full and outlined bars are, and what the colours in use mean."""
    parts = [_text(12, 42, bars.forms)]
    wide = [28 + _WIDE * len(key.text) for key in bars.legend]
    x = WIDTH - sum(wide)
    for key, room in zip(bars.legend, wide, strict=True):
        css = f"k-{color(key.color)}"
        parts.append(f'<rect class="b {css}" x="{x:g}" y="32" width="11" height="11"/>')
        parts.append(_text(x + 16, 42, key.text))
        x += room
    return "".join(parts)
