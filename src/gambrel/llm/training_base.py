"""One layout of a training step, analyzed once, whose schedule and savings cost arithmetic alone.

The passes are analyzed with every class of op running again; each choice of recomputation is a
subset of these ops. ZeRO stages, microbatches, schedules and offloading change sums of what is
known then, so that a search looks at thousands of plans for each analysis.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from gambrel import roofline
from gambrel.analysis.analyze import analyze
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import Settings
from gambrel.device.model import Device
from gambrel.device.roofs import host_link
from gambrel.errors import DeviceError, InputError
from gambrel.llm.accounting import forward_flops
from gambrel.llm.attention_kernels import with_scores
from gambrel.llm.backward import unknown, with_backward
from gambrel.llm.collectives import busiest, place
from gambrel.llm.precision import Precisions
from gambrel.llm.recompute import CLASSES, choices
from gambrel.llm.sharded import build_rank, rank_of
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec
from gambrel.llm.step import prefill
from gambrel.llm.topology import Topology
from gambrel.llm.training_activations import (
    Intermediates,
    intermediates_of,
)
from gambrel.llm.training_end import crossings, end_of
from gambrel.llm.training_memory import TrainingMemory, memory_of, share
from gambrel.llm.training_plan import TrainingPlan
from gambrel.llm.training_time import (
    EAGER,
    GradientExchange,
    Parts,
    Stack,
    gradient_s,
    ops_of,
    parts_of,
    pass_s,
    stack_of,
    step_s,
)
from gambrel.workload import Workload

#: Tokens of a sequence at which head and layers are compared.
_SHORT: Final = 1024


class RecomputeChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What computing a class of ops again would change.

    Attributes:
        name: The class, or ``"full"``.
        freed_bytes: Of activations on a device; below 0 where one layer takes more.
        cost_s: Added to a step.
    """

    name: str
    freed_bytes: float
    cost_s: float


