"""The roofline chart as plain data: what is drawn where. Three renderers draw the same description.

Both axes are logarithmic. A point stands at its intensity and at its expected rate, or, where no
expected time is known, at the rate it has at the roofline; of a profile, at the measured one. What
has no place on such axes (no work, no traffic, an unknown time) goes to a margin and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from gambrel.analysis.measures import Bound, Measures, State
from gambrel.analysis.result import Analysis, OpResult
from gambrel.device.model import Ceiling
from gambrel.report import picture
from gambrel.report.level_points import LevelChart, level_chart
from gambrel.report.picture import COLORS
from gambrel.report.roof_lines import (
    Entry,
    MemoryRoof,
    Ridge,
    RoofLine,
    Slope,
    format_of,
    ridge_at,
    roofs_of,
    slanted,
    slopes_of,
    source_of,
)
from gambrel.report.terms import rate_at_roofline, rate_in, title

#: Marker shapes in the order in which kinds get them, the kind with most time first; further kinds
#: share the last. The star is kept for the whole model.
SHAPES: Final = tuple(name for name in picture.SHAPES if name != "star")

#: Colours of the bounds on a light and on a dark ground.
BOUND_COLORS: Final = {key: COLORS[key] for key in ("compute", "memory", "network", "unknown")}

_BY_LEVEL: Final = "rate with each level's own traffic (FLOP/s)"

#: Why an op without FLOPs is at the left margin.
NO_WORK: Final = "no work: intensity 0"

#: Room beside the outermost point or ridge: a factor of 2 on a logarithmic axis.
_ROOM: Final = 2.0
#: Axes span at least this factor, so that a single point does not fill the chart.
_LEAST_SPAN: Final = 100.0


class ChartPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One op, or the whole.

    Attributes:
        index: Row in ``Analysis.ops``; -1 for the whole.
        name: Full name.
        kind: Neutral kind.
        module: Block of the model: the group in ``Analysis.by_module`` that it belongs to.
        bound: A key of `BOUND_COLORS`.
        shape: One of `SHAPES`, or ``star``.
        arithmetic_intensity: FLOP/byte; None where it is at a margin (zero or infinite).
        flop_per_s: Rate at the roofline (of a profile, measured); None where it is unknown or zero.
        expected_flop_per_s: Rate in the expected time; None where that is unknown.
        low_flop_per_s: Rate at the slow end of its range.
        high_flop_per_s: Rate at the fast end.
        attainable_flop_per_s: The roof above it: peak, or intensity times bandwidth.
        count: Executions that the dot stands for.
        measured: Its rate was measured.
        size: 0 to 1: square root of the time over the largest time, so that area shows time.
        margin: Empty, ``left`` (no work), ``right`` (no traffic) or ``bottom`` (no known time).
        along: Where on the margin, 0 to 1, when the other coordinate does not exist either.
        note: Why it is at the margin; empty otherwise.
    """

    index: int = -1
    name: str = ""
    kind: str = ""
    module: str = ""
    bound: str = "unknown"
    shape: str = "circle"
    arithmetic_intensity: float | None = None
    flop_per_s: float | None = None
    expected_flop_per_s: float | None = None
    low_flop_per_s: float | None = None
    high_flop_per_s: float | None = None
    attainable_flop_per_s: float | None = None
    count: int = 1
    measured: bool = False
    size: float = 0.0
    margin: str = ""
    along: float = 0.0
    note: str = ""

    @property
    def drawn_flop_per_s(self) -> float | None:
        """The height of the dot: the measured rate, else the expected one, else the roofline's."""
        if self.measured or self.expected_flop_per_s is None or self.flop_per_s is None:
            return self.flop_per_s
        return self.expected_flop_per_s


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """How far a dot moved between two runs, both ends as FLOP/byte and FLOP/s.

    Attributes:
        start: In the first run.
        end: In the second.
        bound: A key of `BOUND_COLORS`.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    bound: str


class RooflineChart(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a renderer needs.

    Attributes:
        title: Heading.
        x_label: Of the intensity axis.
        y_label: Of the rate axis.
        x_range: Limits, FLOP/byte; `fitted` finds them.
        y_range: Limits, FLOP/s.
        roofs: Compute roofs, highest first.
        memory_roofs: Bandwidths, highest first.
        ridges: Ridge points, the main one first.
        points: Ops, longest time first.
        total: The whole; without a name for roofs alone.
        kinds: Kind to shape, longest time first.
        modules: Blocks of the model, longest time first.
        levels: The same ops at each memory level, drawn in their place; None unless asked for and
            known.
        moves: Lines from where dots were in another run to where they are.
        measured: Rates of dots are measured ones.
        kind_label: What the kinds of dots are.
        x_unit: Of intensities.
        y_unit: Of rates.
    """

    title: str
    x_label: str
    y_label: str
    x_range: tuple[float, float] = (0.1, 1000.0)
    y_range: tuple[float, float] = (1.0, 100.0)
    roofs: tuple[RoofLine, ...]
    memory_roofs: tuple[MemoryRoof, ...]
    ridges: tuple[Ridge, ...] = ()
    points: tuple[ChartPoint, ...] = ()
    total: ChartPoint = ChartPoint(shape="star")
    kinds: dict[str, str] = {}
    modules: tuple[str, ...] = ()
    levels: LevelChart | None = None
    moves: tuple[Move, ...] = ()
    measured: bool = False
    kind_label: str = "kind"
    x_unit: str = "FLOP/byte"
    y_unit: str = "FLOP/s"


