"""A profile: end-to-end time, the ops or modules that take longest, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel.report.answers import Profiled
from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    KeyFigure,
    Notes,
    col,
    count,
    seconds,
    section,
    sections,
    share,
    table_of,
)
from gambrel.report.builders.figures_of import expected_figure
from gambrel.report.options import Options
from gambrel.report.text import shorten_path
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    from gambrel.measure.profile.modules import ModulePoint
    from gambrel.measure.profile.points import RooflinePoint, Totals
    from gambrel.measure.profile.record import Profile

#: Ops whose distance from the roof is explained under the table.
_EXPLAINED: Final = 5


def document(record: Profiled, options: Options) -> Document:
    """End-to-end time leads."""
    profile, top = record.profile, options.top
    table = (
        modules_table(profile.modules, 0 if options.on_page else top)
        if record.by == "module"
        else ops(profile.ops)
    )
    listed = slowest(profile.ops)[: top or None]
    return Document(
        title=f"{profile.model.name} on {profile.hardware.name}, measured",
        answer=tuple(_answer(profile.ops, profile.totals)),
        sections=sections(
            section(table),
            section(compared(profile.ops) if record.compared else None),
            section(FactList(items=tuple(facts(profile)))),
            section(Notes(heading="Far from the roof", items=tuple(reasons(listed)))),
            section(Notes(heading="Notes", items=record.notes)),
        ),
        source="the analysis of the same model on this device",
        figures=tuple(_key_figures(record)),
    )


def _key_figures(record: Profiled) -> Iterator[KeyFigure]:
    t, analysis = record.profile.totals, record.analysis
    yield KeyFigure(
        label="measured time",
        text=format_si(t.plain_s, "s"),
        note=f"end to end, spread {t.plain_spread:.0%}",
        formula="median of steps without instruments",
        source=f"{t.steps:,} steps on this machine",
        confidence="; ".join(doubts(t)) or "stable",
    )
    yield KeyFigure(
        label="in ops",
        text=format_percent(t.ops_s / t.plain_s if t.plain_s else None),
        note=f"{format_si(t.ops_s, 's')}, the rest is between them",
        formula="sum of the ops' measured times / measured time",
        source=f"{t.profiled_steps:,} profiled steps",
    )
    if analysis is None:
        return
    yield expected_figure(analysis.expected_time_s)
    for label, key in (("roofline time", "roofline_time_s"), ("speed of light", "sol_time_s")):
        value = getattr(analysis, key)
        times = f"measured is {format_number(t.plain_s / value, 3)}× that" if value else ""
        yield KeyFigure(label=label, text=format_si(value, "s"), note=times, key=key)


def _answer(points: Sequence[RooflinePoint], t: Totals) -> Iterator[str]:
    doubt = "; not a stable result" if doubts(t) else ""
    yield (
        f"Measured: {format_si(t.plain_s, 's')} end to end (spread {t.plain_spread:.0%}{doubt}), "
        f"{t.ops_s / t.plain_s:.1%} of it in ops"
    )
    spent: dict[str, float] = {}
    for p in points:
        spent[p.bound] = spent.get(p.bound, 0.0) + (p.time_s or 0.0)
    whole = sum(spent.values())
    if whole:
        parts = sorted(spent.items(), key=lambda item: -item[1])
        listed = (f"{format_percent(s / whole)} {n}" for n, s in parts)
        yield f"Bound: {', '.join(listed)}, by the roofline and of the ops' time"


def slowest(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """The ops by measured time, longest first."""
    return sorted(points, key=lambda p: -(p.time_s or 0.0))


def ops(points: Sequence[RooflinePoint]) -> DataTable:
    """One row per op, longest first."""
    found = slowest(points)
    if not found:
        return DataTable(columns=(), note="no op that costs anything")
    whole = sum(p.time_s or 0.0 for p in found)
    return table_of(
        found,
        col("name", "name", minimum=20, shorten=shorten_path),
        col("type", "type", priority=6),
        col("FLOPs", "flops", _four, 3),
        col("bytes", "traffic_bytes", _four, 5),
        col("AI", "arithmetic_intensity", _three, 4),
        col("GFLOPs/s", "achieved_flop_per_s", _giga, 2),
        col("bound", "bound", priority=1),
        col("util%", "utilization", share),
        col("time", "time_s", seconds),
        shares=tuple((p.time_s or 0.0) / whole if whole else 0.0 for p in found),
        whole="the ops' time",
        linked=True,
    )


def _giga(value: float | None) -> str:
    return format_number(None if value is None else value / 1e9, 4)


def _four(value: float | None) -> str:
    return format_si(value, "", 4)


def reasons(shown: Sequence[RooflinePoint]) -> list[str]:
    """Why ops lie above their roof or far below it: those above first, equal reasons together."""
    far = sorted((p for p in shown if p.reason), key=lambda p: (p.utilization or 0.0) <= 1)
    names: dict[str, list[str]] = {}
    for p in far:
        part = "" if p.utilization is None else f" ({format_percent(p.utilization)})"
        names.setdefault(p.reason, []).append(f"{shorten_path(p.name, 44)}{part}")
    return [
        f"{reason}: {', '.join(found[:_EXPLAINED])}"
        + (f" and {len(found) - _EXPLAINED} more" if len(found) > _EXPLAINED else "")
        for reason, found in names.items()
    ]


def compared(points: Sequence[RooflinePoint]) -> DataTable:
    """Measured beside expected and roofline, longest first, and the sums of ops with all."""
    known = [p for p in points if p.time_s and p.expected_time_s and p.roofline_time_s]
    times = ("time_s", "expected_time_s", "roofline_time_s")
    total = [sum(getattr(p, name) for p in known) for name in times]
    return table_of(
        slowest(points),
        col("name", "name", minimum=20, shorten=shorten_path),
        col("measured", "time_s", seconds),
        col("expected", "expected_time_s", seconds, 1),
        col("roofline", "roofline_time_s", seconds, 2),
        col("×expected", lambda p: _over(p.time_s, p.expected_time_s), _three),
        col("×roofline", lambda p: _over(p.time_s, p.roofline_time_s), _three, 3),
        heading="Measured beside expected",
        note=f"Ops with all three: {_summed(total)}." if known else "",
    )


def _summed(total: Sequence[float]) -> str:
    measured, expected, roofline = total
    return (
        f"{seconds(measured)} measured, {seconds(expected)} expected "
        f"({_three(_over(measured, expected))}×), {seconds(roofline)} roofline "
        f"({_three(_over(measured, roofline))}×)"
    )


def _over(a: float | None, b: float | None) -> float | None:
    return a / b if a and b else None


def _three(value: float | None) -> str:
    return format_number(value, 3)


def modules_table(modules: Sequence[ModulePoint], top: int) -> DataTable:
    """The modules that take longest, each with all inside it, in the model's order."""
    order = sorted(range(len(modules)), key=lambda i: -(modules[i].time_s or 0.0))
    found = [modules[i] for i in sorted(order[: top or None])]
    return table_of(
        found,
        col("module", "name", minimum=20, shorten=shorten_path),
        col("ops", "ops", count, 6),
        col("FLOPs", "flops", _four, 4),
        col("bytes", "traffic_bytes", _four, 5),
        col("time", "time_s", seconds),
        col("share", "share", share, 1),
        col("roofline", "roofline_time_s", seconds, 2),
        col("expected", "expected_time_s", seconds, 3),
        col("util%", "utilization", share),
        all=True,
    )


