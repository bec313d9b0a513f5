"""A roofline as a picture: roofs as lines, ops as dots, levels of memory linked, a legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from gambrel import roofline
from gambrel.analysis.result import Analysis
from gambrel.report import chart as description
from gambrel.report.chart import NO_WORK, ChartPoint, describe
from gambrel.report.level_points import LevelChart, LevelPoint
from gambrel.report.options import Options
from gambrel.report.picture import Arrow, Axis, Chart, Curve, Dot, Key, Note
from gambrel.report.roof_lines import MemoryRoof, RoofLine
from gambrel.report.terms import estimate_text
from gambrel.units import format_number, format_percent, format_si

#: Kinds of op that the legend names.
_MOST_KINDS: Final = 10

#: Room of a character, and of a line of text, as shares of the frame of a small figure.
_LABEL_WIDE, _LABEL_HIGH = 0.016, 0.07
#: Where the mark of ops without FLOPs may stand, as shares of the frame.
_IDLE_PLACES: Final = ((0.03, 0.05), (0.45, 0.15), (0.45, 0.25), (0.6, 0.35), (0.03, 0.9))
#: Ops without FLOPs that their mark names.
_NAMED_IDLE: Final = 8
#: Dots whose range and headroom are drawn.
_MOST_RANGES: Final = 40

#: Lines about a point.
About = Callable[[ChartPoint], Iterable[str]]


def pictures(analysis: Analysis, options: Options) -> tuple[Chart, ...]:
    """The roofline of an analysis."""
    return (of_analysis(analysis, options.title, levels=options.levels),)


def of_analysis(analysis: Analysis, heading: str | None = None, *, levels: bool = False) -> Chart:
    """The roofline of an analysis; each dot says everything about its op.

    Args:
        analysis: What to draw.
        heading: Title; None takes "model on device".
        levels: Show each op once per memory level, linked.
    """
    drawn = describe(analysis, heading, levels=levels)
    if drawn.levels is None:
        return picture_of(drawn, lambda point: _about(point, analysis))
    dots = tuple(_level_dots(drawn.levels, analysis))
    links = tuple(_links(drawn.levels))
    legend = [Key(text=f"at {name}", color=name) for name in drawn.levels.names]
    legend.append(Key(text="whole model", shape="star"))
    return _framed(drawn, dots=dots, links=links, legend=tuple(legend))


def picture_of(drawn: description.RooflineChart, about: About | None = None) -> Chart:
    """The picture of a described roofline.

    Args:
        drawn: What is where.
        about: What a dot says where the reader points at it; None says its name.
    """
    points = [*drawn.points, *([drawn.total] if drawn.total.name else [])]
    placed = [p for p in points if not _is_idle(p)]
    dots = (*(_dot(drawn, p, about(p) if about else _named(p)) for p in placed), *_idle(drawn))
    links = (*_threads(drawn.points), *_ranges(drawn, points))
    return _framed(drawn, dots=dots, links=links, legend=tuple(_legend(drawn)))


def _is_idle(point: ChartPoint) -> bool:
    """Whether it does nothing that a roofline shows: an op without FLOPs."""
    return point.margin == "left" and point.index >= 0 and point.note == NO_WORK


def _idle(drawn: description.RooflineChart) -> Iterator[Dot]:
    """One mark for all ops without FLOPs; its note says how many they are."""
    names = [p.name for p in drawn.points if _is_idle(p)]
    if names:
        more = [f"and {len(names) - _NAMED_IDLE:,} more"] if len(names) > _NAMED_IDLE else []
        about = (_idle_text(drawn), *names[:_NAMED_IDLE], *more)
        yield Dot(
            at=_idle_place(drawn),
            color="memory",
            size=0.2,
            hollow=True,
            group="without FLOPs",
            about=about,
        )


def _idle_place(drawn: description.RooflineChart) -> tuple[float, float]:
    """Where the mark stands: the lower left, or where no dot lies under its note."""
    (left, right), (low, high) = drawn.x_range, drawn.y_range
    shares = [_shares(drawn, p) for p in drawn.points if not _is_idle(p)]
    width = _LABEL_WIDE * (len(_idle_text(drawn)) + 3)
    for x, y in _IDLE_PLACES:
        if not any(x - 0.03 < a < x + width and y - 0.07 < b < y + 0.04 for a, b in shares):
            return left * (right / left) ** x, low * (high / low) ** y
    x, y = _IDLE_PLACES[0]
    return left * (right / left) ** x, low * (high / low) ** y


def _shares(drawn: description.RooflineChart, point: ChartPoint) -> tuple[float, float]:
    """Where a dot stands, as shares of the frame."""
    (left, right), (low, high) = drawn.x_range, drawn.y_range
    x, y = place(drawn, point)
    return math.log(x / left) / math.log(right / left), math.log(y / low) / math.log(high / low)


def _idle_text(drawn: description.RooflineChart) -> str:
    count = sum(p.count for p in drawn.points if _is_idle(p))
    return f"{count:,} op{'s' if count > 1 else ''} without FLOPs" if count else ""


def _framed(
    drawn: description.RooflineChart,
    *,
    dots: tuple[Dot, ...],
    links: tuple[Curve, ...],
    legend: tuple[Key, ...],
) -> Chart:
    return Chart(
        title=drawn.title,
        about="",
        x=Axis(title=drawn.x_label, unit="FLOP/byte", ends=drawn.x_range),
        y=Axis(title=drawn.y_label, unit="", ends=drawn.y_range),
        curves=(*_roofs(drawn), *links),
        dots=dots,
        arrows=tuple(Arrow(start=m.start, end=m.end, color=m.bound) for m in drawn.moves),
        notes=tuple(_labels(drawn)),
        legend=legend,
    )


def _roofs(drawn: description.RooflineChart) -> Iterator[Curve]:
    """Each roof where it limits: right of, or below, where it meets the used ones."""
    left, right = drawn.x_range
    slope = next((m.byte_per_s for m in drawn.memory_roofs if m.used), None)
    top = max((r.peak_flop_per_s for r in drawn.roofs if r.used), default=drawn.y_range[1])
    for roof in drawn.roofs:
        start = max(left, roof.peak_flop_per_s / slope) if slope else left
        yield _roof(start, right, roof.peak_flop_per_s, roof.peak_flop_per_s, roof)
    for memory in drawn.memory_roofs:
        end = min(right, roofline.ratio(top, memory.byte_per_s))
        if end > left:
            yield _roof(left, end, left * memory.byte_per_s, end * memory.byte_per_s, memory)
    for ridge in drawn.ridges:
        if ridge.main:
            ends = (drawn.y_range[0], ridge.flop_per_s)
            yield Curve(
                name="",
                points=tuple((ridge.arithmetic_intensity, y) for y in ends),
                style="faint",
                color="grey",
                about=f"{ridge.label}: peak FLOP/s / peak byte/s",
            )


def _roof(x0: float, x1: float, y0: float, y1: float, roof: RoofLine | MemoryRoof) -> Curve:
    return Curve(
        name="",
        points=((x0, y0), (x1, y1)),
        style="solid" if roof.used else "faint",
        color="ink" if roof.used else "grey",
        about=f"{roof.label}: {roof.source}",
    )


def _labels(drawn: description.RooflineChart) -> Iterator[Note]:
    """Roofs at their right end, memory along its line at a fifth of the height, the ridge below."""
    (left, _), (low, high) = drawn.x_range, drawn.y_range
    for roof in drawn.roofs:
        at = (_clear(drawn, roof), roof.peak_flop_per_s)
        yield Note(at=at, text=roof.label, side="left", faint=not roof.used)
    for memory in drawn.memory_roofs:
        slope = memory.byte_per_s
        rate = max(low * (high / low) ** 0.2, left * slope * 1.5)
        at = (rate / slope, rate)
        yield Note(at=at, text=memory.label, faint=not memory.used, slanted=True)
    if drawn.levels is None and (said := _idle_text(drawn)):
        x, y = _idle_place(drawn)
        yield Note(at=(x * 1.15, y / 1.35), text=said)
    for ridge in drawn.ridges:
        if ridge.main:
            x = ridge.arithmetic_intensity
            # In the right third the label stands left of its line, or it would leave the frame.
            late = math.log(x / left) > 0.65 * math.log(drawn.x_range[1] / left)
            yield Note(at=(x, low), text=ridge.label, side="left" if late else "right")


def _clear(drawn: description.RooflineChart, roof: RoofLine) -> float:
    """Where the name of a roof ends: at the right, or further left where dots would lie under."""
    (left, right), (low, high) = drawn.x_range, drawn.y_range
    height = math.log(roof.peak_flop_per_s / low) / math.log(high / low)
    points = [*drawn.points, *([drawn.total] if drawn.total.name else [])]
    shares = (_shares(drawn, p) for p in points)
    near = [x for x, y in shares if -0.02 < y - height < _LABEL_HIGH]
    width = _LABEL_WIDE * len(roof.label)
    for step in range(14):
        end = 1.0 - 0.05 * step
        if end > width and not any(end - width - 0.02 < x < end + 0.02 for x in near):
            return left * math.exp(end * math.log(right / left))
    return right


def _dot(drawn: description.RooflineChart, point: ChartPoint, about: Iterable[str]) -> Dot:
    whole = point.index < 0
    return Dot(
        at=place(drawn, point),
        shape=point.shape,
        color="star" if whole else point.bound,
        size=0.6 if whole else point.size,
        hollow=bool(point.margin),
        group=point.kind,
        about=tuple(about),
    )


def place(drawn: description.RooflineChart, point: ChartPoint) -> tuple[float, float]:
    """Coordinates of a point; at a margin it stands on the frame, hollow."""
    low, high = drawn.y_range
    x, y = point.arithmetic_intensity, point.drawn_flop_per_s
    if y is None:
        y = low if point.margin == "bottom" else high * (low / high) ** point.along
    if x is None:
        x = drawn.x_range[1 if point.margin == "right" else 0]
    return x, y


def _threads(points: Sequence[ChartPoint]) -> Iterator[Curve]:
    """A line through the dots of one kernel, where it has several."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for p in points:
        if p.arithmetic_intensity and p.flop_per_s:
            rows.setdefault(p.index, []).append((p.arithmetic_intensity, p.flop_per_s))
    for places in rows.values():
        if len(places) > 1:
            yield Curve(name="", points=tuple(sorted(places)), style="faint", color="grey")


