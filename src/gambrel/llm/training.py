"""A training step of a language model: time, MFU, memory, traffic of gradients, by layout.

A step is ``microbatches`` forward and backward passes of one device's share, the exchange of
gradients, and the update. The optimizer's states, gradients and parameters are kept by every
data-parallel device (stage 0) or divided among them: states (1), gradients too (2), parameters too
(3) (Rajbhandari et al., "ZeRO", 2020).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import msgspec

from gambrel import roofline
from gambrel.analysis.analyze import analyze
from gambrel.analysis.measures import Bound, Estimate
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import Settings
from gambrel.analysis.sol import Sol
from gambrel.analysis.timeline import Timeline
from gambrel.analysis.workbench import speed_of_light
from gambrel.device.model import Device
from gambrel.errors import DeviceError, InputError
from gambrel.llm.accounting import forward_flops, repeated
from gambrel.llm.backward import kept_scores, with_backward
from gambrel.llm.collectives import assumptions, busiest, place
from gambrel.llm.precision import Precisions
from gambrel.llm.sharded import rank_of
from gambrel.llm.spec import ModelSpec
from gambrel.llm.topology import Topology, topology_for
from gambrel.llm.training_activations import Intermediates
from gambrel.llm.training_assumptions import assumed
from gambrel.llm.training_base import (
    RecomputeChoice,
    as_run,
    base_of,
    forward_of,
    staged,
    written_of,
)
from gambrel.llm.training_end import crossings, end_of
from gambrel.llm.training_expected import expected_of
from gambrel.llm.training_memory import TrainingMemory, fullest
from gambrel.llm.training_plan import TrainingPlan
from gambrel.llm.training_ranks import ranks_of, timeline_of
from gambrel.llm.training_run import TrainingRun, run_of
from gambrel.llm.training_time import (
    EAGER,
    GradientExchange,
    Parts,
    gradient_s,
    parts_of,
    stack_of,
)
from gambrel.views import Viewed
from gambrel.workload import Role, Workload

_replace = msgspec.structs.replace


class TrainingStep(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """What a training step takes.

    Attributes:
        expected: Seconds of a step, with range; never more certain than *medium*, since no
            training step was measured. None where neither steps nor kernels were, and then
            whatever rests on it is None as well.
        sol_step_s: Speed of light of the busiest device: forward, backward and update, nothing
            recomputed, weights once per update, no bubble. No run is faster; None where no roof is
            known.
        roofline_step_s: By the roofline, kernel by kernel, without the bubble.
        bound: The roofline's verdict: what is busy longest; None where a roof is unknown.
        limited_by: What takes the largest share of the expected time: ``compute``, ``memory``,
            ``network``, ``launches`` or ``host``.
        bubble: Share of the step that stages wait.
        exchange_s: Exchange of gradients and parameters that is not hidden.
        update_s: The optimizer.
        offload_s: Waiting for the link to the host's memory.
        recompute: What is computed again, as decided.
        choices: What recomputing each class of ops would free and cost; empty where no step of such
            a device was measured.
        tokens_per_s_per_device: Over the expected time.
        model_flops: Of one token over the whole model, forward and backward, nothing recomputed.
        mfu: Model FLOPs over time and peak; all devices, so that stages with little to do count.
        hfu: The same with what ``recompute`` runs again; ``mfu`` where that is nothing. The scores
            that the backward kernel of attention forms once more are no choice of the recipe and
            count in neither (as in PaLM, appendix B: rematerialization alone tells them apart).
        memory: Of the fullest device, where a step is fullest.
        ranks: The same of each stage of a pipeline.
        timeline: Memory of the fullest device over a step.
        passes: The analysis of forward and backward of one microbatch on one device.
        end: That of the exchange and the update; None for inference-like plans without either.
        parts: The step in the parts of tuned stacks; None where none was measured.
        assumptions: One sentence each.
        run: The whole run; None where its tokens were not asked for.
    """

    expected: Estimate | None
    sol_step_s: float | None
    roofline_step_s: float
    bound: Bound | None
    limited_by: str | None
    bubble: float
    exchange_s: float | None
    update_s: float | None
    tokens_per_s_per_device: float | None
    model_flops: float
    mfu: float | None
    hfu: float | None
    memory: TrainingMemory
    passes: Analysis
    end: Analysis
    ranks: tuple[TrainingMemory, ...] = ()
    timeline: Timeline | None = None
    parts: Parts | None = None
    offload_s: float | None = 0.0
    recompute: str = "none"
    choices: tuple[RecomputeChoice, ...] = ()
    assumptions: tuple[str, ...] = ()
    run: TrainingRun | None = None

    @property
    def step_s(self) -> float | None:
        """Expected seconds of a step."""
        return self.expected.value if self.expected else None

    @property
    def confidence_reason(self) -> str:
        """What the expected time rests on, or why there is none."""
        without = (a for a in (self.passes, self.end) if a.expected_time_s is None)
        if self.expected is not None:
            return self.expected.reason
        return next((a.confidence_reason for a in without), "")

    def over(self, tokens: float | None, devices: int) -> TrainingStep:
        """The step with the run of so many tokens on all devices; itself without any tokens."""
        expected, rate = self.expected, self.tokens_per_s_per_device
        if tokens is None:
            return self
        if expected is None or rate is None:
            said = "the run takes as many steps, of which no time is expected."
            return _replace(self, assumptions=(*self.assumptions, said))
        per_step = rate * expected.value * devices
        run = run_of(tokens, per_step, devices, (expected.value, expected.low, expected.high))
        return _replace(self, run=run)


def train(
    spec: ModelSpec,
    device: Device,
    plan: TrainingPlan,
    *,
    precisions: Precisions | None = None,
    topology: str | Topology | None = None,
    settings: Settings | None = None,
) -> TrainingStep:
    """Predicts a training step.

    Args:
        spec: The model.
        device: The device.
        plan: Layout, batch, what is kept.
        precisions: Number formats of weights and activations; None is bf16.
        topology: Node and network; None is the usual node of the device.
        settings: Runtime, calibration and the rest; a runtime of None takes the device's default.

    Raises:
        InputError: A layout that the model cannot have, or a kind of layer whose gradients are not
            known here.
        DeviceError: A network that is needed and not known, or a device whose roofs for this work
            are unknown.
    """
    plan.check(spec)
    formats = precisions or Precisions.parse("bf16")
    node = topology_for(device, topology)
    placed = node.place(device, plan.sharding.devices, busiest(plan.sharding))
    least = forward_of(spec, plan, formats, node)
    forward = as_run(least, plan)
    settings = replace(settings or Settings(), precision=None, sizes=None)
    written = written_of(forward, spec, plan)
    plan, choices = _decided(spec, device, plan, formats, node, settings)
    both = with_backward(forward, recompute=plan.recompute)
    passes = analyze(both, placed, settings)
    elements = passes.model.parameters
    last = place(end_of(spec, elements, plan), plan.sharding, node)
    end = analyze(last, placed, settings)
    ranks = ranks_of(plan, device, written)
    found = _summary(
        plan,
        passes,
        end,
        _tuned(spec, plan, passes, end, written, node, settings),
        speed_of_light(_least_step(with_backward(least), last, plan), placed, settings),
        fullest(ranks),
        assumptions(plan.sharding, node),
        written,
        (3.0 * forward_flops(spec, plan.seq), repeated(least, plan.recompute)),
    )
    return _replace(
        found,
        assumptions=(*found.assumptions, *assumed(plan, found.parts, spec.layer_count)),
        choices=choices,
        ranks=ranks,
        timeline=timeline_of(plan, device, written, found.memory.stage),
    )


def _decided(
    spec: ModelSpec,
    device: Device,
    plan: TrainingPlan,
    formats: Precisions,
    node: Topology,
    settings: Settings,
) -> tuple[TrainingPlan, tuple[RecomputeChoice, ...]]:
    """The plan with what is recomputed decided, and what each choice would free and cost.

    Raises:
        InputError: It is to be decided on a device of whose like no step was measured.
    """
    if stack_of(device) is not None and plan.tuning == "tuned":
        base = base_of(spec, device, plan, formats, node, settings)
        plan = base.chosen(plan)
        return plan, base.choices(plan)
    if plan.recompute == "auto":
        raise InputError(
            f"recompute=auto: no training step was measured on {device.id} or its like, so that "
            "the cost of recomputing is not known; name classes, e.g. norms,activations."
        )
    return plan, ()


def _least_step(passes: Workload, end: Workload, plan: TrainingPlan) -> Workload:
    """What no way to run a step avoids, as one workload: all microbatches, exchange, update.

    Weights are read once, gradients pass from kernel to kernel, each is exchanged once, and the
    scores of attention are not computed again in backward.
    """
    first, storage = len(passes.tensors), 1 + max(t.storage for t in passes.tensors)
    moved = [_replace(t, storage=t.storage + storage) for t in end.tensors]
    tensors = [
        _replace(t, role=Role.ACTIVATION) if t.role is Role.GRADIENT else t
        for t in (*passes.tensors, *moved)
    ]
    ops = [_replace(op, repeat=op.repeat * plan.microbatches) for op in kept_scores(passes).ops]
    last = [
        _replace(
            op,
            inputs=tuple(i + first for i in op.inputs),
            outputs=tuple(i + first for i in op.outputs),
            repeat=1,
        )
        for op in end.ops
    ]
    return _replace(passes, tensors=tuple(tensors), ops=(*ops, *last), outputs=())


def _tuned(
    spec: ModelSpec,
    plan: TrainingPlan,
    passes: Analysis,
    end: Analysis,
    written: Intermediates,
    node: Topology,
    settings: Settings,
) -> Parts | None:
    """The step in the parts of tuned stacks; None where none was measured on such a device."""
    if stack_of(passes.hardware) is None:
        return None
    crossing = GradientExchange(
        passes=crossings(plan),
        replicas=plan.replicas,
        expert_replicas=plan.expert_replicas,
        tensor=plan.sharding.attention_tensor,
    )
    update = next(g.measures for g in end.by_kind if g.name == "optimizer")
    return parts_of(
        passes,
        rank_of(staged(spec, plan.sharding), plan.sharding),
        plan,
        gradient_s=gradient_s(written.own, crossing, node, passes.hardware),
        update_s=update.roofline_time_s or 0.0,
        eager=settings.runtime in EAGER,
    )


def _summary(
    plan: TrainingPlan,
    passes: Analysis,
    end: Analysis,
    parts: Parts | None,
    sol: Sol,
    memory: TrainingMemory,
    remarks: tuple[str, ...],
    written: Intermediates,
    flops: tuple[float, float],
) -> TrainingStep:
    """The record; ``flops`` are those of a token in the whole model, and HFU over MFU."""
    for analysis in (passes, end):
        _check_known(analysis)
    times = expected_of(plan, passes, end, parts, sol, written)
    step = times.expected.value if times.expected else None
    tokens = plan.tokens / plan.sharding.devices
    per_token, repeated = flops
    peak = passes.total.peak_flop_per_s
    mfu = roofline.ratio(per_token * tokens, step * peak) if step and peak else None
    return TrainingStep(
        expected=times.expected,
        sol_step_s=sol.time_s,
        roofline_step_s=plan.microbatches * (passes.roofline_time_s or 0.0)
        + (end.roofline_time_s or 0.0),
        bound=_bound(plan.microbatches, passes, end),
        limited_by=times.limited_by,
        bubble=plan.bubble,
        exchange_s=times.exchange_s,
        offload_s=times.offload_s,
        recompute=plan.recompute,
        update_s=times.update_s,
        tokens_per_s_per_device=tokens / step if step else None,
        model_flops=per_token,
        mfu=mfu,
        hfu=None if mfu is None else mfu * repeated,
        memory=memory,
        passes=passes,
        end=end,
        parts=parts if plan.tuning == "tuned" else None,
        assumptions=remarks,
    )


def _bound(microbatches: int, passes: Analysis, end: Analysis) -> Bound | None:
    """The roofline's verdict of a step: what is busy longest; None where that of a pass is."""
    busy: dict[Bound, float] = defaultdict(float)
    for analysis, times in ((passes, microbatches), (end, 1)):
        for resource in analysis.total.times:
            busy[resource.bound] += times * resource.time_s
    return passes.bound and max(busy, key=lambda bound: busy[bound])


def _check_known(analysis: Analysis) -> None:
    """Refuses sums with an unknown part.

    Raises:
        DeviceError: The roofs of a product are unknown, and so would be the sum. Other ops whose
            engine has no published roof are held against memory, as in every analysis. What a
            compiler runs within another op has no time of its own.
    """
    for op in analysis.ops:
        m = op.measures
        moves = m.read_bytes or m.write_bytes
        if (moves and m.roofline_time_s is None) or any(
            w.flops and w.time_s is None and w.work_class == "matrix" for w in m.work
        ):
            raise DeviceError(
                f"{analysis.hardware.id}: the time of {op.name} is unknown, as its roofs for this "
                "format are; choose another --precision, or give a device file that has them."
            )
