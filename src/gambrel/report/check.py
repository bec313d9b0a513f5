"""A check for a terminal and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gambrel.advise.check import Check, Fix
from gambrel.advise.figures import Figure
from gambrel.advise.limits import METRICS, format_metric
from gambrel.advise.verdict import Constraint, Verdict
from gambrel.report.advice_json import document
from gambrel.report.layout import Column, hanging, line, listed, show, table
from gambrel.report.options import Options
from gambrel.report.text import clean

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {
    Verdict.PASS: "total",
    Verdict.MARGINAL: "warning",
    Verdict.UNKNOWN: "warning",
    Verdict.FAIL: "bold red",
}


_TITLES = {
    Verdict.PASS: "What would make it pass",
    Verdict.MARGINAL: "What would make it marginal",
    Verdict.UNKNOWN: "What would leave it open",
    Verdict.FAIL: "What comes closest",
}


def render(found: Check, options: Options | None = None) -> str:
    """The verdict, each requirement, and what would make it pass."""
    options = options or Options()
    sizes = ", ".join(f"{name} {value}" for name, value in found.sizes.items())
    blocks: list[Sequence[RenderableType]] = [
        [
            line(
                (found.verdict.value, _STYLES[found.verdict]),
                f"  {found.model} on {found.hardware}, {found.precision}",
                f", {sizes}" if sizes else "",
            )
        ],
        [_constraints(found.constraints, options.columns)],
        [hanging(_reasons(found.constraints), 12)],
        _fixes(found, options.columns),
        listed("Notes", found.notes),
    ]
    return show(blocks, options)


def to_json(found: Check) -> str:
    """The check as JSON text."""
    return document("gambrel/check", found)


def _constraints(rows: Sequence[Constraint], width: int) -> RenderableType:
    columns = [
        Column(title="limit", cells=tuple(map(limit_text, rows)), align="left"),
        Column(title="expected", cells=tuple(value_text(r.figure) for r in rows), align="left"),
        Column(
            title="range",
            cells=tuple(range_text(r.figure) for r in rows),
            align="left",
            priority=2,
        ),
        Column(title="headroom", cells=tuple(_headroom(r) for r in rows), priority=1),
        Column(
            title="verdict",
            cells=tuple(r.verdict.value for r in rows),
            align="left",
            styles=tuple(_STYLES[r.verdict] for r in rows),
        ),
        Column(
            title="confidence",
            cells=tuple(r.confidence or "–" for r in rows),
            align="left",
            priority=3,
        ),
    ]
    return table(columns, width)


def limit_text(row: Constraint) -> str:
    """``"latency ≤ 10 ms"``."""
    if row.metric == "capacity":
        return f"device memory {format_metric('memory', row.limit)}"
    sign = "≥" if METRICS[row.metric].more_is_better else "≤"
    return f"{row.metric} {sign} {format_metric(row.metric, row.limit)}"


def value_text(figure: Figure) -> str:
    """The expected value; else what it lies between, or is at most or at least."""
    name, more = figure.metric, METRICS[figure.metric].more_is_better
    if figure.value is not None:
        return format_metric(name, figure.value)
    floor, ceiling = (figure.worst, figure.high) if more else (figure.low, figure.worst)
    if floor is not None and ceiling is not None:
        return f"{format_metric(name, floor, 3)} to {format_metric(name, ceiling, 3)}"
    if floor is not None:
        return f"≥ {format_metric(name, floor)}"
    return "unknown" if ceiling is None else f"≤ {format_metric(name, ceiling)}"


def range_text(figure: Figure) -> str:
    """``"0.6 ms to 1.2 ms"``; empty where the value is exact or unknown."""
    if figure.value is None or figure.low is None or figure.high is None:
        return ""
    if figure.low == figure.high:
        return "exact"
    low, high = (format_metric(figure.metric, v, 3) for v in (figure.low, figure.high))
    return f"{low} to {high}"


def _headroom(row: Constraint) -> str:
    return "unknown" if row.headroom is None else f"{row.headroom:.0%}"


def _reasons(rows: Sequence[Constraint]) -> list[tuple[str, str]]:
    return [(row.metric, f"{row.reason}.") for row in rows if row.reason]


def _fixes(found: Check, width: int) -> list[RenderableType]:
    if found.verdict.meets or found.verdict is Verdict.UNKNOWN:
        return []
    best = min(found.fixes, key=lambda fix: list(Verdict).index(fix.verdict), default=None)
    head = line((_TITLES[best.verdict if best else Verdict.FAIL], "bold"))
    if not found.fixes:
        return [
            line(("What would make it pass", "bold")),
            line("No change of the catalogue comes closer."),
            line(f"Other devices: {_selection(found)}"),
        ]
    columns = [
        Column(
            title="change",
            cells=tuple(" + ".join(f.changes) for f in found.fixes),
            align="left",
        ),
        Column(title="verdict", cells=tuple(f.verdict.value for f in found.fixes), align="left"),
        Column(
            title="then",
            cells=tuple(map(_then, found.fixes)),
            align="left",
            priority=1,
            minimum=20,
        ),
        Column(
            title="about",
            cells=tuple(f.about for f in found.fixes),
            align="left",
            priority=4,
            minimum=30,
        ),
    ]
    return [
        head,
        table(columns, width),
        line(f"See the difference: {_command(found)}"),
        line(f"Other devices: {_selection(found)}"),
    ]


def _command(found: Check) -> str:
    """The what-if that shows the first fix, at the same precision, stack and sizes."""
    words = ["gambrel", "what-if", clean(found.model), "--hardware", found.hardware]
    words += ["--precision", found.precision]
    if found.runtime:
        words += ["--runtime", found.runtime]
    words += _chosen(found)
    words += _sizes(found)
    for change in found.fixes[0].changes:
        words += ["--change", change]
    return shlex.join(words)


def _chosen(found: Check) -> list[str]:
    return ["--sparse"] * found.sparsity + (["--engine", found.engine] if found.engine else [])


def _selection(found: Check) -> str:
    """The command that looks for devices on which the same limits are met."""
    units = {"latency": "s", "throughput": "/s", "power": "W", "energy": "J", "memory": "B"}
    words = ["gambrel", "select", clean(found.model), *_sizes(found), *_chosen(found)]
    for c in found.constraints:
        if c.metric in units:
            words += [f"--{c.metric}", f"{c.limit:.6g}{units[c.metric]}"]
    return shlex.join(words)


def _sizes(found: Check) -> list[str]:
    words = []
    for name, value in found.sizes.items():
        words += ["--batch", str(value)] if name == "batch" else ["--size", f"{name}={value}"]
    return words


def _then(fix: Fix) -> str:
    return ", ".join(f"{c.metric} {value_text(c.figure)}" for c in fix.constraints)