def _ranges(drawn: description.RooflineChart, points: Sequence[ChartPoint]) -> Iterator[Curve]:
    """Of the largest dots, the range of the expected rate and the way that is left to the roof."""
    known = [p for p in points if not p.measured and p.low_flop_per_s and p.arithmetic_intensity]
    for p in sorted(known, key=lambda p: -p.size)[:_MOST_RANGES]:
        x, y = place(drawn, p)
        top = p.attainable_flop_per_s
        if top is not None and top > y:
            yield Curve(name="", points=((x, y), (x, top)), style="faint", color=p.bound)
        if p.low_flop_per_s is not None and p.high_flop_per_s is not None:
            ends = ((x, p.low_flop_per_s), (x, p.high_flop_per_s))
            yield Curve(name="", points=ends, style="dashed", color=p.bound)


def _legend(drawn: description.RooflineChart) -> Iterator[Key]:
    """Explains colours, then shapes, then the rest, with a gap between; roofs need none."""
    if not drawn.total.name:
        return
    for bound in dict.fromkeys(p.bound for p in drawn.points):
        yield Key(text=f"{bound}-bound" if bound != "unknown" else "bound unknown", color=bound)
    yield Key()
    shown = {p.kind for p in drawn.points}
    kinds = [kind for kind in drawn.kinds if kind in shown]
    named = kinds if len(kinds) <= _MOST_KINDS else kinds[: _MOST_KINDS - 1]
    yield from (Key(text=kind, shape=drawn.kinds[kind]) for kind in named)
    if len(named) < len(kinds):
        yield Key(text=f"{len(kinds) - len(named)} more kinds", shape="hexagon")
    yield Key()
    yield Key(text=drawn.total.kind, shape="star", color="star")
    if any(p.low_flop_per_s and not p.measured for p in drawn.points):
        yield Key(text="dashed: range, to the roof", color="unknown", hollow=True)
    if drawn.moves:
        yield Key(text="ring: from the other run", hollow=True)
    if any(p.margin and not _is_idle(p) for p in drawn.points):
        yield Key(text="no work, bytes or time", hollow=True)


