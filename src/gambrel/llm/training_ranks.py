"""Memory of a training step by rank: each stage of a pipeline, and one of them over the step."""

from __future__ import annotations

from collections.abc import Iterator

from gambrel.analysis.timeline import MemoryPoint, Timeline
from gambrel.device.model import Device
from gambrel.llm.training_activations import Intermediates
from gambrel.llm.training_memory import (
    TrainingMemory,
    activations,
    bytes_per_logit,
    fullest,
    moments,
    sums_bytes,
)
from gambrel.llm.training_plan import TrainingPlan

#: Pairs of passes in which a stage keeps as much all the time that are shown, from either end.
_PAIRS = 4
#: Points of a timeline, about; a pass has as many as its layers, at most.
_POINTS = 160


def ranks_of(
    plan: TrainingPlan, device: Device, written: Intermediates
) -> tuple[TrainingMemory, ...]:
    """Each stage where it is fullest; all devices of a stage are alike."""
    stages = range(plan.sharding.pipeline)
    return tuple(fullest(moments(plan, device, written, stage)) for stage in stages)


def timeline_of(plan: TrainingPlan, device: Device, written: Intermediates, stage: int) -> Timeline:
    """Memory of a device of a stage over a step: passes of its microbatches, then the update.

    A stage runs ahead until it keeps as many microbatches as it may, then a pass forward and one
    backward take turns. Of many equal turns the first and the last are shown.
    """
    found = moments(plan, device, written, stage)
    each, once = activations(plan, written, stage)
    chunk = each / (found[0].in_flight * plan.virtual)
    sums = sums_bytes(plan, written.own.of_stage(stage, plan.sharding.pipeline))
    logits = written.logits * bytes_per_logit(plan, written)
    walk = _Walk(found, sums, chunk, once + written.passing_bytes, logits)
    order = list(_order(plan, found[0].in_flight))
    steps = max(1, min(found[0].layers // plan.virtual, _POINTS // len(order)))
    alone = plan.microbatches * plan.virtual == 1
    points: list[MemoryPoint] = []
    for phase, forward, piece in order:
        name = f"{'forward' if forward else 'backward'} of microbatch {piece // plan.virtual + 1}"
        shown = phase if not alone else "forward" if forward else "backward"
        ends = forward and piece % plan.virtual == plan.virtual - 1
        points += (
            walk.forward(name, shown, steps, ends) if forward else walk.back(name, shown, steps)
        )
    points.append(walk.at("optimizer", "optimizer", 0.0))
    peak = max(range(len(points)), key=lambda i: points[i].total_bytes)
    return Timeline(
        points=tuple(points),
        peak_index=peak,
        at_peak=(),
        capacity_bytes=found[0].capacity_bytes,
    )


def _order(plan: TrainingPlan, in_flight: float) -> Iterator[tuple[str, bool, int]]:
    """Phase, whether forward, and piece of a microbatch, in the order of the schedule."""
    pieces = plan.microbatches * plan.virtual
    ahead = min(round(in_flight * plan.virtual) - 1, pieces - 1)
    yield from (("warm-up", True, i) for i in range(ahead))
    turns = pieces - ahead
    for i in range(turns):
        if _PAIRS <= i < turns - _PAIRS:
            continue
        yield "steady", True, ahead + i
        yield "steady", False, i
    yield from (("cool-down", False, turns + i) for i in range(ahead))


class _Walk:
    """What is live while passes follow one another.

    Args:
        found: The stage where it may be fullest: in backward, and at the loss if it has one.
        sums: Bytes of the sums of gradients.
        chunk: Bytes that a piece of a microbatch leaves for backward.
        momentary: Bytes of activations that backward needs besides.
        logits: Bytes of activations that the loss needs besides.
    """

    def __init__(
        self,
        found: tuple[TrainingMemory, ...],
        sums: float,
        chunk: float,
        momentary: float,
        logits: float,
    ) -> None:
        self.backward, *self.loss = found
        self.sums, self.chunk, self.live = sums, chunk, 0.0
        self.momentary, self.logits = momentary, logits

    def forward(self, name: str, phase: str, steps: int, ends: bool) -> Iterator[MemoryPoint]:
        """A piece forward, and the loss behind the last one."""
        for i in range(1, steps + 1):
            yield self.at(name, phase, (self.live + i / steps) * self.chunk)
        self.live += 1
        for loss in self.loss if ends else ():
            live = self.live * self.chunk + self.logits
            yield self.at(f"{name}, loss", phase, live, loss.gradients_bytes)

    def back(self, name: str, phase: str, steps: int) -> Iterator[MemoryPoint]:
        """A piece backward."""
        for i in range(steps):
            live = (self.live - i / steps) * self.chunk + self.momentary
            yield self.at(name, phase, live, self.backward.gradients_bytes)
        self.live -= 1

    def at(self, name: str, phase: str, live: float, gradients: float | None = None) -> MemoryPoint:
        """A point with so many bytes of activations."""
        m = self.backward
        return MemoryPoint(
            op=name,
            phase=phase,
            weights_bytes=round(m.parameters_bytes),
            activations_bytes=round(live),
            kv_cache_bytes=0,
            gradients_bytes=round(self.sums if gradients is None else gradients),
            optimizer_bytes=round(m.optimizer_bytes),
            workspace_bytes=0,
        )
