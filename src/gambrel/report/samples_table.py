"""Measured kernels for a terminal: one line a kernel, then what looks wrong and what to look at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gambrel.analysis.samples import Known, Placed, Standing
from gambrel.analysis.samples.diagnose import recommend
from gambrel.analysis.samples.join import Joined
from gambrel.analysis.samples.movement import Movement
from gambrel.report.layout import Column, hanging, line, listed, show, table
from gambrel.report.options import Options
from gambrel.report.samples_chart import title
from gambrel.report.samples_text import (
    Rows,
    joined_rows,
    move_rows,
    short_name,
    suggestion_texts,
)
from gambrel.report.text import clean, shorten
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEVELS = ("DRAM", "L2", "L1", "shared")
#: What to look at is listed for kernels with this share of the time or more.
_LEAST_SHARE = 0.01
_MOST_REMARKS = 8


def render(
    standing: Standing,
    options: Options | None = None,
    *,
    joined: Joined | None = None,
    movement: Movement | None = None,
) -> str:
    """Returns the report as text for a terminal of ``options.width`` columns.

    Args:
        standing: Measured kernels.
        options: Width, colour, number of kernels.
        joined: The same under the prediction of a model.
        movement: The same beside another run.
    """
    options = options or Options()
    shown = standing.kernels[: options.top or None]
    blocks: list[list[RenderableType]] = [
        [line((shorten(clean(title(standing)), options.columns), "title"))],
        [hanging(_facts(standing), 13, "dim")],
        _rows(standing, shown, options),
        _remarks("Warnings", [(k, k.warnings) for k in shown], "warning"),
        _remarks("Look at", [(k, k.findings) for k in shown if _matters(k)], "bold"),
        listed("What to change", suggestion_texts(recommend(standing))[:_MOST_SUGGESTIONS]),
        _shared("Under the prediction", joined_rows(joined), options) if joined else [],
        _shared("Against the other run", move_rows(movement), options) if movement else [],
        listed("Notes", _notes(standing, shown)),
    ]
    return show(blocks, options)


def _shared(heading: str, rows: Rows, options: Options) -> list[RenderableType]:
    """A table that the page has as well; its first columns matter most."""
    head, body, foot = rows
    body = body[: options.top or None]
    columns = [
        Column(
            title=name,
            cells=tuple(row[i] for row in body),
            align="left" if i == 0 else "right",
            priority=_PRIORITIES.get(name, 3),
        )
        for i, name in enumerate(head)
    ]
    shown = [table(columns, options.columns)] if body else []
    return [line((heading, "bold")), *shown, line(foot)]


_PRIORITIES = {"measured": 0, "expected": 1, "ratio": 1, "before": 1, "after": 1, "speedup": 0}
_MOST_SUGGESTIONS = 5


def _matters(kernel: Placed) -> bool:
    return kernel.time_share is None or kernel.time_share >= _LEAST_SHARE


def _facts(standing: Standing) -> list[tuple[str, str]]:
    samples, total = standing.samples, standing.total
    facts = [
        ("read", f"{samples.format}: {sum(s.count for s in samples.launches):,} launches"),
        ("time", format_si(total.sample.time_s, "s")),
        ("work", _work(total)),
    ]
    for x in total.levels:
        what = format_si(x.traffic_bytes, "B") if x.traffic_bytes is not None else "rate only"
        facts.append((x.level, f"{what}; {x.how}"))
    if samples.spans:
        parts = [f"{name} {format_si(s, 's')}" for name, s in samples.spans.items()]
        facts.append(("timeline", ", ".join(parts)))
    if standing.device is None:
        facts.append(("roofs", "no device known: give --hardware, or --peak and --bandwidth"))
    return facts


def _work(placed: Placed) -> str:
    sample = placed.sample
    parts = [
        f"{w.work_class} {w.dtype} {format_si(w.flops, 'FLOP')}" + (" (sparse)" if w.sparse else "")
        for w in sample.work
        if not w.suspect and (w.flops or len(sample.work) == 1)
    ]
    if sample.state is not Known.COUNTED:
        some = f"{', '.join(parts)} counted; of the rest: " if parts else ""
        return f"{some}{sample.state.value}: {sample.why}"
    return ", ".join(parts) or "0 FLOP"


def _rows(standing: Standing, shown: Sequence[Placed], options: Options) -> list[RenderableType]:
    if not shown:
        return [line("There are no kernels.")]
    left_out = standing.kernels[len(shown) :]
    rest = sum(k.time_share or 0.0 for k in left_out)
    foot = [line((f"{len(left_out)} more with {rest:.1%} of the time", "dim"))] if left_out else []
    return [table(_columns(shown), options.columns), *foot]


def _columns(shown: Sequence[Placed]) -> list[Column]:
    bounds = [k.bound.value if k.bound else "unknown" for k in shown]
    columns = [
        Column(
            title="kernel",
            cells=tuple(short_name(k.sample.name) for k in shown),
            align="left",
            minimum=14,
        ),
        _column("count", 6, (f"{k.sample.count:,}" for k in shown)),
        _column("time", 0, (format_si(k.sample.time_s, "s") for k in shown)),
        _column("share", 5, (format_percent(k.time_share) for k in shown)),
        _column("FLOP", 7, (_flops(k) for k in shown)),
        _column("FLOP/s", 1, (format_si(k.flop_per_s, "") for k in shown)),
    ]
    for priority, level in enumerate(_LEVELS, 2):
        if any(k.level(level) for k in shown):
            columns.append(
                _column(f"FLOP/B {level}", priority, (_intensity(k, level) for k in shown))
            )
            if any((x := k.level(level)) and x.utilization is not None for k in shown):
                columns.append(_column(level, priority + 6, (_used(k, level) for k in shown)))
    columns += [
        Column(title="bound", cells=tuple(bounds), align="left", priority=1, styles=tuple(bounds)),
        _column("by", 4, (k.binding or "–" for k in shown)),
        _column("of roof", 1, (format_percent(k.roofline_efficiency) for k in shown)),
        _column("headroom", 5, (format_si(k.headroom_s, "s") for k in shown)),
    ]
    return columns


def _flops(kernel: Placed) -> str:
    state = kernel.sample.state
    return format_si(kernel.sample.flops, "") if state is Known.COUNTED else state.value


def _intensity(kernel: Placed, level: str) -> str:
    found = kernel.level(level)
    if found is None or found.arithmetic_intensity is None:
        return "unknown"
    value = found.arithmetic_intensity
    return "∞" if math.isinf(value) else format_number(value)


def _used(kernel: Placed, level: str) -> str:
    found = kernel.level(level)
    return format_percent(found.utilization if found else None)


def _column(name: str, priority: int, cells: object) -> Column:
    return Column(title=name, cells=tuple(cells), priority=priority)  # type: ignore[arg-type]


def _remarks(
    heading: str, remarks: Sequence[tuple[Placed, tuple[str, ...]]], style: str
) -> list[RenderableType]:
    every = [
        f"{shorten(clean(short_name(k.sample.name)), 40)}: {text}"
        for k, found in remarks
        for text in found
    ]
    more = (
        [f"{len(every) - _MOST_REMARKS} more; --json has all"] if len(every) > _MOST_REMARKS else []
    )
    return listed(heading, [*every[:_MOST_REMARKS], *more], style)


def _notes(standing: Standing, shown: Sequence[Placed]) -> list[str]:
    notes = list(standing.notes)
    reasons = [k.sample.why for k in shown if k.sample.why]
    notes += [f"work {k.sample.state.value}: {k.sample.why}" for k in shown if k.sample.why][
        : 3 if reasons else 0
    ]
    notes += [note for k in shown for note in k.sample.notes]
    notes += [f"{number:,} {what}" for what, number in standing.samples.skipped.items()]
    return list(dict.fromkeys(notes))
