"""Measured kernels: one line a kernel, then what looks wrong, what to look at, what to change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from gambrel.analysis.samples import Known, Placed, Standing
from gambrel.analysis.samples.diagnose import Suggestion, recommend
from gambrel.analysis.samples.instructions import peak_instructions
from gambrel.analysis.samples.join import JoinedRun
from gambrel.analysis.samples.movement import KernelMove, Movement
from gambrel.report.answers import Recorded
from gambrel.report.blocks import (
    Column,
    DataTable,
    Document,
    FactList,
    KeyFigure,
    Notes,
    amount,
    col,
    count,
    figures,
    section,
    sections,
    share,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.samples_chart import title
from gambrel.report.text import clean, shorten
from gambrel.units import format_count, format_number, format_percent, format_si

_LEVELS: Final = ("DRAM", "L2", "L1", "shared")
#: What to look at is listed for kernels with this share of the time or more.
_LEAST_SHARE: Final = 0.01
_MOST_REMARKS: Final = 8
_MOST_SUGGESTIONS: Final = 5
#: Rows of the tables beside another run and a prediction; the JSON has all.
_MOST_ROWS: Final = 100


def document(record: Recorded, options: Options) -> Document:
    """Time and what to change lead."""
    standing = record.standing
    shown = standing.kernels[: options.top or None]
    joined, movement = record.joined, record.movement
    changes = tuple(suggestion_texts(recommend(standing))[:_MOST_SUGGESTIONS])
    matter = [(k, k.findings) for k in shown if _matters(k)]
    return Document(
        title=title(standing),
        answer=tuple(_answer(standing, changes)),
        sections=sections(
            section(_kernels(standing)),
            section(_remarks("Warnings", [(k, k.warnings) for k in shown], "warning")),
            section(_remarks("Look at", matter, "bold")),
            section(Notes(heading="What to change", items=changes)),
            section(_prediction(joined) if joined else None),
            section(_moves(movement) if movement else None),
            section(FactList(items=tuple(_facts(standing)))),
            section(Notes(heading="Notes", items=tuple(_notes(standing, shown)))),
        ),
        source="counters in the recording and the ceilings of the device",
        figures=tuple(_key_figures(standing)),
    )


def _key_figures(standing: Standing) -> Iterator[KeyFigure]:
    total, samples = standing.total, standing.samples
    launches = sum(s.count for s in samples.launches)
    yield KeyFigure(
        label="measured time",
        text=format_si(total.sample.time_s, "s"),
        note=f"{format_count(launches, 'launch', 'launches')}, {samples.format}",
        key="measured_time_s",
        formula="sum of the times of all launches",
        source=", ".join(samples.sources),
    )
    rate = total.flop_per_s
    if rate is not None:
        yield KeyFigure(
            label="achieved",
            text=format_si(rate, "FLOP/s"),
            note="all kernels",
            formula="work / measured time",
        )
    traffic = total.level("DRAM")
    if traffic is not None and traffic.byte_per_s is not None:
        yield KeyFigure(
            label="DRAM",
            text=format_si(traffic.byte_per_s, "B/s"),
            note="all kernels",
            formula="bytes of all kernels / their time",
        )
    if total.roofline_efficiency is not None:
        yield KeyFigure(
            label="of the roof",
            text=format_percent(total.roofline_efficiency),
            note=total.binding,
            formula="roofline time of the binding resource / measured time",
        )
    if total.headroom_s is not None:
        yield KeyFigure(
            label="headroom",
            text=format_si(total.headroom_s, "s"),
            note="to the roof, all kernels",
            formula="measured time - roofline time",
        )


def _answer(standing: Standing, changes: Sequence[str]) -> Iterator[str]:
    samples, total = standing.samples, standing.total
    launches = sum(s.count for s in samples.launches)
    yield (
        f"Measured: {format_si(total.sample.time_s, 's')} in "
        f"{format_count(launches, 'launch', 'launches')}, {samples.format}; {_work(total)}"
    )
    spent: dict[str, float] = {}
    for k in standing.kernels:
        bound = f"{k.bound.value}-bound" if k.bound else "unknown"
        spent[bound] = spent.get(bound, 0.0) + (k.time_share or 0.0)
    parts = sorted(spent.items(), key=lambda item: -item[1])
    if any(spent.values()):
        yield f"Kernels: {', '.join(f'{format_percent(part)} {name}' for name, part in parts)}"
    if standing.device is None:
        yield "Roofs: no device is known: name it, or give its peak and bandwidth"
    elif changes:
        yield f"Next: {changes[0]}"


def short_name(name: str) -> str:
    """A kernel's name without return type, namespaces of the unnamed, and parameters."""
    name = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    name = name.removeprefix("<unnamed>::").removeprefix("unnamed>::")
    # Template arguments may hold parentheses, "<(int)32>": the parameters are the last group.
    if name.endswith(")"):
        depth = 0
        for i in range(len(name) - 1, 0, -1):
            depth += {")": 1, "(": -1}.get(name[i], 0)
            if depth == 0:
                return name[:i] or name
    return name


