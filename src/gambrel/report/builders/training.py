"""A training step of a language model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gambrel.llm.training import TrainingStep
from gambrel.llm.training_plan import UTILIZATION
from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    KeyFigure,
    TextChart,
    assumed,
    col,
    rate_text,
    seconds,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.terms import LIMITERS, confidence_text, range_text
from gambrel.report.timeline import chart
from gambrel.units import format_capacity, format_count, format_percent, format_si

_HOUR: Final = 3600.0
#: From this many days on, a run is given in days.
_DAYS: Final = 2
#: Fields that are analyses or written apart.
_APART: Final = frozenset({"expected", "passes", "end", "parts", "memory"})


def document(step: TrainingStep, _options: Options) -> Document:
    """Time of a step, rate and memory."""
    m = step.memory
    fits = {None: "capacity unknown", True: "fits", False: "does NOT fit"}[m.fits]
    if m.fits and not m.within(UTILIZATION):
        fits = "fits on paper, with too little left for the context and buffers"
    parts = (
        ("Confidence", confidence_text(step.expected)),
        ("Recomputed", step.recompute.replace(",", ", ")),
        ("Bubble", format_percent(step.bubble)),
        ("Exchange", _known(step.exchange_s)),
        ("Update", _known(step.update_s)),
        ("Host link", _known(step.offload_s or None)),
        ("Model work", f"{format_si(step.model_flops, 'FLOP')} per token"),
        ("HFU", f"{format_percent(step.hfu)}, with what is recomputed" if step.hfu else ""),
        ("Parameters", format_capacity(m.parameters_bytes)),
        ("Gradients", format_capacity(m.gradients_bytes)),
        ("Optimizer", format_capacity(m.optimizer_bytes)),
        ("Activations", format_capacity(m.activations_bytes)),
    )
    return Document(
        title=f"{step.passes.model.name} on {step.passes.hardware.id}, training step",
        answer=(
            *_times(step),
            f"Memory: {format_capacity(m.total_bytes)} of {format_capacity(m.capacity_bytes)} per "
            f"device{_where(step)}, {fits}",
            *run_line(step),
        ),
        sections=sections(
            section(FactList(items=tuple(part for part in parts if part[1]))),
            section(_ranks(step) if len(step.ranks) > 1 else None),
            section(_over_time(step)),
            section(_choices(step)),
            assumed(step.assumptions),
        ),
        source="expected times of the step's ops on the device; communication from its links",
        figures=tuple(step_figures(step)),
    )


def _known(value: float | None) -> str:
    """Seconds; empty where there are none, so that the line is left out."""
    return "" if value is None else format_si(value, "s")


def _times(step: TrainingStep) -> Iterator[str]:
    """How long, at which rate and what limits; the roofline alone where no time is expected."""
    limits = (
        f"roofline {format_si(step.roofline_step_s, 's')}, speed of light "
        f"{format_si(step.sol_step_s, 's')}"
    )
    expected = step.expected
    if expected is None:
        yield (
            f"Roofline: {format_si(step.roofline_step_s, 's')}"
            f"{' without the pipeline bubble' if step.bubble else ''}; no expected time: "
            f"{step.confidence_reason}"
        )
        yield f"Bound: {step.bound.value if step.bound else 'unknown'}; {limits}"
        return
    yield (
        f"Expected: {format_si(expected.value, 's')} ({format_si(expected.low, 's')} to "
        f"{format_si(expected.high, 's')}, {expected.confidence} confidence)"
    )
    rate = rate_text(step.tokens_per_s_per_device)
    yield f"Rate: {rate} tokens/s per device, MFU {format_percent(step.mfu)}"
    yield f"Limited by: {LIMITERS.get(step.limited_by or '', 'unknown')}; {limits}"


def run_line(step: TrainingStep) -> Iterator[str]:
    """How long the whole run takes, and on how many devices."""
    run = step.run
    if run is not None:
        yield (
            f"Run: {format_si(run.tokens, '')} tokens in {_long(run.expected_time_s)} "
            f"({_long(run.expected_low_s)} to {_long(run.expected_high_s)}), "
            f"{run.device_time_s / _HOUR:,.0f} device-hours on "
            f"{format_count(run.devices, 'device')}; without restarts and evaluation"
        )


def _long(seconds_: float) -> str:
    """Hours, or days where there are several."""
    days = seconds_ / (24 * _HOUR)
    many = days >= _DAYS
    return f"{rate_text(days if many else seconds_ / _HOUR)} {'days' if many else 'hours'}"


def _where(step: TrainingStep) -> str:
    """Which stage is fullest, and when."""
    stage = f" of stage {step.memory.stage}" if len(step.ranks) > 1 else ""
    return f"{stage} at the {'loss' if step.memory.moment == 'loss' else 'start of backward'}"


def _ranks(step: TrainingStep) -> DataTable:
    """Memory of each stage where it is fullest."""
    return table_of(
        step.ranks,
        col("stage", "stage", str),
        col("layers", "layers", str, 2),
        col("in flight", "in_flight", lambda n: f"{n:.3g}", 1),
        col("parameters", "parameters_bytes", format_capacity, 1),
        col("gradients", "gradients_bytes", format_capacity, 1),
        col("optimizer", "optimizer_bytes", format_capacity, 1),
        col("activations", "activations_bytes", format_capacity),
        col("in all", "total_bytes", format_capacity),
        col("fullest at", "moment"),
        heading="Memory by stage, one device",
        all=True,
    )


def _over_time(step: TrainingStep) -> TextChart | None:
    """The fullest device over the step, for a terminal; pages and pictures draw the parts."""
    found = step.timeline
    return None if found is None else TextChart(draw=lambda options: chart(found, options.columns))


def _choices(step: TrainingStep) -> DataTable:
    """What recomputing each class of ops would free and cost."""
    whole = step.step_s or math.inf
    return table_of(
        step.choices,
        col("recompute", "name"),
        col("frees", "freed_bytes", format_capacity),
        col("costs", "cost_s", seconds),
        col("of the step", lambda c: c.cost_s / whole, format_percent, 1, key="share"),
        heading="Recomputation, beside keeping all",
        all=True,
    )


def step_figures(step: TrainingStep) -> Iterator[KeyFigure]:
    """Time, rate, MFU, limit and memory of a step; without time, rate and MFU where unknown."""
    m = step.memory
    if step.expected is not None:
        yield from _time_figures(step)
    yield KeyFigure(
        label="speed of light",
        text=format_si(step.sol_step_s, "s"),
        note=f"roofline {format_si(step.roofline_step_s, 's')}",
        key="sol_time_s",
    )
    yield KeyFigure(
        label="memory",
        text=format_capacity(m.total_bytes, 3),
        note=f"of {format_capacity(m.capacity_bytes, 3)} per device",
        formula="Parameters, gradients, optimizer states and activations of one device.",
    )


def _time_figures(step: TrainingStep) -> Iterator[KeyFigure]:
    yield KeyFigure(
        label="time of a step",
        text=format_si(step.step_s, "s"),
        note=range_text(step.expected),
        formula="Forward, backward and update of the pipeline with its bubble and exchange.",
        confidence=confidence_text(step.expected),
    )
    yield KeyFigure(
        label="rate",
        text=f"{rate_text(step.tokens_per_s_per_device)} tokens/s",
        note="per device",
        formula="tokens of a step / (time of a step x devices)",
    )
    yield KeyFigure(
        label="MFU",
        text=format_percent(step.mfu),
        note=f"HFU {format_percent(step.hfu)}",
        formula="model FLOPs / (time x peak); HFU counts what is recomputed as well",
    )


def content(step: TrainingStep, _options: Options | None = None) -> dict[str, Any]:
    """The figures, without the analyses op by op."""
    return {
        "model": step.passes.model.name,
        "hardware": step.passes.hardware.id,
        "step_s": step.step_s,
        "expected": step.expected,
        "confidence_reason": step.confidence_reason,
        **{n: getattr(step, n) for n in step.__struct_fields__ if n not in _APART},
        "memory": {
            **msgspec.to_builtins(step.memory),
            "total_bytes": step.memory.total_bytes,
            "fits": step.memory.fits,
        },
    }
