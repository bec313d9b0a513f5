"""Pictures of plans: where time and memory of a training step, a cache or a split go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gambrel.report import timeline
from gambrel.report.options import Options
from gambrel.report.picture import Axis, Bar, Chart, Curve, Dot, Key, Note, Picture, drawn_bars
from gambrel.units import format_capacity, format_percent

if TYPE_CHECKING:
    from gambrel.llm.cache_plan import CachePlan
    from gambrel.llm.serving.split_records import SplitPlan
    from gambrel.llm.training import TrainingStep
    from gambrel.llm.training_search import SearchedPlan, TrainingSearch

#: Below this share of the whole a part of a step is not drawn.
_SMALL: Final = 1e-3


def training(step: TrainingStep, options: Options) -> tuple[Picture, ...]:
    """Where the time of a step goes, and the memory of a device: over the step where known."""
    memory = step.memory
    apart = {
        "update of the weights": step.update_s or 0.0,
        "exchange that is not hidden": step.exchange_s or 0.0,
        "waiting for the host link": step.offload_s or 0.0,
    }
    passes = (step.step_s or 0.0) - sum(apart.values())
    times = {"forward and backward": passes, **apart} if step.expected else {}
    sizes = {
        "parameters": memory.parameters_bytes,
        "gradients": memory.gradients_bytes,
        "optimizer states": memory.optimizer_bytes,
        "activations": memory.activations_bytes,
    }
    idle = "Forward and backward include the pipeline bubble." if step.bubble else ""
    bars = _parts("Memory of a device", "capacity", "bytes", sizes, "", memory.capacity_bytes)
    return (
        *_parts("Time of a step", "s", "expected", times, idle),
        *(timeline.training(step, options) or bars),
    )


def training_search(found: TrainingSearch, _options: Options) -> tuple[Picture, ...]:
    """Step time against memory of the plans that no other beats; the best are named."""
    if not found.best:
        return ()
    front = tuple((t.memory_bytes, t.step_s) for t in found.pareto)
    levels = found.best[0].seconds
    chart = Chart(
        title="Time against memory",
        about="Each dot is a plan; those on the line are beaten by no other in both.",
        x=Axis(title="memory of a device", unit="capacity"),
        y=Axis(title="expected time of a step", unit="s"),
        curves=(Curve(name="", points=tuple(sorted(front)), color=0),),
        mark=front[0] if front else None,
        dots=tuple(_plans(found)),
        notes=tuple(
            Note(at=(t.memory_bytes, t.step_s), text=str(t.plan.sharding)) for t in found.best
        ),
        legend=(
            Key(text="no other beats it", color=0),
            Key(text="best of its layout", color=1),
            Key(text="best", shape="star", color="star"),
        ),
    )
    return (chart, *_parts("Time of the best step", "s", "expected", levels, ""))


def _plans(found: TrainingSearch) -> Iterator[Dot]:
    for color, group, plans in (
        (0, "no other beats it", found.pareto),
        (1, "best of its layout", found.best),
    ):
        for trial in plans:
            yield Dot(
                at=(trial.memory_bytes, trial.step_s),
                color=color,
                size=0.2,
                group=group,
                about=_about(trial),
            )


def _about(trial: SearchedPlan) -> tuple[str, ...]:
    plan = trial.plan
    return (
        str(plan.sharding),
        f"ZeRO {plan.zero}, recompute {plan.recompute.replace(',', ' + ')}",
        format_capacity(trial.memory_bytes),
    )


def cache(found: CachePlan, _options: Options) -> tuple[Picture, ...]:
    """What the memory of a device holds."""
    sizes = {
        "weights": found.weights_bytes,
        "activations": found.activations_bytes,
        "cache, reserved": found.cache.allocated_bytes,
    }
    return _parts("Memory of a device", "capacity", "bytes", sizes, "", found.usable_bytes)


def split(plan: SplitPlan, _options: Options) -> tuple[Picture, ...]:
    """What the time to the first token is made of."""
    times = {
        "waiting for other prompts": plan.wait_s,
        "prefill": plan.ttft_s - plan.wait_s - plan.transfer_s,
        "transfer of keys and values": plan.transfer_s,
    }
    return _parts("Time to the first token", "s", "mean", times, "")


def _parts(
    title: str,
    unit: str,
    series: str,
    parts: dict[str, float],
    about: str,
    usable: float | None = None,
) -> tuple[Picture, ...]:
    """A bar a part, then the sum beside what there is room for; nothing where nothing is known."""
    whole = sum(parts.values())
    rows = [
        Bar(name=name, values=(value,), color="c0", note=format_percent(value / whole))
        for name, value in parts.items()
        if whole and value > _SMALL * whole
    ]
    if not rows:
        return ()
    rows.append(Bar(name="in all", values=(whole,), color="c5"))
    if usable is not None:
        rows.append(Bar(name="usable", values=(usable,), color="c2"))
    return drawn_bars(title, about, rows, unit=unit, series=(series,))
