"""Memory of a training step by device: parameters, gradients, optimizer states, activations.

Of a pipeline the first stage has the embedding and the most microbatches in flight, the last one
the head and the loss; the fuller of the two counts. A step is fullest at the loss, where logits and
the gradient of the head are there, or where backward of the last layer begins.

Gradients are added in fp32 (Megatron-LM's ``--accumulate-allreduce-grads-in-fp32``, PyTorch's FSDP
with fp32 parameters); each product writes its own in 16 bits before. Divided parameters (ZeRO 3)
are gathered layer by layer, one ahead, and the look-up and the head once; with stages they stay
gathered and gradients whole through the step (PyTorch's pipelines of FSDP, torchtitan).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.llm.training_activations import Intermediates, Parameters
from gambrel.llm.training_plan import TrainingPlan

#: Bytes of optimizer state per parameter: fp32 master weight and two fp32 moments.
_ADAM_BYTES: Final = 12
#: Of a parameter or gradient as products have it, and of a sum of gradients.
_WORD, _SUM = 2, 4
#: Bytes of a logit that are there at once. Fused: itself and its gradient in 16 bits. Else besides
#: itself an fp32 copy, its log-probability and their gradient, and where devices share the
#: vocabulary two more in fp32 (shifted and exponential, torch.distributed's loss_parallel).
_FUSED_LOSS: Final = 4
_WHOLE_LOSS: Final = 2 + 3 * 4
_SHARED_LOSS: Final = _WHOLE_LOSS + 2 * 4
#: Layers of divided parameters that are there at once: the one that runs and the next.
_GATHERED: Final = 2


class TrainingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on one device where a step is fullest; None in ``capacity_bytes`` where unknown.

    Attributes:
        parameters_bytes: In 16 bits; of divided ones those that are gathered.
        gradients_bytes: Their sums in fp32, and those in 16 bits on their way.
        optimizer_bytes: Master weights and both moments.
        activations_bytes: What backward reads, what runs again, logits.
        capacity_bytes: Of the device.
        stage: Of a pipeline, counted from 0.
        moment: ``"loss"`` or ``"backward"``.
        layers: Of the stage.
        in_flight: Microbatches whose activations the stage keeps.
    """

    parameters_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    capacity_bytes: int | None
    stage: int = 0
    moment: str = "backward"
    layers: int = 0
    in_flight: float = 1.0

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
        return self.within(1.0)

    def within(self, share: float) -> bool | None:
        """Whether it takes no more than a share of the memory; None when that is unknown."""
        known = self.capacity_bytes
        return None if known is None else self.total_bytes <= share * known


def memory_of(plan: TrainingPlan, device: Device, written: Intermediates) -> TrainingMemory:
    """Bytes on the fullest device.

    Args:
        plan: How the model is trained.
        device: The device.
        written: What one microbatch writes in forward on the busiest device.
    """
    stages = plan.sharding.pipeline
    ends = {stage: moments(plan, device, written, stage) for stage in {0, stages - 1}}
    return fullest(m for stage in sorted(ends) for m in ends[stage])


def fullest(found: Iterable[TrainingMemory]) -> TrainingMemory:
    """The moment with most memory."""
    return max(found, key=lambda m: m.total_bytes)


def moments(
    plan: TrainingPlan, device: Device, written: Intermediates, stage: int
) -> tuple[TrainingMemory, ...]:
    """Memory of a stage where it may be fullest: at the start of backward, and at the loss."""
    level = main_memory(device)
    held = written.own.of_stage(stage, plan.sharding.pipeline)
    base = TrainingMemory(
        parameters_bytes=parameters_bytes(plan, held),
        gradients_bytes=sums_bytes(plan, held),
        optimizer_bytes=optimizer_bytes(plan, held),
        activations_bytes=0.0,
        capacity_bytes=level.capacity_bytes if level else None,
        stage=stage,
        layers=held.layers,
        in_flight=in_flight(plan, stage),
    )
    kept, once = activations(plan, written, stage)
    ends = held.head + held.embedding if plan.zero == 3 else 0.0
    # Divided gradients are copied to fp32 on their way to where they are added.
    passing = (_WORD + (_SUM if plan.zero == 3 else 0)) * held.layer + _WORD * ends
    backward = msgspec.structs.replace(
        base,
        gradients_bytes=base.gradients_bytes + passing,
        activations_bytes=kept + once + written.passing_bytes,
    )
    if stage != plan.sharding.pipeline - 1:
        return (backward,)
    logits = written.logits * bytes_per_logit(plan, written)
    loss = msgspec.structs.replace(
        base,
        gradients_bytes=base.gradients_bytes + _WORD * max(held.head, held.embedding),
        activations_bytes=kept + logits,
        moment="loss",
    )
    return (backward, loss)


def bytes_per_logit(plan: TrainingPlan, written: Intermediates) -> int:
    """Of one logit, with what the loss makes of it."""
    if plan.fused_loss:
        return _FUSED_LOSS
    return _SHARED_LOSS if written.shared else _WHOLE_LOSS


def parameters_bytes(plan: TrainingPlan, own: Parameters) -> float:
    """Parameters in 16 bits: all, or those that are gathered at once."""
    if plan.zero < 3 or plan.replicas == 1 or plan.sharding.pipeline > 1:
        return _WORD * own.count
    return _WORD * min(own.count, own.embedding + own.head + _GATHERED * own.layer)


def sums_bytes(plan: TrainingPlan, own: Parameters) -> float:
    """Sums of gradients in fp32: of all parameters, or of the share of a replica."""
    whole = plan.zero == 3 and plan.sharding.pipeline > 1
    return _SUM * (own.count if whole else share(plan, 2, own))


def optimizer_bytes(plan: TrainingPlan, own: Parameters) -> float:
    """States of the optimizer on the device."""
    if plan.offload in ("optimizer", "all"):
        return 0.0
    return _ADAM_BYTES * share(plan, 1, own)


def share(plan: TrainingPlan, stage: int, own: Parameters) -> float:
    """Parameters of a device whose share it keeps from a stage of ZeRO on."""
    if plan.zero < stage:
        return own.count
    return own.dense / plan.replicas + own.experts / plan.expert_replicas


def in_flight(plan: TrainingPlan, stage: int) -> float:
    """Microbatches whose activations a stage keeps, at most.

    1F1B: one for each stage from here on. Interleaved, a stage starts ahead by two for each stage
    behind it and by a round for each piece but the last, in pieces of 1 / v (Narayanan et al.,
    2021). Without a bubble, weight gradients that are put off keep theirs as well (Qi et al.,
    2023): as many as the first stage.
    """
    stages, pieces = plan.sharding.pipeline, plan.virtual
    if plan.schedule == "zero-bubble":
        return min(stages, plan.microbatches)
    behind = stages - stage - 1
    if pieces == 1:
        return min(behind + 1, plan.microbatches)
    ahead = 2 * behind + (pieces - 1) * stages + 1
    return min(ahead / pieces, plan.microbatches)


def activations(plan: TrainingPlan, written: Intermediates, stage: int) -> tuple[float, float]:
    """Bytes that backward needs of the microbatches in flight, and once besides.

    In the host's memory lie those of all layers but two: the one that runs and the one that
    crosses the link.
    """
    each, once = written.kept(plan.recompute)
    own = written.own
    layers = own.of_stage(stage, plan.sharding.pipeline).layers
    flying = each * in_flight(plan, stage) * layers / own.layers
    if plan.offload in ("activations", "all"):
        flying = min(flying, 2 * written.layer_bytes)
    return flying, once