def describe(
    analysis: Analysis,
    heading: str | None = None,
    *,
    levels: bool = False,
    rows: Sequence[OpResult] | None = None,
) -> RooflineChart:
    """Builds the chart of an analysis.

    Args:
        analysis: What to draw.
        heading: Title; None takes "model on device".
        levels: Show each op once per memory level instead of once.
        rows: Ops that get a dot, which has their index; None takes those of the analysis.
    """
    ops = analysis.ops if rows is None else rows
    kinds = _shapes(analysis)
    blocks = tuple(group.name for group in analysis.by_module)
    by_level = level_chart(analysis, ops) if levels else None
    roofs, points, total = _roofs(analysis), _points(ops, kinds, blocks), _whole(analysis)
    chart = RooflineChart(
        title=title(analysis) if heading is None else heading,
        x_label="arithmetic intensity (FLOP/byte)",
        y_label=_label([*points, total]) if by_level is None else _BY_LEVEL,
        roofs=roofs,
        memory_roofs=_memory_roofs(analysis, by_level),
        ridges=_ridges(analysis, roofs),
        points=points,
        total=total,
        kinds=kinds,
        modules=blocks,
        levels=by_level,
    )
    return fitted(chart)


def _label(points: Iterable[ChartPoint]) -> str:
    """What the heights of dots are."""
    known = any(p.expected_flop_per_s is not None for p in points)
    return f"{'expected rate' if known else 'rate at the roofline'} (FLOP/s)"


def _shapes(analysis: Analysis) -> dict[str, str]:
    order = [group.name for group in analysis.by_kind]
    return shapes_of(order + sorted({op.kind for op in analysis.ops} - set(order)))


def shapes_of(kinds: Iterable[str]) -> dict[str, str]:
    """A shape for each kind, in their order; those after the last share it."""
    return {kind: SHAPES[min(i, len(SHAPES) - 1)] for i, kind in enumerate(kinds)}


def size_of(seconds: float | None, longest: float) -> float:
    """The radius of a dot whose area is its time: 0 to 1."""
    return math.sqrt((seconds or 0.0) / longest) if longest else 0.0


