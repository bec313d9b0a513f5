"""The fastest layouts of a training step on so many devices, and why the next one is slower.

Every split of the devices that the model allows is analyzed once for each microbatch size; ZeRO
stages, interleaving, schedules and what is recomputed follow by arithmetic (`TrainingBase`). A
layout is left out where its least memory exceeds the device's, or where the arithmetic of a step at
the peak is above the best step so far: then no choice of the rest could be faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from gambrel.analysis.measures import Limiter
from gambrel.analysis.settings import Settings
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.errors import DeviceError, InputError
from gambrel.llm.layouts import problem
from gambrel.llm.precision import Precisions
from gambrel.llm.recompute import choices
from gambrel.llm.sharding import Sharding, divisors
from gambrel.llm.spec import ModelSpec
from gambrel.llm.topology import Topology, topology_for
from gambrel.llm.training import TrainingStep, train
from gambrel.llm.training_base import TrainingBase, base_of
from gambrel.llm.training_plan import UTILIZATION, TrainingPlan, uneven
from gambrel.llm.training_time import exchange_s, pass_s
from gambrel.units import format_capacity, format_percent, format_si
from gambrel.views import Viewed

#: Sequences from this length on are also split over devices.
_LONG: Final = 32_768
_SEQUENCES: Final = (1, 2, 4)
_VIRTUAL: Final = (1, 2, 4)
#: Choices that are looked at in full.
BEST: Final = 5


class SearchedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a step.

    Attributes:
        plan: Layout, batch, what is divided and what runs again.
        step_s: Expected seconds.
        memory_bytes: Of a device.
        seconds: Of the step by what takes them.
        why_not: Why the one ranked before it is faster; empty for the first.
    """

    plan: TrainingPlan
    step_s: float
    memory_bytes: float
    seconds: dict[str, float] = {}
    why_not: str = ""


