"""The built-in models for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from gambrel.report.options import Options
from gambrel.report.text import Column, clean, table, wrap
from gambrel.units import format_si
from gambrel.workload import WorkloadSummary


def render_list(rows: Sequence[WorkloadSummary], options: Options | None = None) -> str:
    """A table of models, one line each."""
    options = options or Options()
    if not rows:
        return "No model matches. Run 'gambrel models list' to see all.\n"
    columns = [
        Column(title="model", cells=tuple(clean(m.name) for m in rows), align="<", minimum=16),
        Column(title="family", cells=tuple(clean(m.family) for m in rows), align="<", priority=4),
        _right("parameters", 1, [format_si(m.parameters, "") for m in rows]),
        _right("FLOP", 0, [format_si(m.flops, "") for m in rows]),
        Column(
            title="at, and may be chosen",
            cells=tuple(_sizes(m) for m in rows),
            align="<",
            priority=2,
            minimum=16,
        ),
        Column(
            title="about",
            cells=tuple(clean(m.about) for m in rows),
            align="<",
            priority=6,
            minimum=20,
        ),
        Column(
            title="origin",
            cells=tuple(clean(m.origin) for m in rows),
            align="<",
            priority=8,
            minimum=20,
        ),
    ]
    lines = table(columns, options.columns, options.color)
    foot = (
        f"{len(rows)} models. FLOP: multiply-accumulate work (FMA = 2) at the sizes shown; choose "
        "others with --batch, --seq, --context, --image or --size NAME=NUMBER."
    )
    return "\n".join([*lines, "", *wrap(foot, options.columns)]) + "\n"


def _sizes(model: WorkloadSummary) -> str:
    return ", ".join(f"{s.name}={s.default}" for s in model.symbols) or "fixed"


def _right(title: str, priority: int, cells: Sequence[str]) -> Column:
    return Column(title=title, cells=tuple(cells), priority=priority)
