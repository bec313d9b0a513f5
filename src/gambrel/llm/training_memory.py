"""Memory of a training step on one device: parameters, gradients, optimizer states, activations."""

from __future__ import annotations

from typing import Final

import msgspec

from gambrel.analysis.evaluate import Evaluator
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.dtypes import width_bytes
from gambrel.llm.training_plan import TrainingPlan
from gambrel.ops import Conventions
from gambrel.workload import Role, Workload

#: Bytes of optimizer state per parameter: fp32 master weight and two fp32 moments.
_ADAM_BYTES: Final = 12


class TrainingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on one device; None in ``capacity_bytes`` where unknown."""

    parameters_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    capacity_bytes: int | None

    @property
    def total_bytes(self) -> float:
        """Sum of the parts."""
        return (
            self.parameters_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
        )

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None when the capacity is unknown."""
        return None if self.capacity_bytes is None else self.total_bytes <= self.capacity_bytes


def memory_of(
    plan: TrainingPlan, device: Device, forward: Workload, dense: float, experts: float
) -> TrainingMemory:
    """Bytes on the busiest device.

    Args:
        plan: How the model is trained.
        device: The device.
        forward: Its forward pass of one microbatch.
        dense: Parameters on it that are not experts'.
        experts: Those of its experts.
    """
    level = main_memory(device)

    def held(stage: int) -> float:
        """Parameters whose share a device keeps from a stage of ZeRO on."""
        if plan.zero < stage:
            return dense + experts
        return dense / plan.replicas + experts / plan.expert_replicas

    return TrainingMemory(
        parameters_bytes=2 * held(3),
        gradients_bytes=2 * held(2),
        optimizer_bytes=_ADAM_BYTES * held(1),
        activations_bytes=_activations(plan, forward),
        capacity_bytes=level.capacity_bytes if level else None,
    )


def _activations(plan: TrainingPlan, forward: Workload) -> float:
    """What backward needs of the microbatches in flight: one a stage, at most (1F1B).

    Every intermediate of every layer; with recomputation the stream between layers and the
    intermediates of one layer.
    """
    evaluator = Evaluator(forward, {}, {}, Conventions())
    seen: set[int] = set()
    kept = layer = 0.0
    layers = 1
    for op in forward.ops:
        for index in op.outputs:
            t = forward.tensors[index]
            if t.storage in seen or t.role is not Role.ACTIVATION:
                continue
            seen.add(t.storage)
            nbytes = float(evaluator.tensor(index).elements) * width_bytes(t.dtype)
            kept += op.repeat * nbytes
            layer += nbytes
            layers = max(layers, op.repeat)
    # Interleaved stages start ahead by (p - 1) / (p v) of their own (Narayanan et al., 2021).
    stages = plan.sharding.pipeline
    ahead = (stages - 1) / plan.virtual if plan.virtual > 1 else 0.0
    flying = min(stages + ahead, plan.microbatches)
    if plan.recompute == "none":
        return kept * flying
    return sum(_stream(forward, evaluator)) * flying + layer


def _stream(forward: Workload, evaluator: Evaluator) -> list[float]:
    """Bytes of the residual stream in front of each layer."""
    first = next(op for op in forward.ops if op.kind == "embedding")
    nbytes = float(evaluator.tensor(first.outputs[0]).nbytes)
    groups = {op.module.split(".*", 1)[0]: op.repeat for op in forward.ops if ".*" in op.module}
    return [nbytes * count for count in groups.values()]
