"""Expected times where few whole runs were measured: shares of the roofs that a class attains.

Devices under llama.cpp, say, TPUs or Gaudis, where no single kernel was timed. Each op starts, then
its slowest part decides:

    t = start + max(bytes / (memory · bandwidth), FLOP / (compute · peak), weights · unpack / lanes,
                    bytes over the link / (link · its rate))

Where a matrix engine stands beside the vector units (AMX), it has a share of its own, and so may
attention, which finds less to do side by side in a cache than a product does in its weights;
collectives may start in another time. The peak of a matrix engine is that of its fastest sums:
libraries may add up products of 16 bits in 16 bits, which GeForce cards do at twice the rate. A run
may cost a fixed time besides. Where each unit runs a network by itself (NeuronCores), one input has
the bandwidth and the peak of one unit, and each unit at work reads the weights.

The peak of a processor is that at the clock which all of its cores hold: halfway between its base
clock and its highest, or the one that its power allows, by the energy of a FLOP that was fitted to
another runtime's runs on its process (`powered`). What its cores read and write may lie in their
caches, whose rate follows their clock and lanes as the peak does:

    t = start + max(bytes / (cached · peak), bytes / (memory · bandwidth), FLOP / (compute · peak))

Weights that are stored in blocks of a few bits are unpacked before they are multiplied: each takes
``unpack`` lane cycles (two FLOP of the vector peak). That is why a 4-bit model does not run four
times as fast as a 16-bit one where the lanes are few. Weights of fewer than four bits, whose parts
lie in several places of a block, may take more cycles (``unpack_few``). Of a mixture of experts
only the weights that are read are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate.batches import Batch
from gambrel.analysis.estimate.constants import Calibration, Cycles, Shares
from gambrel.analysis.estimate.engine import machine_of
from gambrel.analysis.estimate.engine_forms import running
from gambrel.analysis.estimate.formula_input import Predicted
from gambrel.analysis.estimate.language_constants import LanguageBasis
from gambrel.analysis.estimate.share_rates import ShareRates, units_of
from gambrel.analysis.measures import Estimate, Limiter
from gambrel.analysis.roofs import Roofs
from gambrel.device.model import Device
from gambrel.dtypes import BITS
from gambrel.ops import Cost, OpView
from gambrel.ops.base import Engine, Size, ceil_div, distinct_bytes, holds, minimum
from gambrel.roofline import maximum
from gambrel.runtimes import Runtime, matches

#: Work that has a roof of its own; special functions are left out, as in the roofline.
_COUNTED: Final = (Engine.MATRIX, Engine.VECTOR)
_WHOLE: Final = 16
#: Rows of a tile of the units that share a grid.
_TILE: Final = 32
#: Bits below which the parts of a weight lie in several places of its block.
_FEW: Final = 4
#: Formats of few bits that matrix engines multiply as they are.
_NATIVE: Final = frozenset({"fp8", "mxfp8", "fp6", "fp4", "mxfp4", "nvfp4"})
_WEIGHT: Final = "weight"
_ATTENTION: Final = "attention"
_COLLECTIVE: Final = "collective"
#: And its gradients.
_CONVOLUTION: Final = "convolution"
#: What a prediction rests on: its start, range, confidence and reason.
Basis: TypeAlias = Shares | Cycles | LanguageBasis
#: FLOP per byte below which the memory decides: the ridge points of processors and Apple GPUs lie
#: at 9 (Raspberry Pi 5) and above.
_THIN: Final = 8.0


def shares_of(runtime: Runtime, roofs: Roofs, calibration: Calibration) -> Shares | None:
    """The shares of a runtime on a class of device; None where nothing was measured."""
    if not roofs.memory_byte_per_s or roofs.off_chip_only:
        return None
    mine = (s for s in calibration.shares if s.runtime == runtime.id)
    found = next((s for s in mine if matches(s.match, roofs.device)), None)
    return powered(found, roofs.device, calibration) if found and found.power else found


def powered(shares: Shares, device: Device, calibration: Calibration) -> Shares:
    """Shares at the clock that a processor's power allows, where its process was measured."""
    own = (e for e in calibration.engines if e.runtime == shares.power)
    engine = next((e for e in own if matches(e.match, device)), None)
    if engine is None or not engine.flop_energy_of(device.architecture):
        return shares
    machine, _ = machine_of(device, engine)
    scale = running(engine.constants, machine).scale
    return msgspec.structs.replace(shares, clock=float(scale))


