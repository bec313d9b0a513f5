"""A training step of a language model: time, MFU, memory, traffic of gradients, by layout.

A step is ``microbatches`` forward and backward passes of one device's share, the exchange of
gradients, and the update. The optimizer's states, gradients and parameters are kept by every
data-parallel device (stage 0) or divided among them: states (1), gradients too (2), parameters too
(3) (Rajbhandari et al., "ZeRO", 2020).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from gambrel import roofline
from gambrel.analysis.analyze import analyze
from gambrel.analysis.estimate import total
from gambrel.analysis.measures import Estimate, Limiter
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
    offload_s,
    staged,
    written_of,
)
from gambrel.llm.training_end import crossings, end_of
from gambrel.llm.training_memory import TrainingMemory, fullest
from gambrel.llm.training_plan import TrainingPlan
from gambrel.llm.training_ranks import ranks_of, timeline_of
from gambrel.llm.training_run import TrainingRun, run_of
from gambrel.llm.training_time import (
    GradientExchange,
    Parts,
    Stack,
    exchange_s,
    gradient_s,
    parts_of,
    pass_s,
    stack_of,
)
from gambrel.views import Viewed
from gambrel.workload import Role, Workload

_replace = msgspec.structs.replace


class TrainingStep(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """What a training step takes.

    Attributes:
        expected: Seconds of a step, with range; never more certain than *medium*, since no
            training step was measured.
        sol_step_s: Speed of light of the busiest device: forward, backward and update, nothing
            recomputed, weights once per update, no bubble. No run is faster; None where no roof is
            known.
        roofline_step_s: By the roofline, kernel by kernel, without the bubble.
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

    expected: Estimate
    sol_step_s: float | None
    roofline_step_s: float
    limited_by: str
    bubble: float
    exchange_s: float
    update_s: float
    tokens_per_s_per_device: float
    model_flops: float
    mfu: float | None
    hfu: float | None
    memory: TrainingMemory
    passes: Analysis
    end: Analysis
    ranks: tuple[TrainingMemory, ...] = ()
    timeline: Timeline | None = None
    parts: Parts | None = None
    offload_s: float = 0.0
    recompute: str = "none"
    choices: tuple[RecomputeChoice, ...] = ()
    assumptions: tuple[str, ...] = ()
    run: TrainingRun | None = None

    @property
    def step_s(self) -> float:
        """Expected seconds of a step."""
        return self.expected.value

    def over(self, tokens: float | None, devices: int) -> TrainingStep:
        """The step with the run of so many tokens on all devices; itself without any."""
        if tokens is None:
            return self
        expected = self.expected
        per_step = self.tokens_per_s_per_device * expected.value * devices
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
        eager=settings.runtime == "pytorch",
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
    shares = {group.name: group.measures for group in end.by_kind}
    tuned = parts if plan.tuning == "tuned" else None
    one = _kernels(passes.expected_time_s, passes.roofline_time_s, tuned)
    passed = one.times(plan.microbatches / (1 - plan.bubble))
    shown, update = (
        _kernels(shares[kind].expected_time_s, shares[kind].roofline_time_s, tuned)
        if kind in shares
        else _NOTHING
        for kind in ("collective", "optimizer")
    )
    shown = shown.times(1 - (plan.overlap or 0.0))
    expected = _one_after_another(passed, shown, update)
    limited_by = _limiter(
        (passed, passes.limited_by),
        (shown, Limiter.NETWORK),
        (update, shares["optimizer"].limited_by),
    )
    expected, limited_by, exchange, link_s = _timed(
        plan, passes, parts, sol, written, (passed, expected, limited_by, shown.value)
    )
    step = expected.value
    tokens = plan.tokens / plan.sharding.devices
    per_token, repeated = flops
    peak = passes.total.peak_flop_per_s
    mfu = None if peak is None else roofline.ratio(per_token * tokens, step * peak)
    return TrainingStep(
        expected=expected,
        sol_step_s=sol.time_s,
        roofline_step_s=plan.microbatches * _known(passes.roofline_time_s)
        + _known(end.roofline_time_s),
        limited_by=limited_by,
        bubble=plan.bubble,
        exchange_s=exchange,
        offload_s=link_s,
        recompute=plan.recompute,
        update_s=update.value if tuned is None else tuned.update_s,
        tokens_per_s_per_device=tokens / step,
        model_flops=per_token,
        mfu=mfu,
        hfu=None if mfu is None else mfu * repeated,
        memory=memory,
        passes=passes,
        end=end,
        parts=tuned,
        assumptions=remarks,
    )


