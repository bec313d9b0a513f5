"""The built-in models for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from gambrel.report.layout import Column, line, show, table
from gambrel.report.options import Options
from gambrel.units import format_si
from gambrel.workload import WorkloadSummary


def render_list(rows: Sequence[WorkloadSummary], options: Options | None = None) -> str:
    """A table of models, one line each."""
    options = options or Options()
    if not rows:
        return "No model matches. Run 'gambrel models list' to see all.\n"
    columns = [
        Column(title="model", cells=tuple(m.name for m in rows), align="left", minimum=16),
        Column(title="family", cells=tuple(m.family for m in rows), align="left", priority=4),
        _right("parameters", 1, [format_si(m.parameters, "") for m in rows]),
        _right("FLOP", 0, [format_si(m.flops, "") for m in rows]),
        Column(
            title="at, and may be chosen",
            cells=tuple(_sizes(m) for m in rows),
            align="left",
            priority=2,
            minimum=16,
        ),
        Column(
            title="about",
            cells=tuple(m.about for m in rows),
            align="left",
            priority=6,
            minimum=20,
        ),
        Column(
            title="origin",
            cells=tuple(m.origin for m in rows),
            align="left",
            priority=8,
            minimum=20,
        ),
    ]
    foot = (
        f"{len(rows)} models. FLOP: multiply-accumulate work (FMA = 2) at the sizes shown; choose "
        "others with --batch, --seq, --context, --image or --size NAME=NUMBER."
    )
    return show([[table(columns, options.columns)], [line(foot)]], options)


def _sizes(model: WorkloadSummary) -> str:
    return ", ".join(f"{s.name}={s.default}" for s in model.symbols) or "fixed"


def _right(title: str, priority: int, cells: Sequence[str]) -> Column:
    return Column(title=title, cells=tuple(cells), priority=priority)
