"""The expected time of ops on one device: formula, constants, range and confidence together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from gambrel import roofline
from gambrel.analysis.estimate import probed, written
from gambrel.analysis.estimate.chip import chip_of, half_peak
from gambrel.analysis.estimate.classes import FRESH_KEY
from gambrel.analysis.estimate.constants import EDGES_S, Calibration, packaged
from gambrel.analysis.estimate.features import STORED, Rule, Task
from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.formula_input import FormulaInput, Predicted
from gambrel.analysis.estimate.kinship import FRAMEWORKS, LEVELS, Chosen, choose, kin_of, own_forms
from gambrel.analysis.estimate.op_traits import OpTraits, traits_of
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
    {
        "matmul",
        "grouped_matmul",
        "attention",
        "decode_attention",
        "latent_decode",
        "torch_matmul",
        "torch_attention",
    }
)
#: Further factors on the range of op classes that were not measured, by confidence.
_UNMEASURED: Final = {"high": (1.0, 1.0), "medium": (0.85, 1.3), "low": (0.6, 3.0)}
#: Cards without a power plug (75 W) clock by how well they are cooled: whole models on a T4 and a
#: P4 took 0.62 to 0.90 of what their kernels, measured one by one on other such cards, add up to.
_UNPLUGGED_W: Final = 75.0
_COOLER: Final = 0.85


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
        self._machine: Chip | None = None
        self._missing: tuple[str, ...] = ()
        if self._kin is not None and roofs.memory_byte_per_s and not roofs.off_chip_only:
            self._machine, self._missing = chip_of(roofs.device, roofs.memory_byte_per_s, self._kin)
        self._chosen: dict[tuple[str, str], Chosen | None] = {}
        self._ranges: dict[tuple[int, str], list[tuple[float, float, str, str]]] = {}
        self._peaks: dict[tuple[Any, ...], float] = {}
        self._direct: dict[str, float | None] = {}
        self._half_peak = half_peak(roofs.device)
        self.byte_per_s = roofs.memory_byte_per_s
        self.above = above_rated(roofs.device)
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
        asked = self.formula_input(view, cost)
        return None if asked is None else asked.predicted(roofline_time_s)

    def _estimate(
        self, view: OpView, cost: Cost, roofline_time_s: float, count: int
    ) -> Estimate | None:
        own = self._measured_here(view, cost, roofline_time_s, count)
        if own is not None or self._machine is None:
            return own
        asked = self.formula_input(view, cost)
        if asked is None:
            return None
        one = asked.predicted(roofline_time_s / count)
        least = float(self.least(cost, one.floor))
        return self._ranged(asked, one, least, count)

    def least(self, cost: Cost, roofline_time_s: Size, count: int = 1) -> Size:
        """What no range goes below: a card's arithmetic may beat its printed peak, traffic not."""
        rate = self.byte_per_s
        sent = cost.link_bytes + cost.network_bytes
        if self.above == 1 or not rate or not is_zero(sent):
            return roofline_time_s
        moving = roofline.seconds((cost.read_bytes + cost.write_bytes) * count, rate)
        return minimum(roofline_time_s, maximum(moving, roofline_time_s / self.above))

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
        asked = self.formula_input(batch.view, batch.cost)
        if asked is None:
            return [None] * len(times)
        import numpy as np

        seconds = np.asarray(times)
        found = asked.predicted(seconds)
        parts = (found.seconds, found.launch, found.latency, self.least(batch.cost, found.floor))
        rows = zip(*(np.broadcast_to(part, len(times)).tolist() for part in parts), strict=True)
        return [
            self._ranged(asked, Predicted(seconds=s, launch=n, latency=wait), least, 1)
            for s, n, wait, least in rows
        ]

    def formula_input(self, view: OpView, cost: Cost) -> FormulaInput | None:
        """What the formula of an op is asked with here; None where nothing is known of the op."""
        if self._machine is None:
            return None
        return self.formula_of(traits_of(view, torch=self.torch), view, cost)

    def formula_of(self, traits: OpTraits, view: OpView, cost: Cost) -> FormulaInput | None:
        """As `formula_input`, where the traits of the op are known.

        Of an op with equal traits, and work of the same kinds, all but view and cost is the same.
        """
        if self._machine is None:
            return None
        rule, chosen = self._rule(traits)
        if chosen is None or self._lacks_peak(rule, cost):
            return None
        task = self._task(traits, view, cost)
        return FormulaInput(rule=rule, chosen=chosen, machine=self._machine, task=task)

    @property
    def torch(self) -> bool:
        """Whether PyTorch's own kernels run."""
        return self._framework == "torch"

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
        if not self.torch:
            return False
        return self._rule(traits_of(view, torch=True))[0].form == "torch_recurrent"

    def _ranged(self, asked: FormulaInput, one: Predicted, least: float, count: int) -> Estimate:
        """The estimate of ``count`` executions from the time of one, no range below ``least``."""
        low, high, confidence, reason = self.ranges(asked)[bisect_left(EDGES_S, one.seconds)]
        value = one.seconds * count
        return Estimate(
            value=value,
            low=max(least * count, value * low),
            high=value * high,
            confidence=confidence,
            reason=reason,
            launches_s=one.launch * count,
            idle_start_s=one.latency,
            caution=asked.chosen.caution_for(one.launch / one.seconds if one.seconds else 0.0),
        )

    def ranges(self, asked: FormulaInput) -> Sequence[tuple[float, float, str, str]]:
        """Of each bin of `EDGES_S` the factors on a time, confidence and its reason."""
        key = id(asked.chosen), asked.rule.least  # `_chosen` keeps the object, and so its id
        if key not in self._ranges:
            bins = range(len(EDGES_S) + 1)
            self._ranges[key] = [self._range(asked.rule, asked.chosen, bin_) for bin_ in bins]
        return self._ranges[key]

    def _range(self, rule: Rule, chosen: Chosen, bin_: int) -> tuple[float, float, str, str]:
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
            low=max(float(self.least(cost, roofline_time_s, count)), value * used.low * wider[0]),
            high=value * used.high * wider[1],
            confidence=probed.confidence_of(used, exact),
            reason=found.reason,
            launches_s=min(min(found.start_s, self._call_s) * count, value),
        )

    def task_of(self, view: OpView, cost: Cost) -> Task:
        """An op as the formulas see it on this device."""
        return self._task(traits_of(view, torch=self.torch), view, cost)

    def _task(self, traits: OpTraits, view: OpView, cost: Cost) -> Task:
        matrix_peak = self._peak(cost, Engine.MATRIX)
        return Task(
            view=view,
            cost=cost,
            matrix_peak=matrix_peak,
            pace=min(1.0, matrix_peak / self._half_peak) if self._half_peak else 1.0,
            vector_peak=self._peak(cost, Engine.VECTOR),
            direct_peak=self._direct_peak(traits.operands),
            link_byte_per_s=self._roofs.link_byte_per_s or 0.0,
            network_byte_per_s=self._roofs.network_byte_per_s or 0.0,
            scheme=self._scheme(traits, traits.scheme),
            compiled=self._compiled,
        )

    def _rule(self, traits: OpTraits) -> tuple[Rule, Chosen | None]:
        """The rule for an op, with its constants."""
        lanes = self._machine is not None and self._machine.vector_flop_per_s > 0
        if self.torch and lanes and traits.rule.form not in self._own:
            one = traits.wide if self._kin is not None and self._kin.alone else traits.torch
            chosen = None if one is None else self._constants(*one, traits)
            if one is not None and chosen is not None:
                return one[0], chosen
        return traits.rule, self._constants(traits.rule, traits.scheme, traits)

    def _constants(self, rule: Rule, scheme: str, traits: OpTraits) -> Chosen | None:
        kin = self._kin
        key = (rule.form, self._scheme(traits, scheme))
        if key not in self._chosen and kin is not None:
            self._chosen[key] = choose(
                *key, self._roofs.device, kin, self._calibration, self._framework
            )
        return self._chosen.get(key)

    def _scheme(self, traits: OpTraits, scheme: str) -> str:
        """That of the op; engines that serve language models quantise to fp8 as they go."""
        if traits.batch_of_weights and self._widens_batches():
            return "bf16"
        serves = self._framework not in ("any", "torch")
        if serves and scheme == f"fp8{STORED}":
            scheme = "fp8"
        return self._own_kernels(traits) if scheme == "fp8" else scheme

    def _own_kernels(self, traits: OpTraits) -> str:
        """The kernels of an engine for a product in fp8, where others than for a scale a tensor.

        Checkpoints that TensorRT-LLM runs carry the scales of activations. vLLM's kernels for
        experts with one scale a tensor, as they were measured, are no example for those with scales
        a block, nor for experts in mxfp4, for which nothing is quantised on the way.
        """
        product = traits.kind == "matmul" and not traits.batch_of_weights
        if self._framework == "trtllm" and product:
            return "static_scales"
        if self._framework == "vllm" and traits.kind == "grouped_matmul":
            return "static_scales" if traits.stored == "mxfp4" else "fp8_block"
        return "fp8"

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

    def _direct_peak(self, dtype: str) -> float | None:
        """Of the vector units in the format of a convolution's operands; None for other ops."""
        if not dtype:
            return None
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
