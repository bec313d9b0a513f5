"""A training step for a terminal and as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gambrel.llm.training import TrainingStep
from gambrel.report.layout import line, listed, show
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_number, format_percent, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType

_UNITS = {
    "step_s": "s",
    "expected.low": "s",
    "expected.high": "s",
    "sol_step_s": "s",
    "roofline_step_s": "s",
    "exchange_s": "s",
    "update_s": "s",
    "tokens_per_s_per_device": "token/s",
    "model_flops": "FLOP/token",
    "mfu": "1",
    "hfu": "1",
    "bubble": "1",
}

#: Fields that are not written as one number.
_APART = ("expected", "passes", "end", "memory")


def render(step: TrainingStep, options: Options | None = None) -> str:
    """The step as text."""
    m, expected = step.memory, step.expected
    fits = {None: "capacity unknown", True: "fits", False: "does not fit"}[m.fits]
    lines = [
        f"Step    {format_si(step.step_s, 's')} expected ({format_si(expected.low, 's')} to "
        f"{format_si(expected.high, 's')}, {expected.confidence} confidence: {expected.reason}); "
        f"{format_si(step.roofline_step_s, 's')} by the roofline",
        f"        bubble {format_percent(step.bubble)}, exchange "
        f"{format_si(step.exchange_s, 's')}, update {format_si(step.update_s, 's')}",
        f"Rate    {format_number(step.tokens_per_s_per_device)} tokens/s a device; MFU "
        f"{format_percent(step.mfu)}, {format_percent(step.hfu)} with what is computed again; "
        f"{format_si(step.model_flops, 'FLOP')} a token",
        f"Memory  {format_capacity(m.total_bytes)} of {format_capacity(m.capacity_bytes)} a "
        f"device: {fits}; parameters {format_capacity(m.parameters_bytes)}, gradients "
        f"{format_capacity(m.gradients_bytes)}, optimizer {format_capacity(m.optimizer_bytes)}, "
        f"activations {format_capacity(m.activations_bytes)}",
    ]
    head: list[RenderableType] = [
        line((f"{step.passes.model.name} on {step.passes.hardware.id}, training", "bold")),
        *(line(text) for text in lines),
    ]
    return show([head, listed("Assumptions", step.assumptions)], options or Options())


def plain(step: TrainingStep) -> dict[str, Any]:
    """The figures with their units, without the analyses op by op."""
    names = [n for n in step.__struct_fields__ if n not in _APART]
    return {
        "schema_version": 2,
        "units": _UNITS,
        "model": step.passes.model.name,
        "hardware": step.passes.hardware.id,
        "step_s": step.step_s,
        "expected": {
            "low": step.expected.low,
            "high": step.expected.high,
            "confidence": step.expected.confidence,
            "reason": step.expected.reason,
        },
        **{name: getattr(step, name) for name in names},
        "memory": {
            **msgspec.to_builtins(step.memory),
            "total_bytes": step.memory.total_bytes,
            "fits": step.memory.fits,
        },
    }