def suggestion_texts(found: Sequence[Suggestion]) -> list[str]:
    """For example ``"gemm: at 92% of DRAM ...: fuse it ...; up to 1.2 ms, 8% of the time"``."""
    return [
        f"{short_name(s.kernel) + ': ' if s.kernel else ''}{s.cause}. {s.change[:1].upper()}"
        f"{s.change[1:]}: up to {format_si(s.saves_s, 's')}, {format_percent(s.share)} of the time."
        for s in found
    ]


def _sentences(texts: Iterable[str]) -> str:
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in texts)


def _moves(movement: Movement) -> DataTable:
    """One line a kernel, the largest change of time first."""
    foot = (
        f"All kernels: {format_si(movement.before.total.sample.time_s, 's')} before, "
        f"{format_si(movement.after.total.sample.time_s, 's')} after, "
        f"speedup {format_number(movement.speedup)}."
    )
    note = f"{foot} {_sentences(movement.notes)}".rstrip()
    if not movement.moves:
        return DataTable(heading="Against the other run", columns=(), note=note)
    sides = ("before", "after")
    return table_of(
        movement.moves[:_MOST_ROWS],
        col("kernel", lambda m: short_name(m.name), minimum=20),
        *(col(s, _of(s, lambda k: _time(k.sample.time_s)), None, 1, align="right") for s in sides),
        col("gained", "gained_s", _time, 3),
        col("speedup", _speedup, align="right"),
        *(col(f"FLOP/B {s}", _of(s, _dram), None, 3, align="right") for s in sides),
        *(
            col(f"of roof {s}", _of(s, lambda k: share(k.roofline_efficiency)), None, 3)
            for s in sides
        ),
        heading="Against the other run",
        note=note,
    )


def _of(side: str, text: Callable[[Placed], str]) -> Callable[[KernelMove], str]:
    """A text about the kernel on one side; a dash where it is not there."""
    return lambda move: text(k) if (k := getattr(move, side)) else "–"


def _speedup(m: KernelMove) -> str:
    if m.speedup is None:
        return "gone" if m.after is None else "new"
    return format_number(m.speedup) + ("*" if m.work_changed else "")


def _dram(k: Placed) -> str:
    return "–" if k.level("DRAM") is None else _intensity(k, "DRAM")


