"""Two runs as a table, a chart with the dots' movement, JSON and a page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.errors import UnknownNameError
from gambrel.measure.profile.text import columns, fitted, paragraphs, shorten
from gambrel.measure.roofs import chart_of, render_image
from gambrel.measure.runs.load import Run, RunPoint
from gambrel.measure.runs.pair import Pair, Pairing
from gambrel.report import plain_page as html
from gambrel.report.chart import SHAPES, Chart, Move, Point, limits
from gambrel.report.options import Options
from gambrel.report.registry import check_target, replace_file
from gambrel.units import format_number, format_si

SCHEMA_VERSION: Final = 1
TYPE: Final = "gambrel/runs"
#: Dots drawn: those with most time.
_MOST: Final = 200
_SUFFIXES: Final = {".html": "html", ".htm": "html", ".svg": "svg", ".png": "png", ".json": "json"}


def render_table(pairing: Pairing, top: int = 10, options: Options | None = None) -> str:
    """The whole, then the ops whose time changes most.

    Args:
        pairing: The two runs.
        top: Rows; 0 shows all.
        options: Of a terminal that the text is to fit; None shows every column in full.
    """
    ranked = pairing.ranked()
    rows = [_HEAD, *(_row(p, short=True) for p in (ranked[:top] if top else ranked))]
    if options is None:
        lines = [columns(_whole(pairing), left=1), "", columns(rows, left=2)]
        return "\n".join([*lines, *(f"note: {w}" for w in pairing.warnings)])
    blocks = [
        fitted(_whole(pairing), 1, (0, 0, 0, 0), options),
        fitted(rows, 2, _PRIORITIES, options),
    ]
    if pairing.warnings:
        blocks.append(paragraphs([("note:", w) for w in pairing.warnings], options))
    return "\n\n".join(block.strip("\n") for block in blocks)


_HEAD: Final = (
    "op",
    "type",
    "first",
    "second",
    "change",
    "ratio",
    "FLOP/byte first",
    "FLOP/byte second",
    "FLOP/s first",
    "FLOP/s second",
    "bound",
)


#: Of the columns above: which go first where a terminal is narrow.
_PRIORITIES: Final = (0, 5, 0, 0, 1, 0, 6, 6, 7, 7, 2)


def _whole(pairing: Pairing) -> list[tuple[str, ...]]:
    first, second = pairing.first, pairing.second
    return [
        ("", first.label, second.label, "second / first"),
        ("model", first.model.name, second.model.name, ""),
        ("precision", first.model.precision, second.model.precision, ""),
        ("sizes", _sizes(first), _sizes(second), ""),
        ("hardware", first.hardware.name, second.hardware.name, ""),
        (
            _both("time", first.times, second.times),
            format_si(first.total_s, "s"),
            format_si(second.total_s, "s"),
            format_number(pairing.ratio, 3),
        ),
        ("work", *_pair_of(first.flops, second.flops, "FLOP")),
        ("traffic", *_pair_of(first.traffic_bytes, second.traffic_bytes, "B")),
        ("rate", *_pair_of(_rate(first), _rate(second), "FLOP/s")),
    ]


def _sizes(run: Run) -> str:
    return ", ".join(f"{k}={v}" for k, v in run.model.symbols.items()) or "fixed"


def _both(name: str, first: str, second: str) -> str:
    return f"{name} ({first})" if first == second else f"{name} ({first} / {second})"


def _pair_of(first: float | None, second: float | None, unit: str) -> tuple[str, str, str]:
    ratio = second / first if first and second else None
    return format_si(first, unit), format_si(second, unit), format_number(ratio, 3)


def _rate(run: Run) -> float | None:
    return run.flops / run.total_s if run.total_s else None


def _row(p: Pair, *, short: bool) -> tuple[str, ...]:
    point = p.second or p.first
    kind = point.kind if point else ""
    bounds = dict.fromkeys(x.bound for x in (p.first, p.second) if x)
    sign = "-" if p.change_s < 0 else "+"
    return (
        shorten(p.name) if short else p.name,
        kind,
        _time(p.first),
        _time(p.second),
        f"{sign}{format_si(abs(p.change_s), 's', 3)}",
        format_number(p.ratio, 3) if p.ratio else "",
        _intensity(p.first),
        _intensity(p.second),
        format_si(p.first.flop_per_s, "", 3) if p.first else "",
        format_si(p.second.flop_per_s, "", 3) if p.second else "",
        " to ".join(bounds),
    )


def _time(point: RunPoint | None) -> str:
    return "absent" if point is None else format_si(point.time_s, "s", 3)


def _intensity(point: RunPoint | None) -> str:
    return "" if point is None else format_number(point.arithmetic_intensity, 3)


def describe(pairing: Pairing, title: str | None = None) -> Chart:
    """The chart: dots of the second run, each with a line from its place in the first.

    Args:
        pairing: The two runs.
        title: Heading; None takes "first to second".
    """
    second = pairing.second
    base = chart_of(second.hardware, second.model.precision)
    ranked = sorted(pairing.pairs, key=lambda p: -max(_s(p.first), _s(p.second)))[:_MOST]
    kinds = dict.fromkeys(p.second.kind for p in ranked if p.second)
    shapes = {kind: SHAPES[min(i, len(SHAPES) - 1)] for i, kind in enumerate(kinds)}
    longest = max((_s(p.second) for p in ranked), default=0.0)
    points = tuple(
        _point(i, p.second, shapes[p.second.kind], longest)
        for i, p in enumerate(ranked)
        if p.second and _place(p.second)
    )
    moves = [m for p in ranked if (m := _move(p.first, p.second))]
    whole = _whole_point(second)
    shift = _move(_sum(pairing.first), _sum(second))
    moves += [shift] if shift else []
    ends = [_end(m.start) for m in moves]
    x_range, y_range = limits(
        [*points, *ends, whole], base.ridges, base.roofs, base.memory_roofs, None
    )
    return msgspec.structs.replace(
        base,
        title=title or f"{pairing.first.label} to {second.label} on {second.hardware.name}",
        y_label="rate (FLOP/s)",
        x_range=x_range,
        y_range=y_range,
        points=points,
        total=whole,
        kinds=shapes,
        moves=tuple(moves),
    )


def _s(point: RunPoint | None) -> float:
    return point.time_s or 0.0 if point else 0.0


def _place(point: RunPoint | None) -> tuple[float, float] | None:
    """Where a dot is; None where it has no place on logarithmic axes."""
    if point is None:
        return None
    x, y = point.arithmetic_intensity, point.flop_per_s
    return (x, y) if 0 < x < math.inf and y else None


def _move(first: RunPoint | None, second: RunPoint | None) -> Move | None:
    start, end = _place(first), _place(second)
    if start is None or end is None or second is None:
        return None
    return Move(start=start, end=end, bound=second.bound)


def _sum(run: Run) -> RunPoint:
    return RunPoint(
        name=run.label,
        kind="whole model",
        flops=run.flops,
        traffic_bytes=run.traffic_bytes,
        time_s=run.total_s,
        bound="unknown",
    )


def _point(index: int, point: RunPoint, shape: str, longest: float) -> Point:
    x, y = _place(point) or (None, None)
    return Point(
        index=index,
        name=point.name,
        kind=point.kind,
        module="",
        bound=point.bound,
        shape=shape,
        arithmetic_intensity=x,
        flop_per_s=y,
        size=math.sqrt(_s(point) / longest) if longest else 0.0,
    )


def _whole_point(run: Run) -> Point:
    return msgspec.structs.replace(_point(-1, _sum(run), "star", 0.0), size=1.0)


def _end(at: tuple[float, float]) -> Point:
    point = RunPoint(name="", kind="", flops=1, traffic_bytes=1, time_s=None, bound="unknown")
    return msgspec.structs.replace(
        _point(0, point, "circle", 0.0), arithmetic_intensity=at[0], flop_per_s=at[1]
    )


def render_terminal(pairing: Pairing, options: Options | None = None) -> str:
    """Draws the chart for a terminal."""
    from gambrel.report.plot_terminal import draw

    return draw(describe(pairing), options or Options())


def render_html(pairing: Pairing) -> str:
    """A page that opens offline: chart and every op."""
    svg = render_image(describe(pairing), "svg").decode()
    header, *rows = _whole(pairing)
    first, second = pairing.first, pairing.second
    return html.page(
        f"{first.label} beside {second.label}",
        [
            html.picture(svg, "Roofline with the movement of every op"),
            html.table("Whole", header, rows),
            html.table("Ops", _HEAD, (_row(p, short=False) for p in pairing.ranked())),
            html.listed("Notes", pairing.warnings),
        ],
    )


def to_data(pairing: Pairing) -> dict[str, Any]:
    """Everything as plain data, base SI units."""
    return {
        "type": TYPE,
        "schema_version": SCHEMA_VERSION,
        "gambrel_version": __version__,
        "units": {"time_s": "s", "flops": "FLOP", "traffic_bytes": "byte"},
        "first": _run_data(pairing.first),
        "second": _run_data(pairing.second),
        "ratio": pairing.ratio,
        "pairs": [
            {"name": p.name, "first": p.first, "second": p.second, "ratio": p.ratio}
            for p in pairing.pairs
        ],
        "warnings": list(pairing.warnings),
    }


def _run_data(run: Run) -> dict[str, Any]:
    return {
        "label": run.label,
        "times": run.times,
        "model": run.model,
        "hardware": run.hardware.id,
        "total_s": run.total_s,
        "flops": run.flops,
        "traffic_bytes": run.traffic_bytes,
    }


def check(path: Path) -> str:
    """The format that a file name asks for.

    Raises:
        UnknownNameError: No format has that suffix.
        InputError: It cannot become a file.
    """
    name = _SUFFIXES.get(path.suffix.lower())
    if name is None:
        known = ", ".join(_SUFFIXES)
        raise UnknownNameError("file suffix", path.suffix, hint=f"{path}: write one of {known}.")
    check_target(path)
    return name


def write(pairing: Pairing, path: Path) -> None:
    """Writes a page, a chart or JSON; the suffix chooses."""
    name = check(path)
    if name == "html":
        content = render_html(pairing).encode()
    elif name == "json":
        content = msgspec.json.format(msgspec.json.encode(to_data(pairing)), indent=2)
    else:
        content = render_image(describe(pairing), name)
    replace_file(path, content)
