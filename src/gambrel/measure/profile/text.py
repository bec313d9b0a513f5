"""A profile as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gambrel.measure.profile import on_gpu
from gambrel.measure.profile.modules import ModulePoint
from gambrel.measure.profile.points import RooflinePoint, Totals
from gambrel.report.layout import Column, hanging, show, table
from gambrel.report.options import Options
from gambrel.report.text import shorten_path
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    from gambrel.measure.profile.record import Comparison

_LONGEST_NAME = 44


def summary(
    points: Sequence[RooflinePoint],
    totals: Totals,
    top: int = 10,
    options: Options | None = None,
) -> str:
    """The ops that take longest, and the whole.

    Args:
        points: All ops.
        totals: The whole.
        top: Rows; 0 shows all.
        options: Of a terminal that the text is to fit; None shows every column in full.
    """
    order = sorted(points, key=lambda p: -(p.time_s or 0.0))
    shown = order[:top] if top else order
    head = ("name", "type", "FLOPs", "bytes", "AI", "GFLOPs/s", "bound", "util%", "time")
    said = [*whole(points, totals), *_reasons(shown)]
    if not shown:
        return _text("no op that costs anything", said, options)
    rows = [head, *(_row(p) for p in shown)]
    if options is None:
        return _text(columns(rows, left=2), said, None)
    return _text(fitted(rows, 2, (0, 6, 3, 5, 4, 2, 1, 0, 0), options), said, options)


def _text(made: str, said: Sequence[tuple[str, str]], options: Options | None) -> str:
    """A table, then sentences."""
    if options is not None:
        return f"{made.rstrip()}\n\n{paragraphs(said, options)}"
    return "\n".join([made, "", *(f"{label:<12}  {text}" for label, text in said)])


#: Ops whose distance from the roof is explained under the table.
_EXPLAINED = 5


def _reasons(shown: Sequence[RooflinePoint]) -> list[tuple[str, str]]:
    """Why ops lie above their roof or far below it: those above first, equal reasons together."""
    far = [p for p in shown if p.reason]
    far.sort(key=lambda p: (p.utilization or 0.0) <= 1)
    names: dict[str, list[str]] = {}
    for p in far:
        part = "" if p.utilization is None else f" ({format_percent(p.utilization)})"
        names.setdefault(p.reason, []).append(f"{shorten(p.name)}{part}")
    return [
        (
            "Far away",
            f"{reason}: {', '.join(found[:_EXPLAINED])}"
            + (f" and {len(found) - _EXPLAINED} more" if len(found) > _EXPLAINED else ""),
        )
        for reason, found in names.items()
    ]


def comparison(compared: Comparison, top: int = 10, options: Options | None = None) -> str:
    """Measured beside expected and bound, the ops that take longest first, then the sums."""
    order = sorted(compared.points, key=lambda p: -(p.time_s or 0.0))
    rows: list[tuple[str, ...]] = [
        ("name", "measured", "expected", "bound", "measured/expected", "measured/bound")
    ]
    for p in order[:top] if top else order:
        rows.append(_compared(shorten(p.name), p.time_s, p.expected_time_s, p.roofline_time_s))
    if compared.measured_s:
        rows.append(
            _compared(
                "ops with all three",
                compared.measured_s,
                compared.expected_s,
                compared.roofline_s,
            )
        )
    if options is not None:
        rows[0] = (*rows[0][:4], "×expected", "×bound")
        return fitted(rows, 1, (0, 0, 1, 2, 0, 3), options)
    return columns(rows, left=1)


def _compared(
    name: str, measured: float | None, expected: float | None, bound: float | None
) -> tuple[str, ...]:
    return (
        name,
        format_si(measured, "s", 3),
        format_si(expected, "s", 3),
        format_si(bound, "s", 3),
        format_number(measured / expected if measured and expected else None, 3),
        format_number(measured / bound if measured and bound else None, 3),
    )


def by_module(
    modules: Sequence[ModulePoint],
    points: Sequence[RooflinePoint],
    totals: Totals,
    top: int = 10,
    options: Options | None = None,
) -> str:
    """The modules that take longest, each with all inside it, in the model's order; the whole.

    Args:
        modules: All, parents before children.
        points: All ops.
        totals: The whole.
        top: Rows; 0 shows all.
        options: As for `summary`.
    """
    order = sorted(range(len(modules)), key=lambda i: -(modules[i].time_s or 0.0))
    shown = sorted(order[:top] if top else order)
    head = ("module", "ops", "FLOPs", "bytes", "time", "share", "bound", "expected", "util%")
    rows = [head, *(_module(modules[i]) for i in shown)]
    if options is None:
        return _text(columns(rows, left=1), whole(points, totals), None)
    made = fitted(rows, 1, (0, 6, 4, 5, 0, 1, 2, 3, 0), options)
    return _text(made, whole(points, totals), options)


def _module(m: ModulePoint) -> tuple[str, ...]:
    return (
        shorten(m.name),
        str(m.ops),
        format_si(m.flops, "", 4),
        format_si(m.traffic_bytes, "", 4),
        format_si(m.time_s, "s", 3),
        format_percent(m.share),
        format_si(m.roofline_time_s, "s", 3),
        format_si(m.expected_time_s, "s", 3),
        format_percent(m.utilization),
    )


def fitted(
    rows: Sequence[Sequence[str]], left: int, priorities: Sequence[int], options: Options
) -> str:
    """Rows of cells for a terminal: columns appear by importance, the first is shortened.

    Args:
        rows: The heading first.
        left: Columns that begin at the left.
        priorities: A column each; 0 stays at every width, of the others the largest goes first.
        options: Width and colour.
    """
    head, *body = rows
    cells = [
        Column(
            title=title,
            cells=tuple(row[i] for row in body),
            align="left" if i < left else "right",
            priority=priorities[i],
            minimum=0 if i else _SHORTEST_NAME,
            shorten=shorten_path,
        )
        for i, title in enumerate(head)
    ]
    return show([[table(cells, options.columns)]], options)


#: Columns to which names may be shortened.
_SHORTEST_NAME = 20


def paragraphs(items: Sequence[tuple[str, str]], options: Options) -> str:
    """Labels and sentences, wrapped at the width of the terminal."""
    return show([[hanging(items, 14, "dim")]], options)


def columns(rows: Sequence[Sequence[str]], left: int) -> str:
    """Rows of cells as aligned text; the first ``left`` columns begin at the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def shorten(name: str) -> str:
    """A long name without its middle."""
    if len(name) <= _LONGEST_NAME:
        return name
    half = (_LONGEST_NAME - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _row(p: RooflinePoint) -> tuple[str, ...]:
    rate = p.achieved_flop_per_s
    return (
        shorten(p.name),
        p.type,
        format_si(p.flops, "", 4),
        format_si(p.traffic_bytes, "", 4),
        format_number(p.arithmetic_intensity, 3),
        "unknown" if rate is None else format_number(rate / 1e9, 4),
        p.bound,
        format_percent(p.utilization),
        format_si(p.time_s, "s", 3),
    )


def whole(points: Sequence[RooflinePoint], t: Totals) -> list[tuple[str, str]]:
    """What is known of the whole run: label and sentence."""
    gap = "the framework between ops, waiting"
    found = [
        (
            "End to end",
            f"{format_si(t.plain_s, 's')} without instruments "
            f"(middle half of {t.steps} steps, spread {t.plain_spread:.0%})",
        ),
        (
            "Sum of ops",
            f"{format_si(t.ops_s, 's')}, {t.ops_s / t.plain_s:.1%} of it; "
            f"within the profiled steps the parts are {t.covered:.1%}",
        ),
        (
            "Other calls",
            f"{format_si(t.unmatched_s, 's')} in calls that are no op of the capture",
        ),
        (
            "Gap",
            f"{_signed(t.gap_s)}: "
            f"{gap if t.gap_s >= 0 else 'the parts include what the profiler added'}",
        ),
        ("Device", on_gpu.busy(t.device_busy_s, t.device_sum_s, t.plain_s)),
        ("Profiler", f"{_signed(t.instrumentation_s)} a step ({t.profiled_steps} profiled)"),
        ("No bound", f"{no_bound_share(points):.1%} of the ops' time is in ops without a bound"),
        (
            "Memory",
            f"{format_si(t.peak_bytes, 'B')} measured, "
            f"{format_si(t.predicted_bytes, 'B')} predicted",
        ),
        *_counters(t),
        *(("Doubt", doubt) for doubt in doubts(t)),
    ]
    absent = set() if t.unmatched_s else {"Other calls"}
    if t.peak_bytes is None and t.predicted_bytes is None:
        absent.add("Memory")
    if t.device_busy_s is None:
        absent.add("Device")
    return [(label, said) for label, said in found if label not in absent]


def _counters(t: Totals) -> list[tuple[str, str]]:
    """What hardware counters saw beside what was computed, or what is missing for it."""
    found = []
    if t.counted_flops is not None:
        found.append(
            f"{format_si(t.counted_flops, 'FLOP')} counted, "
            f"{format_si(t.computed_flops, 'FLOP')} computed"
        )
    if t.counted_bytes is not None:
        found.append(
            f"{format_si(t.counted_bytes, 'B')} at the memory controllers, "
            f"{format_si(t.computed_bytes, 'B')} compulsory"
        )
    seen = [("Counters", said) for said in found]
    return seen + [("Not counted", reason) for reason in t.counters_missing]


#: Steps that differ by more are no stable result.
_UNSTABLE = 0.25


def doubts(totals: Totals) -> tuple[str, ...]:
    """What casts doubt on a profile, and what to do about it."""
    if totals.plain_spread <= _UNSTABLE:
        return ()
    return (
        f"the steps differ by {totals.plain_spread:.0%}: not a stable result. Run on an idle "
        "machine, or with more steps (--steps 100), and compare only the shares of the ops.",
    )


def no_bound_share(points: Sequence[RooflinePoint]) -> float:
    """Share of the ops' measured time in ops whose bound is unknown."""
    whole = sum(p.time_s or 0.0 for p in points)
    without = sum(p.time_s or 0.0 for p in points if not p.roofline_time_s)
    return without / whole if whole else 0.0


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{format_si(abs(seconds), 's', 3)}"