def _timed(
    plan: TrainingPlan,
    passes: Analysis,
    parts: Parts | None,
    sol: Sol,
    written: Intermediates,
    added: tuple[Estimate, Estimate, str, float],
) -> tuple[Estimate, str, float, float]:
    """The step, what limits it, the exchange that shows and the wait for the host's link.

    ``added`` are the passes, the step, its limit and the exchange as kernels add up; tuned stacks
    replace them where some were measured.
    """
    passed, expected, limited_by, exchange = added
    stack = stack_of(passes.hardware)
    one_s = passed.value / (plan.microbatches + plan.idle)
    if parts is not None and stack is not None:
        whole, limit, shown = _of_stack(plan, parts, stack, sol, passes.hardware)
        if plan.tuning == "tuned":
            whole = _both(whole, expected, "kernels of today one after another take less")
            expected, limited_by, exchange = whole, limit, shown
            one_s = pass_s(parts, stack)[0]
        else:
            why = "published tuned steps, many with slower attention, take longer"
            expected = _both(expected, whole, why)
    link_s = offload_s(plan, passes.hardware, written, one_s)
    return _later(expected, link_s), limited_by, exchange, link_s


def _of_stack(
    plan: TrainingPlan, parts: Parts, stack: Stack, sol: Sol, device: Device
) -> tuple[Estimate, str, float]:
    """Seconds of a step under tuned stacks with their range, what limits it, and the exchange."""
    one, shares = pass_s(parts, stack)
    busy = plan.microbatches * one
    shown = exchange_s(parts, stack, busy)
    if plan.overlap is not None:
        shown = roofline.seconds(parts.gradient_s, stack.network) * (1 - plan.overlap)
    whole = busy + plan.idle * one + shown + parts.update_s
    least = sol.time_s or 0.0
    takes = {name: value * (plan.microbatches + plan.idle) for name, value in shares.items()}
    takes[Limiter.NETWORK] += shown
    takes[Limiter.MEMORY] += parts.update_s
    low, high = stack.ends(device)
    unfitted = "" if stack.fits(device) else f"; steps on {device.name} were not fitted"
    on = f" on {stack.production_on}" if stack.production_on else ""
    estimate = Estimate(
        value=max(whole, least),
        low=max(whole * low, least),
        high=max(whole * high, least),
        confidence="low" if unfitted else "medium",
        reason=f"form fitted to {stack.rows} published steps of tuned runs on {stack.name} "
        f"({stack.error:.0%} off with the model left out, up to {stack.high:.2f} times as long); "
        f"production runs{on} take up to {stack.production:.1f} times as long{unfitted}",
    )
    return estimate, max(takes, key=lambda name: takes[name]).value, shown


def _both(one: Estimate, other: Estimate, why: str) -> Estimate:
    """An estimate whose range reaches to that of the other way of counting."""
    if one.low <= other.value <= one.high:
        return one
    low, high = min(one.low, other.value), max(one.high, other.value)
    return _replace(one, low=low, high=high, reason=f"{one.reason}; {why}")


def _later(expected: Estimate, seconds: float) -> Estimate:
    """The same, so much longer."""
    if not seconds:
        return expected
    return _replace(
        expected,
        value=expected.value + seconds,
        low=expected.low + seconds,
        high=expected.high + seconds,
    )


_NOTHING: Final = Estimate(value=0.0, low=0.0, high=0.0, confidence="high", reason="")
_T = TypeVar("_T")


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


def _kernels(expected: Estimate | None, roofline_s: float | None, parts: Parts | None) -> Estimate:
    """What kernels add up to; their roofline where none was measured but whole steps were.

    The constants of whole steps replace it.
    """
    if expected is None and parts is not None and roofline_s is not None:
        return Estimate(
            value=roofline_s, low=roofline_s, high=roofline_s, confidence="low", reason="roofline"
        )
    return _known(expected)


def _known(value: _T | None) -> _T:
    if value is None:
        raise DeviceError(
            "no constants for expected times under this runtime on this device; choose another "
            "--runtime, or fit them with 'gambrel calibrate'."
        )
    return value


def _limiter(*parts: tuple[Estimate, Limiter | None]) -> str:
    """What limits the parts with the largest share of the step."""
    shares: dict[Limiter, float] = defaultdict(float)
    for part, limiter in parts:
        if limiter is not None:
            shares[limiter] += part.value
    return max(shares, key=lambda name: shares[name]).value


def _one_after_another(*parts: Estimate) -> Estimate:
    """Their sum, less certain than kernels alone: no training step was measured."""
    whole = total((part, None) for part in parts if part.value)
    assert whole is not None  # forward has at least one op
    confidence = "low" if whole.confidence == "low" else "medium"
    reason = f"kernels: {whole.reason}; no training step was measured"
    return _replace(whole, confidence=confidence, reason=reason)