@dataclass(frozen=True, kw_only=True)
class TrainingBase:
    """A layout and a microbatch, analyzed.

    Attributes:
        placed: The device with the links of its node.
        node: The node.
        rank: The model of the busiest device.
        passes: Forward and backward of a microbatch, every class of op running again.
        written: What forward writes.
        update_s: Of the optimizer for each parameter.
        stack: Constants of tuned stacks.
        eager: Whether every op is a kernel of its own.
    """

    placed: Device
    node: Topology
    rank: ModelSpec
    passes: Analysis
    written: Intermediates
    update_s: float
    stack: Stack
    eager: bool
    _parts: dict[str, Parts] = field(default_factory=dict)

    def parts(self, plan: TrainingPlan) -> Parts:
        """What a microbatch consists of, and what the exchange and the update take."""
        split = plan.sharding.attention_tensor
        if plan.recompute not in self._parts:
            self._parts[plan.recompute] = parts_of(
                self.passes,
                self.rank,
                plan,
                gradient_s=0.0,
                update_s=0.0,
                eager=self.eager,
                ops=ops_of(self.passes, plan.recompute),
            )
        exchange = GradientExchange(
            passes=crossings(plan),
            replicas=plan.replicas,
            expert_replicas=plan.expert_replicas,
            tensor=split,
        )
        own = -(-self.written.own.count // (plan.replicas if plan.zero else 1))
        return msgspec.structs.replace(
            self._parts[plan.recompute],
            gradient_s=gradient_s(self.written.own, exchange, self.node, self.placed),
            update_s=own * self.update_s,
        )

    def step_s(self, plan: TrainingPlan) -> float:
        """Expected seconds of a step."""
        parts = self.parts(plan)
        whole = step_s(parts, self.stack, plan.microbatches, plan.idle)
        return whole + self.offload_s(plan, pass_s(parts, self.stack)[0])

    def memory(self, plan: TrainingPlan) -> TrainingMemory:
        """Bytes on a device."""
        return memory_of(plan, self.placed, self.written)

    def offload_s(self, plan: TrainingPlan, one_s: float) -> float:
        """Seconds of a step that the link to the host adds."""
        return offload_s(plan, self.placed, self.written, one_s)

    def chosen(self, plan: TrainingPlan) -> TrainingPlan:
        """The plan with recomputation decided: the least time that fits, else the least memory."""
        if plan.recompute != "auto":
            return plan
        plans = [self._with(plan, name) for name in choices(frozenset(self.written.freed))]
        fitting = [p for p in plans if self.memory(p).within(plan.utilization) is not False]
        if fitting:
            return min(fitting, key=self.step_s)
        return min(plans, key=lambda p: self.memory(p).total_bytes)

    def choices(self, plan: TrainingPlan) -> tuple[RecomputeChoice, ...]:
        """What each class would free and cost, beside keeping all."""
        none = self._with(plan, "none")
        seconds, nbytes = self.step_s(none), self.memory(none).total_bytes
        names = [name for name in CLASSES if name in self.written.freed] + ["full"]
        return tuple(
            RecomputeChoice(
                name=name,
                freed_bytes=nbytes - self.memory(other).total_bytes,
                cost_s=self.step_s(other) - seconds,
            )
            for name in names
            for other in [self._with(plan, name)]
        )

    @staticmethod
    def _with(plan: TrainingPlan, recompute: str) -> TrainingPlan:
        return msgspec.structs.replace(plan, recompute=recompute)


def offload_s(
    plan: TrainingPlan,
    device: Device,
    written: Intermediates,
    one_s: float,
) -> float:
    """Seconds of a step in which the device waits for the link to the host's memory.

    The optimizer: 16-bit gradients of what a device updates go out, 16-bit parameters come back,
    and neither is hidden. Activations: forward, a third of a pass, hides what goes out, backward
    what comes back.

    Raises:
        DeviceError: The link to the host is not known.
    """
    if plan.offload == "none":
        return 0.0
    link = host_link(device)
    rate = link.byte_per_s_per_direction if link else None
    if rate is None:
        raise DeviceError(
            f"offload={plan.offload}: the link of {device.id} to its host is unknown."
        )
    whole = 0.0
    if plan.offload in ("optimizer", "all"):
        whole += 2 * roofline.seconds(2.0 * share(plan, 1, written.own), rate)
    if plan.offload in ("activations", "all"):
        crossing = roofline.seconds(written.kept(plan.recompute)[0], rate)
        waits = max(0.0, crossing - one_s / 3) + max(0.0, crossing - 2 * one_s / 3)
        whole += waits * (plan.microbatches + plan.idle)
    return whole


def staged(spec: ModelSpec, sharding: Sharding) -> ModelSpec:
    """The model as the busiest stage of a pipeline sees it.

    Where stages do not divide the layers, the one with the head has fewer of them. It is still the
    slowest where the head has more arithmetic than a layer: then all have as few as it has.
    """
    left = spec.layer_count % sharding.pipeline
    if not left or not _head_leads(spec):
        return spec
    largest = max(spec.layers, key=lambda group: group.count)
    groups = (
        msgspec.structs.replace(group, count=group.count - left) if group is largest else group
        for group in spec.layers
    )
    return msgspec.structs.replace(spec, layers=tuple(groups))


def _head_leads(spec: ModelSpec) -> bool:
    """Whether the head has more arithmetic than a layer of the largest group, short contexts."""
    layer = max(spec.layers, key=lambda group: group.count)
    one, two = (
        forward_flops(
            msgspec.structs.replace(
                spec, layers=(msgspec.structs.replace(layer, count=n, distinct=None),)
            ),
            _SHORT,
        )
        for n in (1, 2)
    )
    return 2.0 * spec.hidden * spec.vocab > two - one


def forward_of(
    spec: ModelSpec, plan: TrainingPlan, formats: Precisions, node: Topology
) -> Workload:
    """Forward of a microbatch on the busiest device.

    Raises:
        InputError: A kind of layer whose gradients are not known here.
    """
    # The head sees the device's own tokens.
    outputs = plan.sequences * -(-plan.seq // plan.sharding.context)
    step = msgspec.structs.replace(
        prefill(plan.sequences, plan.seq), outputs=outputs, label="training"
    )
    forward = build_rank(staged(spec, plan.sharding), step, formats, plan.sharding, topology=node)
    missing = unknown(forward)
    if missing:
        raise InputError(f"{spec.name}: gradients of {', '.join(missing)} are not known here.")
    # Training stacks exchange rows before the experts: each device passes over its own.
    ops = (
        msgspec.structs.replace(op, attrs={**op.attrs, "own_rows": True})
        if op.kind == "grouped_matmul"
        else op
        for op in forward.ops
    )
    return msgspec.structs.replace(forward, ops=tuple(ops))


def written_of(forward: Workload, spec: ModelSpec, plan: TrainingPlan) -> Intermediates:
    """What a device keeps."""
    return intermediates_of(forward, plan.sharding.attention_tensor, spec.layer_count)


def as_run(forward: Workload, plan: TrainingPlan) -> Workload:
    """The forward pass in the kernels of the stack that runs it."""
    return with_scores(forward) if plan.tuning == "unfused" else forward


def base_of(
    spec: ModelSpec,
    device: Device,
    plan: TrainingPlan,
    formats: Precisions,
    node: Topology,
    settings: Settings,
) -> TrainingBase:
    """Analyzes a layout.

    Raises:
        DeviceError: No step of a device of this architecture was measured.
    """
    stack = stack_of(device)
    if stack is None:
        raise DeviceError(
            f"{device.id}: no training step was measured on it or its like; known are devices of "
            "Ampere, Hopper and Blackwell for data centres."
        )
    settings = replace(settings, precision=None, sizes=None)
    placed = node.place(device, plan.sharding.devices, busiest(plan.sharding))
    forward = forward_of(spec, plan, formats, node)
    passes = analyze(with_backward(forward, recompute=",".join(CLASSES)), placed, settings)
    alone = msgspec.structs.replace(plan, zero=0)
    elements = passes.model.parameters
    end = analyze(place(end_of(spec, elements, alone), plan.sharding, node), placed, settings)
    update = next(g.measures for g in end.by_kind if g.name == "optimizer")
    return TrainingBase(
        placed=placed,
        node=node,
        rank=rank_of(staged(spec, plan.sharding), plan.sharding),
        passes=passes,
        written=written_of(forward, spec, plan),
        update_s=(update.roofline_time_s or 0.0) / elements,
        stack=stack,
        eager=settings.runtime in EAGER,
    )