class OpsEstimator:
    """Predicts the ops of one analysis one after another: a start, then their work.

    Args:
        work: Seconds of an op without its start, and what they rest on; None where a roof that may
            decide is unknown.
        limiter: What decides the time of an op, where its rates say so and a datasheet may not;
            None: its roofline does.
        shares: Of its roofs that it takes, and whose fixed time a run costs besides its ops; None:
            it takes none, and no such time is known.
        rates: That the shares are of.
        inputs: Of a run, each of which one unit takes by itself; None: all units share the work.
        spread: The estimator of a run of so many inputs, where their number tells how much of the
            device works; None: all of it.
    """

    batched = True
    over_arrays = True
    partial = False

    def __init__(
        self,
        work: Callable[[OpView, Cost], tuple[Size, Basis] | None],
        *,
        limiter: Callable[[OpView, Cost], Limiter] | None = None,
        shares: Shares | None = None,
        rates: ShareRates | None = None,
        inputs: Size | None = None,
        spread: Callable[[Size], OpsEstimator] | None = None,
    ) -> None:
        self.work = work
        self.shares = shares
        self.rates = rates
        self.inputs = inputs
        self._spread = spread
        self.limiter = limiter

    def at(self, inputs: Size) -> OpsEstimator:
        """The estimator of a run of so many inputs."""
        return self if self._spread is None else self._spread(inputs)

    @property
    def run_s(self) -> float:
        """Fixed time of a run besides its ops, s."""
        return self.shares.step_s if self.shares else 0.0

    def of_run(self, ops: Estimate) -> Estimate:
        """The estimate of a run whose ops take so long together."""
        if self.shares is None or not self.shares.step_s:
            return ops
        fixed = self.shares.step_s
        return msgspec.structs.replace(
            ops,
            value=ops.value + fixed,
            low=ops.low + fixed * self.shares.low,
            high=ops.high + fixed * self.shares.high,
            launches_s=ops.launches_s + fixed,
        )

    def in_sequence(self, _: OpView) -> bool:
        """Never: each dependent step is an op that starts."""
        return False

    def seconds(self, view: OpView, cost: Cost, roofline_time_s: Size) -> Predicted | None:
        """Of one execution, for scalars or arrays; None where a roof that may decide is unknown."""
        found = self.work(view, cost)
        return None if found is None else _predicted(*found, roofline_time_s)

    def estimate(
        self, view: OpView, cost: Cost, roofline_time_s: float | None, count: int = 1
    ) -> Estimate | None:
        """Of ``count`` executions, with its range."""
        least = roofline_time_s or 0.0
        found = self.work(view, cost)
        if found is None:
            return None
        one = _predicted(*found, least / count)
        return _ranged(found[1], one.seconds * count, one.launch * count, least)

    def estimate_batch(self, batch: Batch, times: Sequence[float]) -> list[Estimate | None]:
        """Of one execution of each of some ops that differ in numbers only."""
        import numpy as np

        found = self.work(batch.view, batch.cost)
        if found is None:
            return [None] * len(times)
        one = _predicted(*found, np.asarray(times))
        seconds = np.broadcast_to(one.seconds, len(times)).tolist()
        launches = np.broadcast_to(one.launch, len(times)).tolist()
        return [_ranged(found[1], *each) for each in zip(seconds, launches, times, strict=True)]


def shares_estimator(roofs: Roofs, shares: Shares, inputs: Size | None = None) -> OpsEstimator:
    """Predicts ops from shares of the roofs of a device.

    Args:
        roofs: Of the device.
        shares: Of its class.
        inputs: Of a run, each of which one unit takes by itself; None: all units share the work.
    """
    return _estimator(ShareRates([(roofs, shares.clock)]), shares, inputs)


def together(estimators: Sequence[OpsEstimator]) -> OpsEstimator:
    """One for several devices whose rates are of one kind and whose shares differ in clocks only.

    Args:
        estimators: Of the devices, all from shares.
    """
    first, *others = estimators
    if not others or first.shares is None:
        return first
    rates = ShareRates([d for one in estimators if one.rates for d in one.rates.devices])
    return _estimator(rates, first.shares, first.inputs)


