"""The expected time of ops on one device: formula, constants, range and confidence together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate import forms, probed, written
from gambrel.analysis.estimate.classes import FRESH_KEY
from gambrel.analysis.estimate.constants import EDGES_S, Calibration, packaged
from gambrel.analysis.estimate.features import STORED, Rule, Task, is_batch_of_weights, rule_of
from gambrel.analysis.estimate.forms import Machine
from gambrel.analysis.estimate.kinship import FRAMEWORKS, LEVELS, Chosen, choose, kin_of, own_forms
from gambrel.analysis.estimate.machine import half_peak, machine_of
from gambrel.analysis.estimate.torchlib import rules as torch_rules
from gambrel.analysis.measures import Estimate
from gambrel.device.fastest import above_rated
from gambrel.dtypes import width_bytes
from gambrel.errors import UnknownNameError
from gambrel.ops import Cost, OpView
from gambrel.ops.base import Engine, Size, is_zero, minimum
from gambrel.roofline import maximum

if TYPE_CHECKING:
    from gambrel.analysis.estimate.batches import Batch
    from gambrel.analysis.roofs import Roofs

#: Engines that form the batched products of latent attention from 16-bit copies of the weights,
#: whatever the format of the checkpoint, and what the architecture's name holds where they do.
#: Source: the names of the kernels that were measured (mla_bmm).
_WIDE_BATCHES: Final = {"vllm": "", "trtllm": "sm_10"}

_ON_MATRIX: Final = frozenset(
    {"matmul", "grouped_matmul", "attention", "decode_attention", "latent_decode", "torch_matmul"}
)
#: A total is called as certain as the part of its time that is at least this large.
_SHARE: Final = 0.8
#: A caution is worth a word from this share of the time on.
_CAUTION: Final = 0.1
#: Further factors on the range of op classes that were not measured, by confidence.
_UNMEASURED: Final = {"high": (1.0, 1.0), "medium": (0.85, 1.3), "low": (0.6, 3.0)}
#: Cards without a power plug (75 W) clock by how well they are cooled: whole models on a T4 and a
#: P4 took 0.62 to 0.90 of what their kernels, measured one by one on other such cards, add up to.
_UNPLUGGED_W: Final = 75.0
_COOLER: Final = 0.85


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one execution, for scalars or arrays.

    Attributes:
        seconds: Expected time, never below the bound.
        launch: Share of it that is the kernel launch.
        latency: Beside it, the time until the kernel starts that a queue hides.
        floor: The bound: the roofline, but for algorithms with less arithmetic than counted.
    """

    seconds: Size
    launch: Size
    latency: Size = 0.0
    floor: Size = 0.0


class Predictor(Protocol):
    """What predicts the ops of one analysis."""

    @property
    def batched(self) -> bool:
        """Whether `estimate_batch` may be asked."""
        ...

    @property
    def over_arrays(self) -> bool:
        """Whether `seconds` says over arrays what `estimate` says of each point."""
        ...

    @property
    def partial(self) -> bool:
        """Whether ops without a prediction may count with their roofline time in a sum."""
        ...

    def in_sequence(self, view: OpView) -> bool:
        """Whether the estimate of an op holds all its dependent steps already."""
        ...

    def estimate(
        self, view: OpView, cost: Cost, roofline_time_s: float | None, count: int = 1
    ) -> Estimate | None:
        """The expected time of ``count`` executions; None when nothing is known."""
        ...

    def seconds(self, view: OpView, cost: Cost, roofline_time_s: Size) -> Predicted | None:
        """The same for one execution, for arrays as well; without range."""
        ...

    def estimate_batch(self, batch: Batch, times: Sequence[float]) -> list[Estimate | None]:
        """As `estimate`, for ops that differ in numbers only."""
        ...


