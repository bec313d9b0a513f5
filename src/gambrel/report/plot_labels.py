"""Where texts stand in a static figure, once it is known how large everything is on paper.

A text beside its place stays where it was put unless it leaves the frame or lies on a line, a dot
or another text; then the nearest place where it lies on least is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Marks a text that runs along a slanted roof, and one that stands behind the end of a bar.
SLANTED, BEHIND = "slanted", "behind"
#: What it costs to lie on a text, on a line or beyond it, on a dot; to be moved by a line of text,
#: and across the whole frame.
_TEXT, _LINE, _DOT, _UP, _ACROSS = 8.0, 4.0, 1.0, 0.3, 3.0
#: Steps aside that are tried, each a tenth of the frame, and lines of text up or down.
_ASIDE: Final = (0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5)
_LINES: Final = (0, -1, 1, -2, 2)
#: Room of a number below an axis, of its width.
_ROOM: Final = 1.5


class _Box(NamedTuple):
    left: float
    low: float
    right: float
    high: float

    def moved(self, dx: float, dy: float) -> _Box:
        return _Box(self.left + dx, self.low + dy, self.right + dx, self.high + dy)

    def meets(self, other: _Box) -> bool:
        aside = self.right <= other.left or other.right <= self.left
        return not (aside or self.high <= other.low or other.high <= self.low)

    def way(self, height: float) -> _Box | None:
        """What lies between a line at this height and the middle of the box."""
        middle = (self.left + self.right) / 2
        low, high = (height + 1, self.low) if self.low > height else (self.high, height - 1)
        return _Box(middle, low, middle + 1, high) if low < high else None

    def crossed(self, a: Sequence[float], b: Sequence[float]) -> bool:
        """Whether a line from a to b passes through, clipped side by side (Liang and Barsky)."""
        first, last = 0.0, 1.0
        sides = ((0, self.left, self.right), (1, self.low, self.high))
        for i, least, most in sides:
            step = b[i] - a[i]
            if step == 0:
                if not least < a[i] < most:
                    return False
                continue
            ends = sorted(((least - a[i]) / step, (most - a[i]) / step))
            first, last = max(first, ends[0]), min(last, ends[1])
        return first < last


def settle(made: Figure) -> None:
    """Turns texts along their roofs, and moves those that leave the frame or lie on something."""
    made.draw_without_rendering()
    for axes in made.axes:
        if any(text.get_gid() == BEHIND for text in axes.texts):
            _room_behind(axes)
        else:
            _turn(axes)
            _apart(axes)


def _room_behind(axes: Axes) -> None:
    """As long an axis as leaves room for the texts behind the bars, and as many numbers as fit."""
    from matplotlib.ticker import MaxNLocator

    width = axes.bbox.width
    longest = 0.0
    for text in axes.texts:
        said = min(text.get_window_extent().width, 0.8 * width)
        end = text.xy[0]  # type: ignore[attr-defined]
        longest = max(longest, end * width / (0.98 * width - said))
    axes.set_xlim(0, longest or 1.0)
    numbers = [n.get_window_extent().width for n in axes.get_xticklabels()]
    fitting = int(width / (_ROOM * max(numbers, default=1.0) or 1.0))
    axes.xaxis.set_major_locator(MaxNLocator(max(1, min(5, fitting))))


def _turn(axes: Axes) -> None:
    for text in axes.texts:
        if text.get_gid() == SLANTED:
            x, y = text.xy  # type: ignore[attr-defined]
            (a, b), (c, d) = axes.transData.transform([(x, y), (2 * x, 2 * y)])
            text.set_rotation(math.degrees(math.atan2(d - b, c - a)))


def _apart(axes: Axes) -> None:
    """Moves the level texts of a chart, the first ones first."""
    frame = _Box(*axes.bbox.extents)
    there = _There(list(_lines(axes)), list(_dots(axes)), [])
    for text in axes.texts:
        if not text.get_text() or text.anncoords != "offset points":  # type: ignore[attr-defined]
            continue
        if text.get_gid() == SLANTED:
            continue
        box = _Box(*text.get_window_extent().extents)
        height = axes.transData.transform(text.xy)[1]  # type: ignore[attr-defined]
        costs = [(there.cost(box, step, height, frame), step) for step in _places(box, frame)]
        _, (dx, dy) = min(costs, key=itemgetter(0))
        there.texts.append(box.moved(dx, dy))
        if dx or dy:
            points = 72.0 / axes.figure.dpi
            x, y = text.xyann  # type: ignore[attr-defined]
            text.xyann = (x + dx * points, y + dy * points)  # type: ignore[attr-defined]


class _There(NamedTuple):
    """What a text should not lie on, in pixels."""

    lines: list[tuple[Any, Any]]
    dots: list[_Box]
    texts: list[_Box]

    def cost(self, box: _Box, step: tuple[float, float], height: float, frame: _Box) -> float:
        """What it costs to move a text of a place at this height by a step."""
        moved = box.moved(*step)
        way = moved.way(height)
        lies = sum(moved.crossed(a, b) for a, b in self.lines)
        beyond = sum(way.crossed(a, b) for a, b in self.lines) if way else 0
        return (
            _TEXT * sum(map(moved.meets, self.texts))
            + _LINE * (lies + beyond)
            + _DOT * sum(map(moved.meets, self.dots))
            + _UP * abs(step[1]) / (box.high - box.low)
            + _ACROSS * abs(step[0]) / (frame.right - frame.left)
        )


def _places(box: _Box, frame: _Box) -> Iterator[tuple[float, float]]:
    """Moves that keep a text within the frame; where it is too wide, at its left edge."""
    high = box.high - box.low
    for aside in _ASIDE:
        dx = aside * 0.1 * (frame.right - frame.left)
        dx = min(dx, frame.right - 2 - box.right)
        dx = max(dx, frame.left + 2 - box.left)
        for lines in _LINES:
            # Below its place it keeps as far from it as above.
            dy = lines * 1.15 * high if lines >= 0 else lines * 1.15 * high - 0.35 * high
            dy = max(min(dy, frame.high - 1 - box.high), frame.low + 1 - box.low)
            yield dx, dy


def _lines(axes: Axes) -> Iterator[tuple[Any, Any]]:
    """Pieces of the lines that count, in pixels: roofs and curves, not what is thin or dashed."""
    for line in axes.lines:
        if line.get_linestyle() == "-":
            places = axes.transData.transform(line.get_xydata())
            yield from pairwise(places)


def _dots(axes: Axes) -> Iterator[_Box]:
    scale = axes.figure.dpi / 72.0
    for drawn in axes.collections:
        sizes: Any = getattr(drawn, "get_sizes", tuple)()
        if not len(sizes):
            continue
        places = axes.transData.transform(drawn.get_offsets())
        for i, (x, y) in enumerate(places):
            r = math.sqrt(sizes[i % len(sizes)]) / 2 * scale
            yield _Box(x - r, y - r, x + r, y + r)