def content(record: Profiled, _options: Options | None = None) -> dict[str, Any]:
    """The profile with its sums; it loads again."""
    profile, whole = record.profile, record.profile.totals
    return {
        **{name: getattr(profile, name) for name in ("model", "hardware", "runtime")},
        "totals": msgspec.to_builtins(whole)
        | {"gap_s": whole.gap_s, "instrumentation_s": whole.instrumentation_s},
        "no_bound_share": no_bound_share(profile.ops),
        "unmatched": [{"name": n, "time_s": t} for n, t in profile.unmatched],
        "modules": profile.modules,
        "ops": [msgspec.structs.asdict(p) for p in profile.ops],
        "warnings": doubts(whole),
    }


def rows(record: Profiled) -> DataTable:
    """One row per op in execution order."""
    points = record.profile.ops
    names = type(points[0]).__struct_fields__ if points else ("name", "time_s")
    return table_of(points, *(col(name, name, str) for name in names))


def facts(profile: Profile) -> list[tuple[str, str]]:
    """What is known of the whole run: label and sentence."""
    points, t = profile.ops, profile.totals
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
        ("Device", busy(t.device_busy_s, t.device_sum_s, t.plain_s)),
        ("Profiler", f"{_signed(t.instrumentation_s)} per step ({t.profiled_steps} profiled)"),
        ("No roofline", f"{no_bound_share(points):.1%} of the ops' time is in ops without one"),
        (
            "Memory",
            f"{format_si(t.peak_bytes, 'B')} measured, "
            f"{format_si(t.predicted_bytes, 'B')} predicted",
        ),
        *_served(profile),
        *_counters(t),
        *(("Doubt", doubt) for doubt in doubts(t)),
    ]
    absent = set() if t.unmatched_s else {"Other calls"}
    if t.peak_bytes is None and t.predicted_bytes is None:
        absent.add("Memory")
    if t.device_busy_s is None:
        absent.add("Device")
    return [(label, said) for label, said in found if label not in absent]


def _served(profile: Profile) -> list[tuple[str, str]]:
    """Which caches served the ops that moved data faster than DRAM can."""
    counts = profile.served
    if not counts:
        return []
    told = ", ".join(f"{n:,} from {name or 'no single level'}" for name, n in counts.items())
    fast, all_ops = sum(counts.values()), len(profile.ops)
    return [("Caches", f"{fast:,} of {all_ops:,} ops moved data faster than DRAM can: {told}")]


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
        "machine, or with more steps (e.g. 100), and compare only the shares of the ops.",
    )


def no_bound_share(points: Sequence[RooflinePoint]) -> float:
    """Share of the ops' measured time in ops whose bound is unknown."""
    whole = sum(p.time_s or 0.0 for p in points)
    without = sum(p.time_s or 0.0 for p in points if not p.roofline_time_s)
    return without / whole if whole else 0.0


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{format_si(abs(seconds), 's', 3)}"


#: Below this share of a step the device waits for the host rather than works.
_WAITS: Final = 0.8
#: Kernels whose sum is larger than the time they took ran side by side.
_OVERLAP: Final = 1.01


def busy(busy_s: float | None, sum_s: float | None, plain_s: float) -> str:
    """How much of a step the device worked: of its kernels' sum and the step's time."""
    if busy_s is None or sum_s is None:
        return ""
    said = f"{format_si(busy_s, 's')} busy, {busy_s / plain_s:.1%} of end to end"
    if sum_s > _OVERLAP * busy_s:
        said += (
            f"; kernels ran side by side, so that the ops add up to {format_si(sum_s, 's')}: "
            "what overlaps counts for each"
        )
    if busy_s < _WAITS * plain_s:
        said += (
            "; else it waits for the host: larger batches, CUDA graphs or "
            "torch.compile(mode='reduce-overhead') fill it"
        )
    return said