class Estimator:
    """Predicts the ops of one analysis from fitted constants of kernels.

    Args:
        roofs: Of the device.
        calibration: Constants; None for those that come with gambrel.
        framework: Framework whose kernels run: ``any``, ``torch``, ``vllm``, ``sglang`` or
            ``trtllm``.
        compiled: A compiler lays out tensors and writes the loops; that matters where kernels
            were measured on the device itself.

    Raises:
        UnknownNameError: No such framework.
    """

    partial = True

    def __init__(
        self,
        roofs: Roofs,
        calibration: Calibration | None = None,
        framework: str = "any",
        *,
        compiled: bool = False,
    ) -> None:
        if framework not in FRAMEWORKS:
            raise UnknownNameError("framework", framework, FRAMEWORKS)
        self._roofs = roofs
        self._calibration = calibration or packaged()
        self._framework = framework
        self._compiled = compiled
        self._kin = kin_of(roofs.device, self._calibration)
        self._machine: Machine | None = None
        self._missing: tuple[str, ...] = ()
        if self._kin is not None and roofs.memory_byte_per_s and not roofs.off_chip_only:
            self._machine, self._missing = machine_of(
                roofs.device, roofs.memory_byte_per_s, self._kin
            )
        self._chosen: dict[tuple[str, str], Chosen | None] = {}
        self._ranges: dict[tuple[int, str, int], tuple[float, float, str, str]] = {}
        self._peaks: dict[tuple[Any, ...], float] = {}
        self._direct: dict[str, float | None] = {}
        self._half_peak = half_peak(roofs.device)
        self._above = above_rated(roofs.device)
        self._own = own_forms(self._calibration, roofs.device.id)
        names = {roofs.device.id, roofs.device.name}
        own = [p for p in self._calibration.probed if p.device in names]
        # Of several measurements of a class the one with most points counts.
        self._probed = {p.key: p for p in sorted(own, key=lambda p: p.points)}
        # The smallest kernel of a class also computes: a call costs what the fastest of them takes.
        self._call_s = min(
            (p.start_s for p in self._probed.values() if p.key != FRESH_KEY), default=0.0
        )

    def estimate(
        self, view: OpView, cost: Cost, roofline_time_s: float | None, count: int = 1
    ) -> Estimate | None:
        """The expected time of ``count`` executions of an op; None when nothing is known.

        Args:
            view: The op.
            cost: Of one execution.
            roofline_time_s: Of all ``count`` executions.
            count: Executions.
        """
        if roofline_time_s is None:
            return None
        if self._machine is None and not self._probed:
            return None
        return self._estimate(view, cost, roofline_time_s, count)

    def seconds(self, view: OpView, cost: Cost, roofline_time_s: Size) -> Predicted | None:
        """The same for one execution, for arrays as well; without range."""
        if self._machine is None:
            return None
        rule, chosen = self._rule(view)
        if chosen is None or self._lacks_peak(rule, cost):
            return None
        return self._expected(rule, chosen, view, cost, roofline_time_s)

    def _estimate(
        self, view: OpView, cost: Cost, roofline_time_s: float, count: int
    ) -> Estimate | None:
        own = self._measured_here(view, cost, roofline_time_s, count)
        if own is not None or self._machine is None:
            return own
        rule, chosen = self._rule(view)
        if chosen is None or self._lacks_peak(rule, cost):
            return None
        one = self._expected(rule, chosen, view, cost, roofline_time_s / count)
        return self._ranged(rule, chosen, one, float(self._least(cost, one.floor)), count)

    def _least(self, cost: Cost, seconds: Size, count: int = 1) -> Size:
        """What no range goes below: a card's arithmetic may beat its printed peak, traffic not."""
        return self._below(cost, seconds, 1 / self._above, count)

    def _below(self, cost: Cost, seconds: Size, share: float, count: int = 1) -> Size:
        """A bound with a share of the arithmetic and all of the traffic."""
        rate = self._roofs.memory_byte_per_s
        if share == 1 or not rate or not is_zero(cost.link_bytes + cost.network_bytes):
            return seconds
        moving = roofline.seconds((cost.read_bytes + cost.write_bytes) * count, rate)
        return minimum(seconds, maximum(moving, seconds * share))

    def estimate_batch(self, batch: Batch, times: Sequence[float]) -> list[Estimate | None]:
        """As `estimate`, for ops that differ in numbers only.

        Args:
            batch: The ops.
            times: Roofline time of one execution of each, s.

        Raises:
            MixedError: Formulas treat some of them otherwise than the others.
        """
        if self._probed:
            raise ValueError("a measured device predicts every op by itself: see `batched`")
        rule, chosen = (None, None) if self._machine is None else self._rule(batch.view)
        if rule is None or chosen is None or self._lacks_peak(rule, batch.cost):
            return [None] * len(times)
        import numpy as np

        found = self._expected(rule, chosen, batch.view, batch.cost, np.asarray(times))
        seconds = np.broadcast_to(found.seconds, len(times)).tolist()
        launches = np.broadcast_to(found.launch, len(times)).tolist()
        latencies = np.broadcast_to(found.latency, len(times)).tolist()
        bounds = np.broadcast_to(self._least(batch.cost, found.floor), len(times)).tolist()
        return [
            self._ranged(rule, chosen, Predicted(seconds=s, launch=n, latency=wait), least, 1)
            for s, n, wait, least in zip(seconds, launches, latencies, bounds, strict=True)
        ]

    @property
    def knows(self) -> bool:
        """Whether any constants are of this class of device."""
        return self._machine is not None or bool(self._probed)

    @property
    def batched(self) -> bool:
        """Whether `estimate_batch` may be asked: not where kernels were measured here."""
        return not self._probed

    @property
    def over_arrays(self) -> bool:
        """Whether `seconds` says over arrays what `estimate` says of each point.

        Not where kernels were measured here: of those the nearest counts.
        """
        return not self._probed

    def in_sequence(self, view: OpView) -> bool:
        """Whether the estimate of an op holds all its dependent steps already."""
        return self._framework == "torch" and self._rule(view)[0].form == "torch_recurrent"

    def _ranged(
        self, rule: Rule, chosen: Chosen, one: Predicted, least: float, count: int
    ) -> Estimate:
        """The estimate of ``count`` executions from the time of one, no range below ``least``."""
        bin_ = bisect_left(EDGES_S, one.seconds)
        key = id(chosen), rule.least, bin_  # `_chosen` keeps the object, and so its id
        if key not in self._ranges:
            self._ranges[key] = self._range(rule, chosen, bin_)
        low, high, confidence, reason = self._ranges[key]
        value = one.seconds * count
        return Estimate(
            value=value,
            low=max(least * count, value * low),
            high=value * high,
            confidence=confidence,
            reason=reason,
            launches_s=one.launch * count,
            idle_start_s=one.latency,
            caution=chosen.caution_for(one.launch / one.seconds if one.seconds else 0.0),
        )

    def _range(self, rule: Rule, chosen: Chosen, bin_: int) -> tuple[float, float, str, str]:
        """Factors on a time of one of the bins of `EDGES_S`, confidence and its reason."""
        wider = _UNMEASURED[rule.least]
        confidence, reason = chosen.judge(bin_)
        unplugged = self._machine is not None and 0 < self._machine.tdp_w <= _UNPLUGGED_W
        cooler = _COOLER if unplugged and "settle_s" in chosen.constants else 1.0
        return (
            min(1.0, chosen.low[bin_] * wider[0] * cooler),
            max(1.0, chosen.high[bin_] * wider[1]),
            max(confidence, rule.least, key=LEVELS.index),
            self._reason(reason),
        )

    def _measured_here(
        self, view: OpView, cost: Cost, roofline_time_s: float, count: int
    ) -> Estimate | None:
        """The estimate from measurements of this class of op on this very machine."""
        if not self._probed:
            return None
        found = (
            written.measured(self._probed, view, cost, roofline_time_s / count, self._roofs)
            if self._compiled
            else probed.measured(self._probed, view, cost, roofline_time_s / count)
        )
        if found is None:
            return None
        used, exact = found.probed, found.exact
        value = max(roofline_time_s, found.seconds * count)
        wider = _UNMEASURED["high" if exact else "medium"]
        return Estimate(
            value=value,
            low=max(float(self._least(cost, roofline_time_s, count)), value * used.low * wider[0]),
            high=value * used.high * wider[1],
            confidence=probed.confidence_of(used, exact),
            reason=found.reason,
            launches_s=min(min(found.start_s, self._call_s) * count, value),
        )

    def _expected(
        self, rule: Rule, chosen: Chosen, view: OpView, cost: Cost, roofline_time_s: Size
    ) -> Predicted:
        machine = self._machine
        assert machine is not None  # both callers have checked it
        c, task = chosen.constants, self.task_of(view, cost)
        launch = forms.launch(c, machine) if "launch" in c else c.get("base_s", 0.0)
        latency: Size = 0.0
        work = alone = rule.seconds(c, machine, task)
        if "launch" in c:
            work = work + launch
        elif rule.form.startswith("torch_"):
            if c.get("start_s"):  # of kernels measured one at a time, each on an idle device
                work = rule.seconds(c | {"start_s": 0.0}, machine, task)
            latency = alone - work
            work = maximum(work, launch)  # the shortest kernel
        floor = roofline_time_s
        if rule.share is not None:
            floor = self._below(cost, floor, float(rule.share(c, machine, task)))
        seconds = maximum(work, floor)
        # Steps that wait for each other keep nothing busy: they only wait.
        waits = rule.form == "torch_recurrent"
        start = work if waits else minimum(launch, seconds)
        return Predicted(seconds=seconds, launch=start, latency=latency, floor=floor)

    def task_of(self, view: OpView, cost: Cost) -> Task:
        """An op as the formulas see it on this device."""
        matrix_peak = self._peak(cost, Engine.MATRIX)
        return Task(
            view=view,
            cost=cost,
            matrix_peak=matrix_peak,
            pace=min(1.0, matrix_peak / self._half_peak) if self._half_peak else 1.0,
            vector_peak=self._peak(cost, Engine.VECTOR),
            direct_peak=self._direct_peak(view),
            link_byte_per_s=self._roofs.link_byte_per_s or 0.0,
            network_byte_per_s=self._roofs.network_byte_per_s or 0.0,
            scheme=self._scheme(rule_of(view), view),
            compiled=self._compiled,
        )

    def _rule(self, view: OpView) -> tuple[Rule, Chosen | None]:
        """The rule for an op, with its constants."""
        rule = rule_of(view)
        lanes = self._machine is not None and self._machine.vector_flop_per_s > 0
        if self._framework == "torch" and lanes and rule.form not in self._own:
            one = torch_rules.rule_of(view, wide_products=self._kin is not None and self._kin.alone)
            chosen = None if one is None else self._constants(one, view)
            if one is not None and chosen is not None:
                return one, chosen
        return rule, self._constants(rule, view)

    def _constants(self, rule: Rule, view: OpView) -> Chosen | None:
        kin = self._kin
        key = (rule.form, self._scheme(rule, view))
        if key not in self._chosen and kin is not None:
            self._chosen[key] = choose(
                *key, self._roofs.device, kin, self._calibration, self._framework
            )
        return self._chosen.get(key)

    def _scheme(self, rule: Rule, view: OpView) -> str:
        """That of the op; engines that serve language models quantise to fp8 as they go."""
        scheme = rule.scheme(view)
        if is_batch_of_weights(view) and self._widens_batches():
            return "bf16"
        serves = self._framework not in ("any", "torch")
        return "fp8" if serves and scheme == f"fp8{STORED}" else scheme

    def _widens_batches(self) -> bool:
        on = _WIDE_BATCHES.get(self._framework)
        return on is not None and on in (self._roofs.device.architecture or "")

    def _lacks_peak(self, rule: Rule, cost: Cost) -> bool:
        """Whether a formula of matrix work has no engine to run on."""
        return rule.form in _ON_MATRIX and not self._peak(cost, Engine.MATRIX)

    def _peak(self, cost: Cost, engine: Engine) -> float:
        """The lowest peak among the formats of one class of work; 0 without any."""
        key = (engine, cost.prunable, *cost.work)
        found = self._peaks.get(key)
        if found is None:
            found = self._peaks[key] = self._lowest_peak(cost, engine)
        return found

    def _direct_peak(self, view: OpView) -> float | None:
        """Of the vector units in the format of a convolution's operands; None for other ops."""
        if not view.kind.startswith("convolution"):
            return None
        dtype = view.operand_dtype(2)
        if dtype not in self._direct:
            # Lanes for 16-bit floats take narrower values, too.
            formats = (dtype, "fp16") if width_bytes(dtype) < width_bytes("fp16") else (dtype,)
            peaks = [p for f in formats if (p := self._roofs.vector_peak(f)) is not None]
            self._direct[dtype] = max(peaks, default=None)
        return self._direct[dtype]

    def _lowest_peak(self, cost: Cost, engine: Engine) -> float:
        peaks = [
            roof.flop_per_s
            for (e, dtype) in cost.work
            if e is engine
            and (roof := self._roofs.engine_roof(e.value, dtype, cost.prunable)) is not None
        ]
        return min(peaks, default=0.0)

    def _reason(self, reason: str) -> str:
        if not self._missing:
            return reason
        return f"{reason}; {' and '.join(self._missing)} assumed"


