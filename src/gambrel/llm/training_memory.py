"""Memory of a training step on one device: parameters, gradients, optimizer states, activations."""

from __future__ import annotations

from typing import Final

import msgspec

from gambrel.analysis.evaluate import Evaluator
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.dtypes import width_bytes
from gambrel.llm.recompute import class_of, classes_of
from gambrel.llm.training_plan import TrainingPlan
from gambrel.ops import Conventions
from gambrel.workload import Role, Workload

#: Bytes of optimizer state per parameter: fp32 master weight and two fp32 moments.
_ADAM_BYTES: Final = 12
#: Products whose results are added to the stream: a sum's gradient needs neither of its terms.
_INTO_STREAM: Final = ("o_proj", "down_proj", "out_proj")


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


class Intermediates(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that one microbatch writes in forward on a device, and that backward reads.

    Attributes:
        all_bytes: Of all layers.
        layer_bytes: Of one layer of each kind.
        stream_bytes: Of the residual stream in front of each layer.
        freed: Class of ops → bytes that only it writes: in all layers, in one.
    """

    all_bytes: float
    layer_bytes: float
    stream_bytes: float
    freed: dict[str, tuple[float, float]]

    def kept(self, recompute: str) -> tuple[float, float]:
        """Bytes until backward has used them: of each microbatch in flight, and once besides."""
        if recompute == "full":
            return self.stream_bytes, self.layer_bytes
        freed = [self.freed[name] for name in classes_of(recompute) if name in self.freed]
        return self.all_bytes - sum(f for f, _ in freed), sum(f for _, f in freed)


def intermediates_of(forward: Workload, tensor: int = 1) -> Intermediates:
    """What a forward pass writes for backward, by class of op.

    Args:
        forward: The pass on one device.
        tensor: Devices that share each layer; they share the positions of the stream and of its
            norms, too (sequence parallelism: Korthikanti et al., 2022).
    """
    evaluator = Evaluator(forward, {}, {}, Conventions())
    seen: set[int] = set()
    kept = layer = 0.0
    freed: dict[str, tuple[float, float]] = {}
    for op in forward.ops:
        name = class_of(op.kind, op.module, op.name)
        for index in op.outputs:
            t = forward.tensors[index]
            if t.storage in seen or t.role is not Role.ACTIVATION:
                continue
            seen.add(t.storage)
            if op.kind == "matmul" and op.module.endswith(_INTO_STREAM):
                continue
            nbytes = float(evaluator.tensor(index).elements) * width_bytes(t.dtype)
            if op.kind in ("embedding", "normalization") or op.name == "add":
                nbytes /= tensor
            kept += op.repeat * nbytes
            layer += nbytes
            # A norm that adds also writes the stream, which is kept.
            whole = op.kind != "normalization" or index == op.outputs[-1]
            if name and op.repeat > 1 and whole:
                all_layers, one = freed.get(name, (0.0, 0.0))
                freed[name] = (all_layers + op.repeat * nbytes, one + nbytes)
    return Intermediates(
        all_bytes=kept,
        layer_bytes=layer,
        stream_bytes=sum(_stream(forward, evaluator)) / tensor,
        freed=freed,
    )


def memory_of(
    plan: TrainingPlan, device: Device, written: Intermediates, dense: float, experts: float
) -> TrainingMemory:
    """Bytes on the busiest device.

    Args:
        plan: How the model is trained.
        device: The device.
        written: What one microbatch writes in forward.
        dense: Parameters on it that are not experts'.
        experts: Those of its experts.
    """
    level = main_memory(device)
    states = 0.0 if plan.offload in ("optimizer", "all") else _ADAM_BYTES
    return TrainingMemory(
        parameters_bytes=2 * held(plan, 3, dense, experts),
        gradients_bytes=2 * held(plan, 2, dense, experts),
        optimizer_bytes=states * held(plan, 1, dense, experts),
        activations_bytes=_activations(plan, written),
        capacity_bytes=level.capacity_bytes if level else None,
    )


def held(plan: TrainingPlan, stage: int, dense: float, experts: float) -> float:
    """Parameters of a device whose share it keeps from a stage of ZeRO on."""
    if plan.zero < stage:
        return dense + experts
    return dense / plan.replicas + experts / plan.expert_replicas


def _activations(plan: TrainingPlan, written: Intermediates) -> float:
    """What backward needs of the microbatches in flight: one a stage, at most (1F1B).

    Every intermediate of every layer; what runs again is there for one layer. In the host's memory
    lie those of all layers but two: the one that runs and the one that crosses the link.
    """
    # Interleaved stages start ahead by (p - 1) / (p v) of their own (Narayanan et al., 2021).
    stages = plan.sharding.pipeline
    ahead = (stages - 1) / plan.virtual if plan.virtual > 1 else 0.0
    flying = min(stages + ahead, plan.microbatches)
    each, once = written.kept(plan.recompute)
    if plan.offload in ("activations", "all"):
        return min(each * flying, 2 * written.layer_bytes) + once
    return each * flying + once


def _stream(forward: Workload, evaluator: Evaluator) -> list[float]:
    """Bytes of the residual stream in front of each layer."""
    first = next(op for op in forward.ops if op.kind == "embedding")
    nbytes = float(evaluator.tensor(first.outputs[0]).nbytes)
    groups = {op.module.split(".*", 1)[0]: op.repeat for op in forward.ops if ".*" in op.module}
    return [nbytes * count for count in groups.values()]
