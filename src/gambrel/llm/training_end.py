"""The end of a training step: what replicas exchange, and the update of the optimizer."""

from __future__ import annotations

from gambrel.llm.spec import ModelSpec
from gambrel.llm.training_plan import TrainingPlan
from gambrel.workload import Op, Phase, Role, Tensor, Workload


def end_of(spec: ModelSpec, elements: int, plan: TrainingPlan) -> Workload:
    """Exchange of gradients (and parameters) between replicas, and the update."""
    replicas = plan.replicas
    own = -(-elements // replicas) if plan.zero else elements
    tensors = [
        Tensor(shape=(elements,), dtype="bf16", storage=0, role=Role.GRADIENT),
        Tensor(shape=(own,), dtype="fp32", storage=1, role=Role.WEIGHT, name="master"),
        Tensor(shape=(own,), dtype="bf16", storage=2, role=Role.GRADIENT),
        Tensor(shape=(own,), dtype="fp32", storage=3, role=Role.OPTIMIZER_STATE),
        Tensor(shape=(own,), dtype="fp32", storage=4, role=Role.OPTIMIZER_STATE),
        Tensor(shape=(own,), dtype="bf16", storage=5, role=Role.OUTPUT),
    ]
    ops = [
        Op(
            kind="collective",
            inputs=(0,),
            outputs=(0,),
            sizes={"payload_bytes": 2 * elements, "devices": replicas},
            attrs={"function": function, "axis": "gradient"},
            name=f"{function} {what}",
            module="exchange",
            phase=Phase.BACKWARD,
            repeat=count,
        )
        for function, what, count in exchanges(plan)
        if replicas > 1
    ]
    update = Op(
        kind="optimizer",
        inputs=(1, 2, 3, 4),
        outputs=(1, 3, 4, 5),
        sizes={"elements": own},
        attrs={"function": "adamw"},
        name="adamw",
        module="optimizer",
        phase=Phase.OPTIMIZER,
    )
    return Workload(
        name=spec.name, dtype="bf16", tensors=tuple(tensors), ops=(*ops, update), training=True
    )


def exchanges(plan: TrainingPlan) -> tuple[tuple[str, str, int], ...]:
    """(function, what, how often a step) between replicas.

    Divided gradients are added where they are kept; updated parameters are gathered. Divided
    parameters are gathered for every forward and backward pass instead; with stages once a step,
    through which they stay.
    """
    if plan.zero == 0:
        return (("all_reduce", "gradients", 1),)
    if plan.zero in (1, 2):
        # Stage 2 keeps no whole gradient between microbatches, so it adds after each of them.
        times = plan.microbatches if plan.zero == 2 else 1
        return (("reduce_scatter", "gradients", times), ("all_gather", "parameters", 1))
    if plan.sharding.pipeline > 1:
        return (("reduce_scatter", "gradients", 1), ("all_gather", "parameters", 1))
    return (
        ("reduce_scatter", "gradients", plan.microbatches),
        ("all_gather", "parameters", 2 * plan.microbatches),
    )


def crossings(plan: TrainingPlan) -> int:
    """Times that all parameters cross between replicas in a step; an all-reduce is two."""
    return sum((2 if f == "all_reduce" else 1) * count for f, _, count in exchanges(plan))