def _estimator(rates: ShareRates, shares: Shares, inputs: Size | None) -> OpsEstimator:
    low, high = shares.prompt or (shares.low, shares.high)
    prompts = msgspec.structs.replace(shares, low=low, high=high)
    talks = shares
    if shares.exchange_s is not None:
        talks = msgspec.structs.replace(shares, start_s=shares.exchange_s)

    def work(view: OpView, cost: Cost) -> tuple[Size, Basis] | None:
        found = parts_at(view, cost, rates, shares, inputs)
        if found is None:
            return None
        moved = cost.read_bytes + cost.write_bytes
        flops = sum(f for (engine, _), f in cost.work.items() if engine is Engine.MATRIX)
        if view.kind == _COLLECTIVE:
            return found, talks
        number = kernels(view, shares.pieces)
        return found, _started(shares if _streams(flops, moved) else prompts, number)

    def spread(inputs: Size) -> OpsEstimator:
        return _estimator(rates, shares, inputs)

    spreads = shares.apart and inputs is None
    return OpsEstimator(
        work, shares=shares, rates=rates, inputs=inputs, spread=spread if spreads else None
    )


def _started(basis: Shares, number: int) -> Shares:
    """The basis of an op of so many kernels."""
    if number == 1:
        return basis
    return msgspec.structs.replace(basis, start_s=number * basis.start_s)


def units_at_work(device: Device, inputs: Size) -> tuple[Size, float]:
    """The units of a device that so many inputs keep busy, one each, and all that it has."""
    every = units_of(device)
    return minimum(every, inputs), every


def read_again(view: OpView, units: Size) -> Size:
    """Bytes of weights that units beyond the first read for themselves."""
    return (units - 1) * distinct_bytes(tuple(t for t in view.inputs if t.role == _WEIGHT))


def _predicted(work: Size, basis: Basis, roofline_time_s: Size) -> Predicted:
    seconds = maximum(basis.start_s + work, roofline_time_s)
    return Predicted(seconds=seconds, launch=minimum(basis.start_s, seconds))


def _ranged(basis: Basis, seconds: float, launches_s: float, roofline_time_s: float) -> Estimate:
    value = max(roofline_time_s, seconds)
    return Estimate(
        value=value,
        low=max(roofline_time_s, value * basis.low),
        high=value * basis.high,
        confidence=basis.confidence,
        reason=basis.why,
        launches_s=launches_s,
    )


def parts(
    view: OpView, cost: Cost, roofs: Roofs, shares: Shares, inputs: Size | None = None
) -> Size | None:
    """Seconds of work without the start; None where a roof that may decide is unknown."""
    return parts_at(view, cost, ShareRates([(roofs, shares.clock)]), shares, inputs)


def parts_at(
    view: OpView, cost: Cost, rates: ShareRates, shares: Shares, inputs: Size | None = None
) -> Size | None:
    """As `parts`, at the rates of a device or of several side by side."""
    moved = cost.read_bytes + cost.write_bytes
    if inputs is not None:
        busy = minimum(rates.units, inputs)
        whole = _slowest(view, cost, rates, shares, moved + read_again(view, busy))
        return None if whole is None else whole * rates.units / busy
    return _slowest(view, cost, rates, shares, moved)


