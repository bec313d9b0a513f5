"""The fastest layouts of a training step, and why the next is slower."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gambrel.llm.training_search import SearchedPlan, TrainingSearch, needs_of
from gambrel.report.blocks import (
    DataTable,
    Document,
    Notes,
    assumed,
    col,
    rate_text,
    seconds,
    section,
    sections,
    table_of,
)
from gambrel.report.builders.training import run_line, step_figures
from gambrel.report.options import Options
from gambrel.report.terms import range_text
from gambrel.units import format_capacity, format_count, format_percent, format_si

#: Points of the front that are listed.
_FRONT: Final = 8


def document(found: TrainingSearch, _options: Options) -> Document:
    """The fastest layout leads."""
    why = tuple(f"{i + 1}, {t.plan.sharding}: {t.why_not}" for i, t in enumerate(found.best) if i)
    return Document(
        title=f"{found.model} on {found.devices} x {found.device}: "
        f"{format_count(found.sequences, 'sequence')} of {found.seq:,} tokens per step, "
        f"{found.precision}",
        answer=_answer(found),
        style="" if found.best else "warning",
        sections=sections(
            section(_table(found, found.best, "", why=True)),
            section(Notes(heading="Why not the next", items=why)),
            section(_front(found)),
            assumed(found.assumptions),
        ),
        source="expected times of the step's ops on the device; communication from its links",
        figures=tuple(step_figures(found.step)) if found.step else (),
    )


def _answer(found: TrainingSearch) -> tuple[str, ...]:
    looked = (
        f"{format_count(found.tried, 'plan')} compared, {found.pruned:,} ruled out by memory or "
    )
    looked += "arithmetic"
    if not found.best or found.step is None:
        return ("No layout fits.", f"Nearest: {needs_of(found)}", f"Searched: {looked}")
    best, step = found.best[0], found.step
    return (
        f"Best: {best.plan.sharding}, {_batch(best)}, {_savings(best)}: "
        f"{format_si(step.step_s, 's', 3)} per step ({range_text(step.expected)}, "
        f"{step.expected.confidence if step.expected else 'unknown'} confidence)",
        f"Rate: {rate_text(step.tokens_per_s_per_device)} tokens/s per device, MFU "
        f"{format_percent(step.mfu)}; speed of light {format_si(step.sol_step_s, 's', 3)}",
        f"Memory: {format_capacity(best.memory_bytes)} of {format_capacity(found.capacity_bytes)} "
        f"per device{_limit(found)}",
        *run_line(step),
        f"Searched: {looked}",
    )


def _limit(found: TrainingSearch) -> str:
    if found.capacity_bytes is None:
        return ""
    return f"; plans may fill {format_percent(found.utilization)} of it"


def _batch(trial: SearchedPlan) -> str:
    p = trial.plan
    return f"{p.microbatches} x {p.sequences}"


def _savings(trial: SearchedPlan) -> str:
    """ZeRO, schedule and recomputation in short."""
    p = trial.plan
    parts = [f"ZeRO {p.zero}"]
    if p.sharding.pipeline > 1:
        parts.append(_schedule(trial))
    if p.recompute != "none":
        parts.append(f"recompute {p.recompute.replace(',', ' + ')}")
    return ", ".join(parts)


def _schedule(trial: SearchedPlan) -> str:
    p = trial.plan
    if p.sharding.pipeline == 1:
        return ""
    return f"{p.schedule}{f' x {p.virtual}' if p.virtual > 1 else ''}"


def _table(
    found: TrainingSearch, rows: tuple[SearchedPlan, ...], heading: str, *, why: bool = False
) -> DataTable:
    return table_of(
        rows,
        col("#", lambda t: rows.index(t) + 1, str, key="rank") if why else None,
        col("layout", lambda t: str(t.plan.sharding)),
        col("passes", _batch, align="right"),
        col("ZeRO", "plan.zero", str, 2),
        col("schedule", _schedule, None, 1),
        col("recompute", lambda t: t.plan.recompute.replace(",", " "), minimum=10),
        col("step", "step_s", seconds),
        col("MFU", found.mfu, format_percent, 1, key="mfu"),
        col("memory", "memory_bytes", format_capacity),
        heading=heading,
        all=True,
    )


def _front(found: TrainingSearch) -> DataTable:
    points = found.pareto
    shown = points[:: max(1, -(-len(points) // _FRONT))]
    return _table(found, shown, f"Time against memory: {len(points)} plans that no other beats")


def content(found: TrainingSearch, _options: Options | None = None) -> dict[str, Any]:
    """The plans, without the analysis of the best."""
    names = [n for n in found.__struct_fields__ if n not in ("best", "pareto", "nearest", "step")]
    return {
        **{name: getattr(found, name) for name in names},
        "best": [_trial(found, t) for t in found.best],
        "pareto": [_trial(found, t) for t in found.pareto],
        "nearest": None if found.nearest is None else _trial(found, found.nearest),
        "sol_step_s": found.step.sol_step_s if found.step else None,
        "expected": found.step.expected if found.step else None,
        "run": found.step.run if found.step else None,
    }


def _trial(found: TrainingSearch, trial: SearchedPlan) -> dict[str, Any]:
    rate = found.tokens_per_s_per_device(trial) if trial.step_s else None
    return {
        "layout": str(trial.plan.sharding),
        **msgspec.to_builtins(trial),
        "seconds": [{"part": name, "time_s": value} for name, value in trial.seconds.items()],
        "mfu": found.mfu(trial) if trial.step_s else None,
        "tokens_per_s_per_device": rate,
    }
