"""Texts and rows of measured kernels that the terminal and the page share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gambrel.analysis.samples.diagnose import Suggestion
from gambrel.analysis.samples.join import Joined, JoinedRow
from gambrel.analysis.samples.movement import Move, Movement
from gambrel.analysis.samples.place import Placed
from gambrel.units import format_number, format_percent, format_si

#: Heading, rows, and a sentence below them.
Rows = tuple[Sequence[str], Sequence[Sequence[str]], str]

#: Rows that a page or a terminal lists; the JSON has all.
_MOST: Final = 100


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


def move_rows(movement: Movement) -> Rows:
    """One line a kernel, the largest change of time first."""
    head = (
        *("kernel", "before", "after", "gained", "speedup", "FLOP/B before", "FLOP/B after"),
        *("of roof before", "of roof after"),
    )
    rows = [_move_cells(m) for m in movement.moves[:_MOST]]
    foot = (
        f"All kernels: {format_si(movement.before.total.sample.time_s, 's')} before, "
        f"{format_si(movement.after.total.sample.time_s, 's')} after, "
        f"speedup {format_number(movement.speedup)}."
    )
    return head, rows, " ".join((foot, *(f"{n[:1].upper()}{n[1:]}." for n in movement.notes)))


def _move_cells(m: Move) -> Sequence[str]:
    sides = (m.before, m.after)
    speedup = format_number(m.speedup) + ("*" if m.work_changed else "")
    return (
        short_name(m.name),
        *(format_si(k.sample.time_s, "s") if k else "–" for k in sides),
        format_si(m.gained_s, "s"),
        speedup if m.speedup is not None else ("gone" if m.after is None else "new"),
        *(_intensity(k) for k in sides),
        *(format_percent(k.roofline_efficiency) if k else "–" for k in sides),
    )


def _intensity(k: Placed | None) -> str:
    level = k.level("DRAM") if k else None
    return format_number(level.arithmetic_intensity) if level else "–"


def joined_rows(joined: Joined) -> Rows:
    """One line a predicted op, the most measured time first."""
    head = (
        *("predicted op", "kind", "count", "launches", "FLOP", "bound", "expected"),
        *("measured", "ratio", "matched by"),
    )
    foot = (
        f"One run of {joined.model} takes {format_si(joined.measured_time_s, 's')}; "
        f"{format_percent(joined.coverage_time)} of it met an op "
        f"({format_percent(joined.coverage_work)} by its work), and "
        f"{format_percent(joined.coverage_ops)} of the predicted roofline time met a kernel."
    )
    left = list(joined.left_kernels.items())[:3]
    if left:
        listed = ", ".join(f"{short_name(n)[:60]} {format_si(t, 's')}" for n, t in left)
        foot += f" Kernels without an op: {len(joined.left_kernels)}, such as {listed}."
    notes = " ".join(f"{n[:1].upper()}{n[1:]}." for n in joined.notes)
    return head, [_joined_cells(r) for r in joined.rows[:_MOST]], f"{foot} {notes}"


def _joined_cells(r: JoinedRow) -> Sequence[str]:
    return (
        r.name,
        r.kind,
        f"{r.count:,}",
        f"{r.launches:,}",
        format_si(r.flops, ""),
        format_si(r.roofline_time_s, "s"),
        format_si(r.expected_time_s, "s"),
        format_si(r.measured_time_s, "s"),
        f"{format_number(r.ratio)}x" if r.ratio is not None else "unknown",
        r.how,
    )
