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

from gambrel.analysis.analyze import analyze
from gambrel.analysis.estimate import total
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.measures import Estimate, Limiter
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import Settings
from gambrel.analysis.sol import Sol
from gambrel.analysis.workbench import speed_of_light
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.dtypes import width_bytes
from gambrel.errors import DeviceError, InputError
from gambrel.llm.backward import unknown, with_backward
from gambrel.llm.collectives import assumptions, busiest, place
from gambrel.llm.precision import Precisions
from gambrel.llm.sharded import build_rank
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec
from gambrel.llm.step import prefill
from gambrel.llm.topology import Topology, topology_for
from gambrel.ops import Conventions
from gambrel.workload import Op, Phase, Role, Tensor, Workload

_replace = msgspec.structs.replace

#: Bytes of optimizer state a parameter: fp32 master weight and two fp32 moments.
_ADAM_BYTES: Final = 12
#: Choices of what is kept for the backward pass.
RECOMPUTE: Final = ("none", "full")


class TrainingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is trained.

    Attributes:
        sequences: Of one microbatch on one data-parallel device.
        seq: Tokens of a sequence.
        sharding: The layout; ``data`` replicas average their gradients.
        microbatches: Passes before an update.
        zero: 0 to 3: what the data-parallel devices divide.
        recompute: ``"none"`` keeps all intermediates, ``"full"`` only what crosses layers.
        overlap: Share of the gradient traffic hidden behind the backward pass; an assumption.

    Raises:
        InputError: A number out of range.
    """

    sequences: int
    seq: int
    sharding: Sharding = Sharding()
    microbatches: int = 1
    zero: int = 0
    recompute: str = "none"
    overlap: float = 0.0

    def __post_init__(self) -> None:
        for name in ("sequences", "seq", "microbatches"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(f"{name}={value!r}: give a whole number of at least 1.")
        if self.zero not in (0, 1, 2, 3):
            raise InputError(f"zero={self.zero!r}: stages are 0 to 3.")
        if self.recompute not in RECOMPUTE:
            raise InputError(f"recompute={self.recompute!r}: use {' or '.join(RECOMPUTE)}.")
        if not 0 <= self.overlap <= 1:
            raise InputError(f"overlap={self.overlap!r}: a share from 0 to 1.")

    @property
    def tokens(self) -> int:
        """Tokens of a whole step, all replicas."""
        return self.sequences * self.seq * self.microbatches * self.sharding.data

    @property
    def bubble(self) -> float:
        """Share of a step in which a pipeline stage waits: (p - 1) / (m + p - 1)."""
        stages = self.sharding.pipeline
        return (stages - 1) / (self.microbatches + stages - 1)


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


class TrainingStep(msgspec.Struct, frozen=True, kw_only=True):
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
        tokens_per_s_per_device: Over the expected time.
        model_flops: Of one token over the whole model, forward and backward, nothing recomputed.
        mfu: Model FLOPs over time and peak.
        hfu: The same with recomputed work; at least ``mfu``.
        memory: Of one device.
        passes: The analysis of forward and backward of one microbatch on one device.
        end: That of the exchange and the update; None for inference-like plans without either.
        assumptions: One sentence each.
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
    assumptions: tuple[str, ...] = ()

    @property
    def step_s(self) -> float:
        """Expected seconds of a step."""
        return self.expected.value


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
    if spec.max_context is not None and plan.seq > spec.max_context:
        raise InputError(
            f"seq={plan.seq:,} is beyond max_position_embeddings={spec.max_context:,} of "
            f"{spec.name}; at most {spec.max_context:,}."
        )
    formats = precisions or Precisions.parse("bf16")
    node = topology_for(device, topology)
    placed = node.place(device, plan.sharding.devices, busiest(plan.sharding))
    step = prefill(plan.sequences, plan.seq)
    step = _replace(step, outputs=plan.sequences * plan.seq, label="training")
    forward = build_rank(spec, step, formats, plan.sharding, topology=node)
    missing = unknown(forward)
    if missing:
        raise InputError(f"{spec.name}: gradients of {', '.join(missing)} are not known here.")
    both = with_backward(forward, recompute=plan.recompute == "full")
    settings = replace(settings or Settings(), precision=None, sizes=None)
    passes = analyze(both, placed, settings)
    elements = passes.model.parameters
    last = place(_end(spec, elements, plan), plan.sharding, node)
    return _summary(
        plan,
        passes,
        analyze(last, placed, settings),
        speed_of_light(_least_step(with_backward(forward), last, plan), placed, settings),
        _memory(plan, device, forward, elements),
        assumptions(plan.sharding, node),
    )


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
    ops = [_replace(op, repeat=op.repeat * plan.microbatches) for op in passes.ops]
    ops = [
        _replace(op, attrs={**op.attrs, "recompute": False})
        if op.kind == "attention_backward"
        else op
        for op in ops
    ]
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


def _end(spec: ModelSpec, elements: int, plan: TrainingPlan) -> Workload:
    """Exchange of gradients (and parameters) between replicas, and the update."""
    replicas = plan.sharding.data * plan.sharding.context
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
        for function, what, count in _exchanges(plan)
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


def _exchanges(plan: TrainingPlan) -> tuple[tuple[str, str, int], ...]:
    """(function, what, how often a step) between replicas.

    Divided gradients are added where they are kept; updated parameters are gathered. Divided
    parameters are gathered for every forward and backward pass instead.
    """
    if plan.zero == 0:
        return (("all_reduce", "gradients", 1),)
    if plan.zero in (1, 2):
        # Stage 2 keeps no whole gradient between microbatches, so it adds after each of them.
        times = plan.microbatches if plan.zero == 2 else 1
        return (("reduce_scatter", "gradients", times), ("all_gather", "parameters", 1))
    return (
        ("reduce_scatter", "gradients", plan.microbatches),
        ("all_gather", "parameters", 2 * plan.microbatches),
    )


def _summary(
    plan: TrainingPlan,
    passes: Analysis,
    end: Analysis,
    sol: Sol,
    memory: TrainingMemory,
    remarks: tuple[str, ...],
) -> TrainingStep:
    for analysis in (passes, end):
        _check_known(analysis)
    shares = {group.name: group.measures for group in end.by_kind}
    passed = _known(passes.expected_time_s).times(plan.microbatches / (1 - plan.bubble))
    shown, update = (
        _known(shares[kind].expected_time_s) if kind in shares else _NOTHING
        for kind in ("collective", "optimizer")
    )
    shown = shown.times(1 - plan.overlap)
    expected = _one_after_another(passed, shown, update)
    step = expected.value
    tokens = plan.tokens / plan.sharding.devices
    model, done = _flops(passes)
    per_token = model * plan.sharding.replica / (plan.sequences * plan.seq)
    peak = passes.total.peak_flop_per_s
    rate = plan.microbatches / step
    return TrainingStep(
        expected=expected,
        sol_step_s=sol.time_s,
        roofline_step_s=plan.microbatches * _known(passes.roofline_time_s)
        + _known(end.roofline_time_s),
        limited_by=_limiter(
            (passed, passes.limited_by),
            (shown, Limiter.NETWORK),
            (update, shares["optimizer"].limited_by),
        ),
        bubble=plan.bubble,
        exchange_s=shown.value,
        update_s=update.value,
        tokens_per_s_per_device=tokens / step,
        model_flops=per_token,
        mfu=None if peak is None else model * rate / peak,
        hfu=None if peak is None else done * rate / peak,
        memory=memory,
        passes=passes,
        end=end,
        assumptions=(
            *remarks,
            f"{plan.overlap:.0%} of the exchange of gradients is hidden behind backward.",
            "weights, gradients and activations in the formats given; master weights and both "
            "moments of AdamW in fp32.",
        ),
    )


_NOTHING: Final = Estimate(value=0.0, low=0.0, high=0.0, confidence="high", reason="")
_T = TypeVar("_T")


def _check_known(analysis: Analysis) -> None:
    """Refuses sums with an unknown part.

    Raises:
        DeviceError: The roofs of a product are unknown, and so would be the sum. Other ops whose
            engine has no published roof are held against memory, as in every analysis.
    """
    for op in analysis.ops:
        m = op.measures
        if m.roofline_time_s is None or any(
            w.flops and w.time_s is None and w.work_class == "matrix" for w in m.work
        ):
            raise DeviceError(
                f"{analysis.hardware.id}: the time of {op.name} is unknown, as its roofs for this "
                "format are; choose another --precision, or give a device file that has them."
            )


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


def _flops(passes: Analysis) -> tuple[float, float]:
    """Matrix FLOPs of one microbatch on one device: three times forward, and what is done.

    The usual convention of model FLOPs: every product of forward has two of the same size in
    backward; what attention's kernel forms again does not count.
    """
    once = sum(op.measures.matrix_flops for op in passes.ops if op.phase == Phase.FORWARD)
    return 3.0 * once, float(passes.total.matrix_flops)


def _memory(plan: TrainingPlan, device: Device, forward: Workload, elements: int) -> TrainingMemory:
    replicas = plan.sharding.data * plan.sharding.context
    level = main_memory(device)
    part = [replicas if plan.zero >= stage else 1 for stage in (3, 2, 1)]
    return TrainingMemory(
        parameters_bytes=2 * elements / part[0],
        gradients_bytes=2 * elements / part[1],
        optimizer_bytes=_ADAM_BYTES * elements / part[2],
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
    flying = min(plan.sharding.pipeline, plan.microbatches)
    if plan.recompute == "none":
        return kept * flying
    return sum(_stream(forward, evaluator)) * flying + layer


def _stream(forward: Workload, evaluator: Evaluator) -> list[float]:
    """Bytes of the residual stream in front of each layer."""
    first = next(op for op in forward.ops if op.kind == "embedding")
    nbytes = float(evaluator.tensor(first.outputs[0]).nbytes)
    groups = {op.module.split(".*", 1)[0]: op.repeat for op in forward.ops if ".*" in op.module}
    return [nbytes * count for count in groups.values()]