def _links(levels: LevelChart) -> Iterator[Curve]:
    """A line a point, from its outermost to its innermost level."""
    for p in levels.points:
        known = tuple((x, p.flop_per_s) for x in p.intensities if x is not None)
        if len(known) > 1:
            yield Curve(name="", points=known, style="faint", color="grey")


def _level_dots(levels: LevelChart, analysis: Analysis) -> Iterator[Dot]:
    """A dot for every level; where levels coincide, the inner one lies within the outer."""
    for i, name in enumerate(levels.names):
        for p in chain(levels.points, [levels.total] if levels.total else []):
            x = p.intensities[i]
            if x is not None:
                yield Dot(
                    at=(x, p.flop_per_s),
                    shape="star" if p.index < 0 else "circle",
                    color=name,
                    size=0.6 if p.index < 0 else 0.2 * 0.6**i,
                    group=f"at {name}",
                    about=tuple(_about_level(p, i, analysis)),
                )


def _about_level(point: LevelPoint, i: int, analysis: Analysis) -> Iterator[str]:
    op = analysis.ops[point.index] if point.index >= 0 else None
    level = (op.measures if op else analysis.total).levels[i]
    yield op.name if op else analysis.model.name
    yield (
        f"{level.name}: {format_si(level.traffic_bytes, 'B')}, "
        f"{format_number(level.arithmetic_intensity)} FLOP/byte"
    )
    yield f"time at this level: {format_si(level.time_s, 's')}"
    yield f"rate with each level's own traffic: {format_si(point.flop_per_s, 'FLOP/s')}"