def _roofs(analysis: Analysis) -> tuple[RoofLine, ...]:
    used = {
        (w.engine, w.engine_dtype, w.peak_flop_per_s)
        for w in analysis.total.work
        if w.peak_flop_per_s is not None
    }
    heights: list[tuple[float, Entry]] = []
    for c in analysis.hardware.ceilings:
        peak, origin = _peak(c, analysis.sparsity)
        key = (c.engine, c.dtype, peak)
        heights.append((peak, Entry(c.engine, format_of(c), key in used, origin)))
        used.discard(key)
    # A roof that the device does not list (the user's own peak, a clock or count scaled) is drawn
    # all the same: what the work was held against must be in the picture.
    for engine, dtype, peak in sorted(used, key=str):
        if peak is not None:
            heights.append((peak, Entry(engine, dtype, True, "")))
    return roofs_of(heights)


def _peak(ceiling: Ceiling, sparsity: bool) -> tuple[float, str]:
    if sparsity and ceiling.sparse_flop_per_s is not None:
        source = ceiling.sparse_source or ceiling.source
        return (
            ceiling.sparse_flop_per_s,
            f"{ceiling.kind.value}, structured sparsity: {source.title}",
        )
    return ceiling.flop_per_s, source_of(ceiling)


def _memory_roofs(analysis: Analysis, levels: LevelChart | None) -> tuple[MemoryRoof, ...]:
    main = analysis.total.peak_byte_per_s
    found = slopes_of(analysis.hardware)
    if main is not None and all(bandwidth != main for _, bandwidth, _ in found):
        found.append((_name_of_memory(analysis), main, ""))
    if levels is not None:
        listed = {name for name, _, _ in found}
        found += [
            (name, bandwidth, "derived: units × bytes per clock × boost clock")
            for name, bandwidth in zip(levels.names, levels.byte_per_s, strict=True)
            if bandwidth is not None and name not in listed
        ]
    found += _links(analysis, {bandwidth for _, bandwidth, _ in found})
    return slanted(found, lambda _, rate: rate == main)


def _links(analysis: Analysis, drawn: set[float]) -> list[Slope]:
    """The links that the work uses, each a roof over the bytes that pass it."""
    used = {t.resource for t in analysis.total.times if t.bound is Bound.NETWORK}
    return [
        (f"{link.name} (link)", rate, link.source.title)
        for link in analysis.hardware.links
        if link.name in used
        and (rate := link.byte_per_s_per_direction) is not None
        and rate not in drawn
    ]


def _name_of_memory(analysis: Analysis) -> str:
    names = [t.resource for t in analysis.total.times if t.bound.value in {"memory", "network"}]
    return names[0] if names else "memory"


def _ridges(analysis: Analysis, roofs: Sequence[RoofLine]) -> tuple[Ridge, ...]:
    bandwidth, main = analysis.total.peak_byte_per_s, analysis.total.peak_flop_per_s
    if bandwidth is None:
        return ()
    peaks = [r.peak_flop_per_s for r in roofs if r.used]
    peaks.sort(key=lambda peak: peak != main)
    return tuple(ridge_at(peak, bandwidth, main=peak == main) for peak in peaks)


def _points(
    ops: Sequence[OpResult], kinds: dict[str, str], blocks: Sequence[str]
) -> tuple[ChartPoint, ...]:
    times = [op.measures.roofline_time_s or 0.0 for op in ops]
    longest = max(times, default=0.0)
    block = _block_finder(blocks)
    order = sorted(range(len(times)), key=lambda i: -times[i])
    homeless = [i for i in order if not _placed(ops[i].measures)[1]]
    along = {i: (rank + 1) / (len(homeless) + 1) for rank, i in enumerate(homeless)}
    return tuple(
        _point(
            i,
            ops[i],
            shape=kinds[ops[i].kind],
            module=block(ops[i].module),
            size=size_of(times[i], longest),
            along=along.get(i, 0.0),
        )
        for i in order
    )


def _point(
    index: int, op: OpResult, *, shape: str, module: str, size: float, along: float
) -> ChartPoint:
    return ChartPoint(
        index=index,
        name=op.name,
        kind=op.kind,
        module=module,
        shape=shape,
        count=op.count,
        size=size,
        along=along,
        **_figures(op.measures, op.state),
    )