def total(parts: Iterable[tuple[Estimate | None, float | None]]) -> Estimate | None:
    """The estimate of ops that run one after another.

    Values add. Lower and upper ends add too: errors of one model on one device are taken as fully
    correlated, which is the widest that a sum of ranges can be. The confidence is the best one that
    ops with 80 % of the time have at least; the reason is that of the largest part of the time
    among the ops of that confidence. An op that has a bound and no estimate counts with its bound.

    Args:
        parts: Of each op, its estimate and its roofline time, s.

    Returns:
        The sum; None where no op has an estimate.
    """
    pairs = list(parts)
    found = [estimate for estimate, _ in pairs if estimate is not None]
    if not found:
        return None
    bounds = [bound for estimate, bound in pairs if estimate is None and bound]
    found += [_only_bound(bound) for bound in bounds]
    value = sum(p.value for p in found)
    confidence = _confidence(found, value)
    reason = _main_reason([p for p in found if p.confidence == confidence] or found)
    if bounds:
        reason += f"; {len(bounds)} ops without constants count with their bound"
    return Estimate(
        value=value,
        low=sum(p.low for p in found),
        high=sum(p.high for p in found),
        confidence=confidence,
        reason=reason,
        launches_s=sum(p.launches_s for p in found),
        host_s=sum(p.host_s for p in found),
        caution=_main_caution(found, value),
    )


def _only_bound(seconds: float) -> Estimate:
    return Estimate(
        value=seconds,
        low=seconds,
        high=seconds * _UNMEASURED["low"][1],
        confidence="low",
        reason="no constants: the bound",
    )


def _main_caution(parts: list[Estimate], whole: float) -> str:
    """The caution of ops that take a share of the time worth a word; empty without one."""
    weights: dict[str, float] = {}
    for p in parts:
        if p.caution:
            weights[p.caution] = weights.get(p.caution, 0.0) + p.value
    text = max(weights, key=lambda one: weights[one], default="")
    return text if text and weights[text] >= _CAUTION * whole else ""


def _confidence(parts: list[Estimate], whole: float) -> str:
    reached = 0.0
    for level in LEVELS:
        reached += sum(p.value for p in parts if p.confidence == level)
        if reached >= _SHARE * whole:
            return level
    return LEVELS[-1]


def _main_reason(parts: list[Estimate]) -> str:
    weights: dict[str, float] = {}
    for p in parts:
        weights[p.reason] = weights.get(p.reason, 0.0) + p.value
    return max(weights, key=lambda reason: weights[reason])