def _named(point: ChartPoint) -> Iterator[str]:
    yield point.name
    yield (
        f"{point.kind}, {point.bound}: {format_number(point.arithmetic_intensity)} FLOP/byte, "
        f"{format_si(point.flop_per_s, 'FLOP/s')}"
    )
    if point.note:
        yield point.note


def _about(point: ChartPoint, analysis: Analysis) -> Iterator[str]:
    """Everything about an op."""
    op = analysis.ops[point.index] if point.index >= 0 else None
    m = op.measures if op else analysis.total
    yield point.name
    if op:
        yield f"{op.kind} ×{op.count}"
        yield op.shapes
    yield (
        f"work: matrix {format_si(m.matrix_flops, 'FLOP')}, "
        f"vector {format_si(m.vector_flops, 'FLOP')}"
    )
    yield f"traffic: {format_si(m.traffic_bytes, 'B')}"
    yield (
        f"intensity: {format_number(m.arithmetic_intensity)} FLOP/byte "
        f"(ridge {format_number(m.ridge_point)})"
    )
    yield (
        f"bound: {point.bound}, {format_si(m.roofline_time_s, 's')} "
        f"({format_percent(m.time_share)})"
    )
    yield f"rate at the roofline: {format_si(point.flop_per_s, 'FLOP/s')}"
    if point.expected_flop_per_s is not None:
        yield (
            f"expected: {format_si(point.expected_flop_per_s, 'FLOP/s')}, "
            f"{estimate_text(m.expected_time_s)}"
        )
    yield (
        f"utilization: compute {format_percent(m.compute_utilization)}, "
        f"memory {format_percent(m.memory_utilization)}"
    )
    if point.note:
        yield point.note