def _figures(measures: Measures, state: State) -> dict[str, Any]:
    """Where a point stands, why it stands at a margin, and its bound."""
    intensity, rate = _placed(measures)
    margin, note = _margin(measures, state)
    return _expected(measures) | {
        "bound": measures.bound.value if measures.bound else "unknown",
        "arithmetic_intensity": intensity,
        "flop_per_s": rate,
        "margin": margin,
        "note": note,
    }


def _expected(measures: Measures) -> dict[str, Any]:
    """Rates in the expected time and at the ends of its range, and the roof above them."""
    time = measures.expected_time_s
    if not measures.flops:
        return {}
    return {
        "expected_flop_per_s": rate_in(measures, time.value if time else None),
        "low_flop_per_s": rate_in(measures, time.high if time else None),
        "high_flop_per_s": rate_in(measures, time.low if time else None),
        "attainable_flop_per_s": measures.attainable_flop_per_s,
    }


def _whole(analysis: Analysis) -> ChartPoint:
    return ChartPoint(
        name=analysis.model.name,
        kind="whole model",
        shape="star",
        size=1.0,
        along=0.5,
        **_figures(analysis.total, State.COUNTED),
    )


def _placed(measures: Measures) -> tuple[float | None, float | None]:
    """Both coordinates, each None where it has no place on a logarithmic axis."""
    intensity = measures.arithmetic_intensity
    return (
        intensity if 0 < intensity < math.inf else None,
        rate_at_roofline(measures) or None,
    )


def _margin(measures: Measures, state: State) -> tuple[str, str]:
    if state is not State.COUNTED:
        why = "no formula for this kind" if state is State.UNMODELLED else "it runs on the host"
        return "left", f"cost unknown: {why}"
    if measures.flops == 0:
        return "left", NO_WORK
    if measures.traffic_bytes == 0:
        return "right", "no traffic: infinite intensity"
    if measures.roofline_time_s is None:
        return "bottom", "time unknown: the device lacks a roof that this op needs"
    if not rate_at_roofline(measures):
        return "bottom", "no time of its own: done while other ops of its kernel take the time"
    return "", ""


def _block_finder(blocks: Sequence[str]) -> Callable[[str], str]:
    """Returns a function from a module path to the longest block that contains it."""
    known = set(blocks)

    def find(path: str) -> str:
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            block = ".".join(parts[:end])
            if block in known:
                return block
        return "(top)" if not path or "(top)" in known else parts[0]

    return find


def fitted(chart: RooflineChart) -> RooflineChart:
    """The chart with axes that hold its points, moves, ridges and every roof."""
    ridges, memory, levels = chart.ridges, chart.memory_roofs, chart.levels
    shown = [*chart.points, chart.total]
    xs = [p.arithmetic_intensity for p in shown if p.arithmetic_intensity]
    xs += [m.start[0] for m in chart.moves] + [r.arithmetic_intensity for r in ridges]
    if levels is not None:
        xs += [i for p in levels.points for i in p.intensities if i]
    x_range = _span(xs, (0.1, 1000.0))
    ys = [p.flop_per_s for p in shown if p.flop_per_s]
    ys += [y for p in shown if (y := p.drawn_flop_per_s)]
    ys += [m.start[1] for m in chart.moves] + [r.peak_flop_per_s for r in chart.roofs]
    if levels is not None:
        ys += [p.flop_per_s for p in levels.points]
    if not ys:
        slopes = [m.byte_per_s for m in memory] or [1.0]
        ys = [x * slope for x in x_range for slope in slopes]
    return msgspec.structs.replace(chart, x_range=x_range, y_range=_span(ys, (1.0, 100.0)))


def _span(values: Sequence[float], empty: tuple[float, float]) -> tuple[float, float]:
    if not values:
        return empty
    low, high = min(values) / _ROOM, max(values) * _ROOM
    if high / low < _LEAST_SPAN:
        widen = math.sqrt(_LEAST_SPAN / (high / low))
        low, high = low / widen, high * widen
    return low, high


def decades(low: float, high: float) -> list[float]:
    """The powers of ten between two limits, for the ticks of an axis."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    return [10.0**d for d in range(first, last + 1)]