class TrainingSearch(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The answer of a search.

    Attributes:
        model: Name.
        device: Id.
        precision: Of weights and activations.
        devices: Of the job.
        sequences: Of a step, all replicas.
        seq: Tokens of each.
        capacity_bytes: Of a device.
        utilization: Share of it that a plan may fill.
        best: The fastest that fit, one for each split of the devices, best first.
        pareto: Plans that no other beats in time and in memory, fastest first.
        step: The best in full; None where nothing fits.
        nearest: Where nothing fits: the least memory that a plan takes.
        tried: Plans whose step was computed.
        pruned: Plans that were left out unseen: their parameters exceed the memory, or their
            arithmetic alone takes longer than the best step.
        assumptions: Printed with every result.
    """

    model: str
    device: str
    precision: str
    devices: int
    sequences: int
    seq: int
    capacity_bytes: int | None
    utilization: float
    best: tuple[SearchedPlan, ...]
    pareto: tuple[SearchedPlan, ...]
    tried: int
    pruned: int
    step: TrainingStep | None = None
    nearest: SearchedPlan | None = None
    assumptions: tuple[str, ...] = ()

    def tokens_per_s_per_device(self, trial: SearchedPlan) -> float:
        """Over the expected time."""
        return self.sequences * self.seq / trial.step_s / self.devices

    def mfu(self, trial: SearchedPlan) -> float | None:
        """Of a plan; as that of the best one, by time."""
        if self.step is None or self.step.mfu is None or self.step.step_s is None:
            return None
        return self.step.mfu * self.step.step_s / trial.step_s


def search(
    spec: ModelSpec,
    device: Device,
    *,
    devices: int,
    sequences: int,
    seq: int,
    precisions: Precisions | None = None,
    topology: str | Topology | None = None,
    settings: Settings | None = None,
    fixed: dict[str, int] | None = None,
    utilization: float = UTILIZATION,
    top: int = BEST,
) -> TrainingSearch:
    """Searches the layouts of a training step.

    Args:
        spec: The model.
        device: The device.
        devices: How many; all are used.
        sequences: Of a step, all replicas together.
        seq: Tokens of each.
        precisions: Number formats; None is bf16.
        topology: Node and network; None is the usual node of the device.
        settings: Runtime, calibration and the rest.
        fixed: Degrees that are given: ``tensor``, ``pipeline``, ``context``, ``expert``, ``data``
            (replicas, experts' groups among them).
        utilization: Share of a device's memory that a plan may fill.
        top: Best plans to return.

    Raises:
        InputError: No layout at all: degrees that do not divide.
        DeviceError: No step of such a device was measured, or a network is needed and not known.
    """
    formats = precisions or Precisions.parse("bf16")
    node = topology_for(device, topology)
    for name, degree in (fixed or {}).items():
        if devices % degree:
            raise InputError(
                f"{name}={degree} does not divide the {devices} devices; it may be "
                f"{', '.join(map(str, divisors(devices)))}."
            )
    batch = _Batch(sequences=sequences, seq=seq, utilization=utilization)
    found = _Search(spec, device, devices, batch, formats, node, settings or Settings())
    splits = list(_splits(spec, devices, node, seq, fixed or {}))
    if not splits and fixed:
        names = ("tensor", "pipeline", "context")
        layout = Sharding(**{name: fixed[name] for name in names if name in fixed})
        found.reason = problem(layout, spec) or uneven(seq, layout)
    found.run(splits)
    best = tuple(_explained(found.best[:top]))
    step = None
    if best:
        step = train(
            spec, device, best[0].plan, precisions=formats, topology=node, settings=settings
        )
    return found.record(best, step)


class _Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What a step is to do, and the share of a device's memory that it may fill."""

    sequences: int
    seq: int
    utilization: float


class _Search:
    """Plans that were looked at."""

    def __init__(
        self,
        spec: ModelSpec,
        device: Device,
        devices: int,
        batch: _Batch,
        formats: Precisions,
        node: Topology,
        settings: Settings,
    ) -> None:
        self.spec, self.device, self.devices = spec, device, devices
        self.batch = batch
        self.formats, self.node, self.settings = formats, node, settings
        level = main_memory(device)
        self.capacity = level.capacity_bytes if level else None
        self.best: list[SearchedPlan] = []
        self.fitting: list[SearchedPlan] = []
        self.nearest: SearchedPlan | None = None
        self.tried = self.pruned = 0
        self.reason = ""

    def run(self, splits: Sequence[Sharding]) -> None:
        """Looks at every split of the devices.

        Raises:
            InputError: None of them can be.
        """
        for sharding in splits:
            trials = [one for n in _SEQUENCES for one in self._layout(sharding, n)]
            if trials:
                self.best.append(min(trials, key=lambda t: t.step_s))
                self.best.sort(key=lambda t: t.step_s)
        if not self.tried and not self.pruned:
            raise InputError(
                self.reason
                or f"{self.devices} devices and {self.batch.sequences} sequences per step: no "
                f"layout of {self.spec.name} divides them."
            )

    def record(self, best: tuple[SearchedPlan, ...], step: TrainingStep | None) -> TrainingSearch:
        """The answer."""
        from gambrel.engine.pareto import least  # needs numpy, which reports do without

        return TrainingSearch(
            model=self.spec.name,
            device=self.device.id,
            precision=self.formats.name,
            devices=self.devices,
            sequences=self.batch.sequences,
            seq=self.batch.seq,
            utilization=self.batch.utilization,
            capacity_bytes=self.capacity,
            best=best,
            pareto=least(self.fitting, lambda t: (t.step_s, t.memory_bytes)),
            tried=self.tried,
            pruned=self.pruned,
            step=step,
            nearest=None if best else self.nearest,
            assumptions=(
                f"microbatches of {', '.join(map(str, _SEQUENCES))} sequences; ZeRO 0, 1 and 3; "
                "recomputation of any classes of ops; interleaving or a zero-bubble schedule.",
                *(step.assumptions if step else ()),
            ),
        )

    def _layout(self, sharding: Sharding, sequences: int) -> Iterator[SearchedPlan]:
        """The fastest plan of a split and a microbatch that fits; none where none does."""
        replicas = sharding.data * sharding.attention_data
        passes, rest = divmod(self.batch.sequences, replicas * sequences)
        if rest or not passes:
            return
        plan = TrainingPlan(
            sequences=sequences,
            seq=self.batch.seq,
            sharding=sharding,
            microbatches=passes,
            utilization=self.batch.utilization,
        )
        plans = list(_schedules(plan, self.spec))
        try:
            base = base_of(self.spec, self.device, plan, self.formats, self.node, self.settings)
        except DeviceError:
            raise
        except InputError as error:
            self.reason = str(error)
            return
        kept = [p for p in plans if self._may_fit(base, p) and not self._too_slow(base, p)]
        recomputes = _worthwhile(base, plan)
        self.pruned += (len(plans) - len(kept)) * len(recomputes)
        trials = [trial for one in kept for trial in self._fitting(base, one, recomputes)]
        if trials:
            self.fitting += trials
            first = min(trials, key=lambda t: t.step_s)
            yield msgspec.structs.replace(first, seconds=_seconds(base, first.plan))

    def _may_fit(self, base: TrainingBase, plan: TrainingPlan) -> bool:
        m = base.memory(msgspec.structs.replace(plan, recompute="full"))
        if self.nearest is None or m.total_bytes < self.nearest.memory_bytes:
            self.nearest = SearchedPlan(plan=plan, step_s=0.0, memory_bytes=m.total_bytes)
        return m.within(plan.utilization) is not False

    def _too_slow(self, base: TrainingBase, plan: TrainingPlan) -> bool:
        """Whether products of a step at the peak take longer than the best of this split."""
        parts = base.parts(plan)
        products = sum(parts.gemm_s.values()) + sum(parts.expert_s.values())
        return bool(self.best) and plan.microbatches * products > self.best[0].step_s

    def _fitting(
        self, base: TrainingBase, plan: TrainingPlan, recomputes: Sequence[str]
    ) -> Iterator[SearchedPlan]:
        for name in recomputes:
            one = msgspec.structs.replace(plan, recompute=name)
            self.tried += 1
            memory = base.memory(one)
            if memory.within(plan.utilization) is False:
                continue
            yield SearchedPlan(plan=one, step_s=base.step_s(one), memory_bytes=memory.total_bytes)


def _splits(
    spec: ModelSpec, devices: int, node: Topology, seq: int, fixed: dict[str, int]
) -> Iterator[Sharding]:
    """Every split of all devices that the model allows; tensor groups stay within a node."""
    size = node.devices_per_node or devices
    contexts = divisors(devices) if seq >= _LONG or "context" in fixed else (1,)
    for tensor in _only(divisors(devices), "tensor", fixed):
        if tensor > size and "tensor" not in fixed:
            continue
        for stages in _only(divisors(devices // tensor), "pipeline", fixed):
            for context in _only(contexts, "context", fixed):
                replicas, rest = divmod(devices, tensor * stages * context)
                if rest or replicas != fixed.get("data", replicas):
                    continue
                for expert in _only(_experts(spec, tensor, replicas), "expert", fixed):
                    groups = max(1, expert // tensor)
                    layout = Sharding(
                        tensor=tensor * groups,
                        attention_data=groups,
                        expert=expert,
                        data=replicas // groups,
                        pipeline=stages,
                        context=context,
                    )
                    if not problem(layout, spec) and not uneven(seq, layout):
                        yield layout


def _only(values: Sequence[int], name: str, fixed: dict[str, int]) -> Sequence[int]:
    return [v for v in values if v == fixed.get(name, v)]


def _experts(spec: ModelSpec, tensor: int, replicas: int) -> list[int]:
    """Groups of experts: tensor times a divisor of the replicas."""
    if not spec.mixtures:
        return [1]
    return sorted({1, *(tensor * n for n in divisors(replicas))})


def _schedules(plan: TrainingPlan, spec: ModelSpec) -> Iterator[TrainingPlan]:
    """ZeRO stages, pieces of a stage and schedules that make sense for a layout.

    Interleaved pieces take microbatches in rounds of as many as stages (Narayanan et al., 2021).
    """
    stages = plan.sharding.pipeline
    rounds = stages > 1 and plan.microbatches % stages == 0
    most = -(-spec.layer_count // stages)
    pieces = [v for v in _VIRTUAL if v == 1 or (rounds and most % v == 0)]
    for zero in (0,) if plan.replicas == 1 else (0, 1) if stages > 1 else (0, 1, 3):
        for virtual in pieces:
            for schedule in ("1f1b", "zero-bubble") if stages > 1 and virtual == 1 else ("1f1b",):
                yield msgspec.structs.replace(plan, zero=zero, virtual=virtual, schedule=schedule)


def _worthwhile(base: TrainingBase, plan: TrainingPlan) -> list[str]:
    """Choices of recomputation of which no other frees more and costs less."""
    rated = []
    for name in choices(frozenset(base.written.freed)):
        one = msgspec.structs.replace(plan, recompute=name)
        rated.append((pass_s(base.parts(one), base.stack)[0], sum(base.written.kept(name)), name))
    front: list[str] = []
    least = float("inf")
    for _, nbytes, name in sorted(rated):
        if nbytes < least:
            least = nbytes
            front.append(name)
    return front


def _seconds(base: TrainingBase, plan: TrainingPlan) -> dict[str, float]:
    """Seconds of a step by what takes them."""
    parts = base.parts(plan)
    one, takes = pass_s(parts, base.stack)
    names = {
        Limiter.COMPUTE: "arithmetic",
        Limiter.MEMORY: "memory traffic",
        Limiter.NETWORK: "communication within layers",
        Limiter.HOST: "the host",
    }
    busy = plan.microbatches * one
    return {
        **{names[k]: plan.microbatches * v for k, v in takes.items()},
        "the pipeline's bubble": plan.idle * one,
        "exchange of gradients": exchange_s(parts, base.stack, busy),
        "the update": parts.update_s,
    }


def _explained(trials: Sequence[SearchedPlan]) -> Iterator[SearchedPlan]:
    for i, trial in enumerate(trials):
        yield trial if not i else msgspec.structs.replace(trial, why_not=_why(trial, trials[i - 1]))


def _why(trial: SearchedPlan, better: SearchedPlan) -> str:
    """What takes longer than in the plan before it."""
    grown = {k: v - better.seconds.get(k, 0.0) for k, v in trial.seconds.items()}
    least = 0.1 * (trial.step_s - better.step_s)
    ranked = sorted((k for k in grown if grown[k] > least), key=lambda k: -grown[k])
    late = trial.step_s / better.step_s - 1
    said = [f"{name} takes {format_si(grown[name], 's', 3)} more" for name in ranked[:2]]
    more = (
        f"; it recomputes {trial.plan.recompute}"
        if (trial.plan.recompute not in ("none", better.plan.recompute))
        else ""
    )
    return f"{format_percent(late)} slower: {' and '.join(said) or 'the sum of small parts'}{more}."


def needs_of(found: TrainingSearch) -> str:
    """Where nothing fits: how near the least memory comes."""
    near = found.nearest
    if near is None:
        return ""
    return (
        f"the least memory is {format_capacity(near.memory_bytes)} of "
        f"{format_capacity(found.capacity_bytes)}, of which a plan may fill "
        f"{format_percent(found.utilization)}, with {near.plan.sharding}"
    )