def _slowest(
    view: OpView, cost: Cost, rates: ShareRates, shares: Shares, moved: Size
) -> Size | None:
    stored = unpacked(view, cost)
    compute = shares.compute if stored is None else shares.compute_stored
    if view.kind == _ATTENTION:
        compute = shares.attention_compute or compute
    elif view.kind.startswith(_CONVOLUTION):
        compute = shares.convolution or compute
    slowest = _moving(view, moved, rates, shares)
    if view.kind == _COLLECTIVE and rates.link_byte_per_s:
        rate = shares.link * rates.link_byte_per_s
        slowest = maximum(slowest, roofline.seconds(cost.link_bytes, rate))
    for (engine, dtype), flops in cost.work.items():
        if engine not in counted(stored):
            continue
        peak = rates.peak(engine, dtype, cost.prunable)
        beside = shares.matrix is not None and rates.beside(dtype)
        share = shares.matrix if beside and shares.matrix is not None else compute
        measured = not shares.formats or dtype in shares.formats or engine is not Engine.MATRIX
        if peak is None or not share or not measured:  # unknown
            if engine is Engine.MATRIX and not _streams(flops, moved):
                return None
            continue
        done = flops if stored is None else flops * filled(view, shares.tile, shares.expert_tile)
        done = done * spread(view, shares.grid_rows)
        slowest = maximum(slowest, roofline.seconds(done, share * peak))
    lanes = None if stored is None else rates.lanes(shares.lanes_per_byte)
    if stored is not None and lanes:
        cycles = shares.unpack if shares.unpack_few is None or not few(view) else shares.unpack_few
        slowest = maximum(slowest, roofline.seconds(2 * cycles * stored, lanes))
    return slowest


def _moving(view: OpView, moved: Size, rates: ShareRates, shares: Shares) -> Size:
    """Seconds in which an op reads and writes."""
    memory = shares.memory
    if view.kind == _ATTENTION:
        memory = shares.attention or memory
        moved = moved * heads_per_cache(view) if shares.by_head else moved
    seconds = roofline.seconds(moved, memory * rates.memory_byte_per_s)
    lanes = rates.lanes(None) if shares.cached else None
    if not lanes or not shares.cached:
        return seconds
    return maximum(seconds, roofline.seconds(moved, shares.cached * lanes))


def heads_per_cache(view: OpView) -> Size:
    """Query heads that share a key and a value; 1 of prompts, whose queries share them besides."""
    heads = view.size("heads", 1)
    return heads / view.size("kv_heads", heads) if holds(view.size("q_len", 1) <= 1) else 1


def kernels(view: OpView, pieces: Mapping[str, tuple[int, int]]) -> int:
    """Kernels that an op is written with."""
    own, biased = pieces.get(view.kind, (1, 0))
    return own + biased if view.attrs.get("bias") else own


def filled(view: OpView, tile: int, expert_tile: int = 1) -> Size:
    """Rows that a product computes over those it was asked for; one row alone has its own kernel.

    Kernels that unpack weights on the way take so many rows at a time; each expert's last tile is
    half full.
    """
    if expert_tile > 1 and view.kind == "grouped_matmul" and holds(view.size("tokens") > 1):
        rows = view.size("rows")
        return 1 + minimum(view.size("experts"), rows) * expert_tile / 2 / rows
    rows = view.size("m", 1)
    if tile == 1 or view.kind != "matmul" or not holds(rows > 1):
        return 1
    return ceil_div(rows, tile) * tile / rows


def spread(view: OpView, grid_rows: int) -> Size:
    """Rows that the units have room for over those of the product, where they share its rows.

    A product of no more rows than a tile has is divided by columns.
    """
    rows = view.size("m", 1)
    if grid_rows == 1 or view.kind != "matmul" or not holds(rows > _TILE):
        return 1
    return ceil_div(rows, grid_rows) * grid_rows / rows


def counted(stored: Size | None) -> tuple[Engine, ...]:
    """Engines whose work counts: what unpacks weights on the vector units has its own constant."""
    return _COUNTED if stored is None else _COUNTED[:1]


def unpacked(view: OpView, cost: Cost) -> Size | None:
    """Weights that an op reads in fewer bits than it multiplies; None without any."""
    if view.kind == "embedding" or any(dtype in _NATIVE for _, dtype in cost.work):
        return None
    sizes = [
        minimum(t.elements, 8 / BITS[t.dtype] * cost.read_bytes)
        for t in view.inputs
        if t.role == _WEIGHT and BITS.get(t.dtype, _WHOLE) < _WHOLE
    ]
    return sum(sizes) if sizes else None


def few(view: OpView) -> bool:
    """Whether an op reads weights of fewer than four bits, which are put together from parts."""
    return any(t.role == _WEIGHT and BITS.get(t.dtype, _WHOLE) < _FEW for t in view.inputs)


def _streams(flops: Size, moved: Size) -> bool:
    """Whether work is so thin that the memory decides on any engine."""
    return holds(flops <= _THIN * moved)
