"""Does a model on a device meet what is required of it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gambrel import roofline
from gambrel.advise.figures import Figure, cautions, figure, items_of
from gambrel.advise.fleet import Point, point_of
from gambrel.advise.limits import Limit
from gambrel.advise.subjects import Subject
from gambrel.advise.verdict import Constraint, Verdict, expected_beyond, judge, worst
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import ASKED
from gambrel.collector import without_collector
from gambrel.device.model import Device
from gambrel.units import format_capacity, format_number, format_si
from gambrel.views import Viewed


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that were applied and analyzed again.

    Attributes:
        changes: As `gambrel what-if --change` takes them.
        about: What they are and what they cost.
        verdict: Overall, with them.
        constraints: Every requirement, with them.
    """

    changes: tuple[str, ...]
    about: str
    verdict: Verdict
    constraints: tuple[Constraint, ...]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime and a batch that were tried.

    Attributes:
        runtime: Id of the runtime.
        batch_size: Items at once.
        verdict: Overall.
        proof: Of a FAIL.
        expected_time_s: Of the batch; None when unknown.
    """

    runtime: str
    batch_size: int
    verdict: Verdict
    proof: str | None
    expected_time_s: float | None


class Check(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The answer to "does it meet the target?".

    Attributes:
        model: Name of the model.
        hardware: Id of the device.
        precision: Number format.
        runtime: Id of the runtime.
        sizes: Symbol → value.
        verdict: The worst of all requirements.
        proof: What a FAIL rests on: ``sol`` (no run meets it) or ``expected``; None otherwise.
        confidence: Of that verdict.
        reason: Of that verdict.
        constraints: One a requirement.
        fixes: For a verdict that is not met: changes that would meet it, best first.
        notes: What the user must know: choices made for them, contradictions, assumptions.
        sparsity: Whether matmuls with weights were held against sparse peaks.
        engine: The engine that matrix work was held against alone; empty for the rules.
        tried: Runtimes and batches that were tried; the answer is that of the best.
        asked: Field → texts of the question, for commands that ask more about the same.
    """

    model: str
    hardware: str
    precision: str
    runtime: str
    sizes: dict[str, int]
    verdict: Verdict
    confidence: str
    reason: str
    constraints: tuple[Constraint, ...]
    fixes: tuple[Fix, ...] = ()
    notes: tuple[str, ...] = ()
    sparsity: bool = False
    engine: str = ""
    proof: str | None = None
    tried: tuple[Trial, ...] = ()
    asked: dict[str, Any] = {}


def check(analysis: Analysis, limits: Sequence[Limit]) -> Check:
    """Judges an analysis against limits.

    Args:
        analysis: The model on the device.
        limits: At least one; see `gambrel.advise.limits.parse_limits`.
    """
    constraints = judge_point(point_of(analysis), limits)
    verdict = worst(c.verdict for c in constraints)
    proof = proof_of(constraints)
    decisive = next(c for c in constraints if c.verdict is verdict and c.proof == proof)
    return Check(
        model=analysis.model.name,
        hardware=analysis.hardware.id,
        precision=analysis.model.precision,
        runtime=analysis.runtime,
        sizes=dict(analysis.model.symbols),
        verdict=verdict,
        confidence=decisive.confidence,
        reason=f"{decisive.metric}: {decisive.reason}",
        constraints=constraints,
        notes=(
            *contradictions(limits, items_of(analysis)),
            *_precision_note(analysis),
            *cautions(analysis.expected_time_s),
            *analysis.assumptions,
        ),
        sparsity=analysis.sparsity,
        engine=analysis.engine,
        proof=proof,
    )


def proof_of(constraints: Sequence[Constraint]) -> str | None:
    """What the FAIL of any requirement rests on: one that is proved is enough."""
    proofs = {c.proof for c in constraints}
    return next((p for p in ("sol", "expected") if p in proofs), None)


