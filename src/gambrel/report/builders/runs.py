"""Two runs: the whole, then the ops whose time changes most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gambrel.report.blocks import (
    DataTable,
    Document,
    KeyFigure,
    Notes,
    col,
    seconds,
    section,
    sections,
    side_columns,
    table_of,
    words,
)
from gambrel.report.options import Options
from gambrel.report.text import shorten_path
from gambrel.units import format_number, format_si

if TYPE_CHECKING:
    from gambrel.measure.runs.load import Run, RunPoint
    from gambrel.measure.runs.pair import Pair, Pairing


def document(pairing: Pairing, _options: Options) -> Document:
    """The ratio leads."""
    first, second = pairing.first, pairing.second
    whole = [words(title, cells) for title, *cells in zip(*_whole(pairing), strict=True)]
    return Document(
        title=f"{first.label} and {second.label}",
        answer=_answer(pairing),
        sections=sections(
            section(DataTable(columns=tuple(whole), all=True)),
            section(_ops(pairing)),
            section(Notes(heading="Warnings", items=pairing.warnings, style="warning")),
        ),
        source=f"{pairing.first.label} and {pairing.second.label}",
        figures=tuple(_key_figures(pairing)),
    )


def _key_figures(pairing: Pairing) -> Iterator[KeyFigure]:
    first, second, ratio = pairing.first, pairing.second, pairing.ratio
    yield KeyFigure(
        label="speedup",
        text=f"{format_number(1 / ratio, 3)}×" if ratio else "unknown",
        formula="time of the first run / time of the second",
    )
    for label, run in (("before", first), ("after", second)):
        yield KeyFigure(
            label=label,
            text=format_si(run.total_s, "s"),
            note=f"{run.label}, {run.times}",
            formula="sum over the ops of a run",
        )
    for label, unit, (was, now) in (
        ("work", "FLOP", (first.flops, second.flops)),
        ("traffic", "B", (first.traffic_bytes, second.traffic_bytes)),
    ):
        yield KeyFigure(
            label=label,
            text=format_si(now, unit),
            note=f"before {format_si(was, unit)}",
            formula="sum over the ops of a run",
        )


def _answer(pairing: Pairing) -> tuple[str, ...]:
    first, second, ratio = pairing.first, pairing.second, pairing.ratio
    if not ratio:
        return ("The times of the two runs cannot be compared.",)
    said = f"{1 / ratio:.3g}× as fast" if ratio <= 1 else f"{ratio:.3g}× as slow"
    times = f"{format_si(first.total_s, 's')} before, {format_si(second.total_s, 's')} after"
    return (f"{said}: {times}",)


def _ops(pairing: Pairing) -> DataTable:
    sides = ("first", "second")
    return table_of(
        pairing.ranked(),
        col("op", "name", minimum=20, shorten=shorten_path),
        col("type", _kind, priority=5),
        *(col(s, _of(s, _time, "absent"), align="right") for s in sides),
        col("change", _change, None, 1, align="right"),
        col("ratio", "ratio", lambda v: format_number(v, 3) if v else ""),
        *(col(f"FLOP/byte {s}", _of(s, _intensity), None, 6, align="right") for s in sides),
        *(col(f"FLOP/s {s}", _of(s, _rate_of), None, 7, align="right") for s in sides),
        col("bound", _bounds, None, 2, align="right"),
        linked=True,
    )


def _of(side: str, text: Callable[[RunPoint], str], absent: str = "") -> Callable[[Pair], str]:
    """A text about the op in one of the runs."""
    return lambda pair: absent if (p := getattr(pair, side)) is None else text(p)


def rows(pairing: Pairing) -> DataTable:
    """One row per op, both runs in base units."""
    fields = ("time_s", "flops", "traffic_bytes")
    both = (c for f in fields for c in side_columns(("first", "second"), f, f"{{}}_{f}"))
    return table_of(pairing.ranked(), col("name", "name"), *both)


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


def _kind(p: Pair) -> str:
    point = p.second or p.first
    return point.kind if point else ""


def _bounds(p: Pair) -> str:
    return " to ".join(dict.fromkeys(x.bound for x in (p.first, p.second) if x))


def _change(p: Pair) -> str:
    return f"{'-' if p.change_s < 0 else '+'}{seconds(abs(p.change_s))}"


def _time(point: RunPoint) -> str:
    return seconds(point.time_s)


def _intensity(point: RunPoint) -> str:
    return format_number(point.arithmetic_intensity, 3)


def _rate_of(point: RunPoint) -> str:
    return format_si(point.flop_per_s, "", 3)


def content(pairing: Pairing, _options: Options | None = None) -> dict[str, Any]:
    """Both runs and every pair of ops."""
    return {
        "first": _run(pairing.first),
        "second": _run(pairing.second),
        "ratio": pairing.ratio,
        "pairs": [
            {"name": p.name, "first": p.first, "second": p.second, "ratio": p.ratio}
            for p in pairing.pairs
        ],
        "warnings": pairing.warnings,
    }


def _run(run: Run) -> dict[str, Any]:
    names = ("label", "times", "model", "total_s", "flops", "traffic_bytes")
    return {name: getattr(run, name) for name in names} | {"hardware": run.hardware.id}