def _prediction(joined: JoinedRun) -> DataTable:
    """One line a predicted op, the most measured time first."""
    note = (
        f"One run of {joined.model} takes {format_si(joined.measured_time_s, 's')}; "
        f"{format_percent(joined.coverage_time)} of it met an op "
        f"({format_percent(joined.coverage_work)} by its work), and "
        f"{format_percent(joined.coverage_ops)} of the predicted roofline time met a kernel."
    )
    left = list(joined.left_kernels.items())[:3]
    if left:
        listed = ", ".join(f"{short_name(n)[:60]} {format_si(t, 's')}" for n, t in left)
        note += f" Kernels without an op: {len(joined.left_kernels)}, such as {listed}."
    note = f"{note} {_sentences(joined.notes)}".rstrip()
    if not joined.rows:
        return DataTable(heading="Under the prediction", columns=(), note=note)
    return table_of(
        joined.rows[:_MOST_ROWS],
        col("predicted op", "name", minimum=20),
        col("kind", "kind", None, 3, align="right"),
        col("count", "count", count, 3),
        col("launches", "launches", count, 3),
        col("FLOP", "flops", amount, 3),
        col("bound", "roofline_time_s", _time, 3),
        col("expected", "expected_time_s", _time, 1),
        col("measured", "measured_time_s", _time),
        col("ratio", "ratio", lambda v: "unknown" if v is None else f"{format_number(v)}×", 1),
        col("matched by", "how", None, 3, align="right"),
        heading="Under the prediction",
        note=note,
    )


def _matters(kernel: Placed) -> bool:
    return kernel.time_share is None or kernel.time_share >= _LEAST_SHARE


def _facts(standing: Standing) -> Iterator[tuple[str, str]]:
    for x in standing.total.levels:
        what = format_si(x.traffic_bytes, "B") if x.traffic_bytes is not None else "rate only"
        yield x.level, f"{what}; {x.how}" if x.how else what
    if standing.samples.spans:
        spans = standing.samples.spans.items()
        yield "Timeline", ", ".join(f"{name} {format_si(s, 's')}" for name, s in spans)


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


def _kernels(standing: Standing) -> DataTable:
    found = standing.kernels
    if not found:
        return DataTable(columns=(), note="There are no kernels.")
    return DataTable(
        columns=tuple(_columns(found)),
        shares=tuple(k.time_share or 0.0 for k in found),
        whole="the time",
        linked=True,
    )


def _columns(shown: Sequence[Placed]) -> list[Column]:
    bounds = tuple(k.bound.value if k.bound else "unknown" for k in shown)
    levels: list[Column] = []
    for priority, level in enumerate(_LEVELS, 2):
        if any(k.level(level) for k in shown):
            cells = (_intensity(k, level) for k in shown)
            levels.append(_right(f"FLOP/B {level}", cells, priority))
            if any((x := k.level(level)) and x.utilization is not None for k in shown):
                levels.append(_right(level, (_used(k, level) for k in shown), priority + 6))
    head = (
        col("kernel", lambda k: short_name(k.sample.name), minimum=14),
        col("count", "sample.count", count, 6),
        col("time", "sample.time_s", _time),
        col("share", "time_share", share, 5),
        col("FLOP", _flops, priority=7, align="right"),
        col("FLOP/s", "flop_per_s", amount, 1),
    )
    tail = (
        col("bound", lambda k: k.bound.value if k.bound else "unknown", None, 1, styles=bounds),
        col("by", lambda k: k.binding or "–", None, 4, align="right"),
        col("of roof", "roofline_efficiency", share, 1),
        col("headroom", "headroom_s", _time, 5),
    )
    return [*(s.of(shown) for s in head), *levels, *(s.of(shown) for s in tail)]


_time: Final = partial(format_si, unit="s")


def _right(name: str, cells: Iterable[str], priority: int) -> Column:
    return Column(title=name, cells=tuple(cells), priority=priority)


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


def _remarks(heading: str, remarks: Sequence[tuple[Placed, tuple[str, ...]]], style: str) -> Notes:
    every = [
        f"{shorten(clean(short_name(k.sample.name)), 40)}: {text}"
        for k, found in remarks
        for text in found
    ]
    more = (
        [f"{len(every) - _MOST_REMARKS} more; the JSON has all"]
        if len(every) > _MOST_REMARKS
        else []
    )
    return Notes(heading=heading, items=(*every[:_MOST_REMARKS], *more), style=style)


def _notes(standing: Standing, shown: Sequence[Placed]) -> list[str]:
    notes = list(standing.notes)
    notes += [f"work {k.sample.state.value}: {k.sample.why}" for k in shown if k.sample.why][:3]
    notes += [note for k in shown for note in k.sample.notes]
    notes += [f"{number:,} {what}" for what, number in standing.samples.skipped.items()]
    return list(dict.fromkeys(notes))