def tried_batches(subject: Subject, limits: Sequence[Limit], step: int = 2) -> list[int]:
    """The batches at which limits may be met, smallest first; ``[0]`` is the one asked for.

    Args:
        subject: The model.
        limits: Only a throughput is helped by a larger batch.
        step: From one batch to the next.
    """
    open_ = [b for b in subject.batches() if any(x.metric == "throughput" for x in limits)]
    return [b for b in open_ if (b.bit_length() - 1) % (step.bit_length() - 1) == 0] or [0]


@without_collector()
def trials(
    subject: Subject, device: Device, precision: str | None, limits: Sequence[Limit]
) -> list[tuple[Trial, tuple[Constraint, ...]]]:
    """Every runtime of a device at every batch that fits and may help, the best first."""
    found = []
    for batch in tried_batches(subject, limits):
        points = subject.points(device, precision, None, batch)
        found += [(*_trial(point, limits), figure(point.facts, "latency")) for point in points]
        if all(point.fits is False for point in points):
            break
    proved = all(trial.proof == "sol" for trial, _, _ in found)
    found.sort(key=lambda one: _standing(*one, proved=proved))
    return [(trial, constraints) for trial, constraints, _ in found]


def _trial(point: Point, limits: Sequence[Limit]) -> tuple[Trial, tuple[Constraint, ...]]:
    constraints = judge_point(point, limits)
    expected = point.facts.expected
    trial = Trial(
        runtime=point.runtime,
        batch_size=point.facts.items,
        verdict=worst(c.verdict for c in constraints),
        proof=proof_of(constraints),
        expected_time_s=expected.value if expected else None,
    )
    return trial, constraints


def _standing(
    trial: Trial, constraints: Sequence[Constraint], latency: Figure, *, proved: bool
) -> tuple[Any, ...]:
    """Sorts best first; a FAIL is proved only where every one is."""
    item_s = None if latency.counted is None else latency.counted / trial.batch_size
    return (
        trial.verdict.rank,
        expected_beyond(trial.verdict, constraints),
        trial.proof == "sol" and not proved,
        # A miss by an expected time says more than one by the speed of light alone.
        trial.verdict is Verdict.FAIL and item_s is None,
        _step(1 + missed_by(constraints)),
        item_s is None,
        _step(item_s),
        trial.batch_size,
        item_s or 0.0,
    )


def _step(value: float | None) -> int:
    """Values of one step are as good as each other: of batches the smallest is taken then."""
    return math.floor(math.log(value) / _STEP) if value else 0


_STEP: Final = math.log(1.03)


def judge_point(point: Point, limits: Sequence[Limit]) -> tuple[Constraint, ...]:
    """Every limit; and the memory of the device where the model does not fit into it."""
    found = tuple(judge(point.facts, limit) for limit in limits)
    if point.fits is not False or point.capacity_bytes is None:
        return found
    beyond = judge(point.facts, Limit(metric="memory", value=float(point.capacity_bytes)))
    why = f"does not fit into the {format_capacity(point.capacity_bytes)} of the device"
    return (*found, msgspec.structs.replace(beyond, metric="capacity", reason=why))


def missed_by(constraints: Sequence[Constraint]) -> float:
    """By which share of a limit the worst missed one is exceeded; 0 when none is missed."""
    missed = [c for c in constraints if c.verdict is Verdict.FAIL]
    return max((-(c.headroom if c.headroom is not None else -1.0) for c in missed), default=0.0)


def contradictions(limits: Sequence[Limit], items: int) -> tuple[str, ...]:
    """Limits that ask for less than another one implies, in sentences.

    Args:
        limits: What is required.
        items: Of a batch.
    """
    wanted = {limit.metric: limit.value for limit in limits}
    latency, rate = wanted.get("latency"), wanted.get("throughput")
    if latency is None or rate is None or rate * latency <= items:
        return ()
    every = format_si(roofline.seconds(items, rate), "s")
    return (
        f"{format_number(rate)} items/s at batch {items} need a batch every {every}, less than the "
        f"{format_si(latency, 's')} of the latency limit: raise the batch or the throughput limit "
        "decides.",
    )


def _precision_note(analysis: Analysis) -> tuple[str, ...]:
    reason = analysis.model.precision_reason
    return () if reason == ASKED else (f"{reason.rstrip('.')}.",)