def content(record: Recorded, _options: Options | None = None) -> dict[str, Any]:
    """Every figure; ``state`` tells why the work of a kernel is unknown."""
    standing, samples = record.standing, record.standing.samples
    return {
        "format": samples.format,
        "sources": samples.sources,
        "by": standing.by,
        "hardware": standing.device,
        "total": _row(standing.total),
        "kernels": [_row(k) for k in standing.kernels],
        "peak_instruction_per_s": peak_instructions(standing.device),
        "recommendations": recommend(standing),
        "model": record.joined,
        "against": _movement(record.movement),
        "spans": samples.spans,
        "notes": standing.notes,
        "skipped": samples.skipped,
    }


def _movement(movement: Movement | None) -> dict[str, Any] | None:
    if movement is None:
        return None
    return {
        "sources": movement.before.samples.sources,
        "total": _row(movement.before.total),
        "gained_s": movement.gained_s,
        "speedup": movement.speedup,
        "notes": movement.notes,
        "moves": [
            {name: getattr(m, name) for name in ("name", "gained_s", "speedup", "work_changed")}
            | {"before": m.before and _row(m.before), "after": m.after and _row(m.after)}
            for m in movement.moves
        ],
    }


#: Fields of a sample, and of its place under the roofs, that JSON has as they are.
_OF_SAMPLE: Final = (
    *("name", "group", "range", "origin", "grid", "block", "count", "flops", "state", "why"),
    *("instructions", "recorded", "ratios", "notes"),
)
_OF_PLACE: Final = (
    *("time_share", "levels", "flop_per_s", "peak_flop_per_s", "bound", "roofline_time_s"),
    *("roofline_efficiency", "headroom_s", "instruction_per_s", "warnings", "findings"),
)


def _row(placed: Placed) -> dict[str, Any]:
    efficiency, rate = placed.roofline_efficiency, placed.flop_per_s
    sample = {name: getattr(placed.sample, name) for name in _OF_SAMPLE}
    return sample | {
        "measured_time_s": placed.sample.time_s,
        "work": [msgspec.structs.asdict(w) for w in placed.sample.work],
        "attainable_flop_per_s": rate / efficiency if rate and efficiency else None,
        "binding": placed.binding or None,
        **{name: getattr(placed, name) for name in _OF_PLACE},
    }


def rows(record: Recorded) -> DataTable:
    """One row a kernel; it reads back as a table of points."""
    kernels = record.standing.kernels
    levels = [x for x in _LEVELS if any(k.level(x) for k in kernels)]
    specs = (
        col("name", lambda k: clean(k.sample.name), str, key="name"),
        col("count", "sample.count", str),
        col("time", "sample.time_s", str),
        col("flops", "sample.flops", str),
        col("state", _state, str, key="state"),
        *(col(n, n, str) for n in ("flop_per_s", "bound", "binding")),
        *(col(n, n, str) for n in ("roofline_efficiency", "time_share")),
        col("engine", lambda k: _engine(k)[0], str, key="engine"),
        col("dtype", lambda k: _engine(k)[1], str, key="dtype"),
    )
    columns = [spec.of(kernels) for spec in specs]
    for x in levels:
        at = [k.level(x) for k in kernels]
        traffic = (p.traffic_bytes if p else None for p in at)
        intensity = (p.arithmetic_intensity if p else None for p in at)
        columns.append(figures(x, traffic, str, f"{x.lower()}_bytes"))
        columns.append(figures(x, intensity, str, f"{x.lower()}_intensity"))
    return DataTable(columns=tuple(columns))


def _state(k: Placed) -> str:
    return "" if k.sample.state is Known.COUNTED else k.sample.state.value


def _engine(k: Placed) -> tuple[str, str]:
    """Engine and format, where all work is in one."""
    found = {(w.work_class, w.dtype) for w in k.sample.work if w.flops and not w.suspect}
    return next(iter(found)) if len(found) == 1 else ("", "")
