"""Which device: ranks what meets the limits; near misses and unknowns stand apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gambrel.analysis.advise.check import judge_point, missed_by
from gambrel.analysis.advise.compare import Field, Row, check_metrics, rank, row_of
from gambrel.analysis.advise.fleet import Fleet, Point
from gambrel.analysis.advise.limits import METRICS, Limit
from gambrel.analysis.advise.verdict import Constraint, Verdict, worst
from gambrel.device.model import Device
from gambrel.device.roofs import resolve

#: A device that misses limits by no more than this share of each is called a near miss.
NEAR: Final = 0.25


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A device with its verdict.

    Attributes:
        row: Its figures.
        verdict: The worst of all limits.
        constraints: One a limit.
        reason: Why it is not met or not known; empty for PASS.
    """

    row: Row
    verdict: Verdict
    constraints: tuple[Constraint, ...]
    reason: str


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Devices by how they meet the limits; each group best first.

    Attributes:
        model: Name of the model.
        limits: What was required.
        sort: The metric that ranks within a group.
        meets: PASS, then MARGINAL: the answer.
        unknown: A needed figure is unknown, none is missed; the least open ones first.
        near: Every missed limit is missed by 25 % or less.
        failed: Ids of the devices that miss more.
        notes: Choices made for the user.
    """

    model: str
    limits: tuple[Limit, ...]
    sort: str
    meets: tuple[Candidate, ...]
    unknown: tuple[Candidate, ...]
    near: tuple[Candidate, ...]
    failed: tuple[str, ...]
    notes: tuple[str, ...] = ()


def select(
    field: Field, limits: Sequence[Limit], sort: str = "latency", notes: Sequence[str] = ()
) -> Selection:
    """Devices for one model; of several precisions each device takes its best.

    Args:
        field: One model, the devices, the precisions to choose from, the prices.
        limits: At least one.
        sort: Metric that ranks within a group.
        notes: To carry along.

    Raises:
        UnknownNameError: No such metric.
    """
    check_metrics([sort])
    fleet = field.fleets[0]
    found = [_best(fleet, device, field, limits, sort) for device in field.devices]
    found.sort(key=lambda c: (_ORDER[c.verdict], *rank(c.row, sort)))
    failed = [c for c in found if c.verdict is Verdict.FAIL]
    unknown = [c for c in found if c.verdict is Verdict.UNKNOWN]
    near = [c for c in failed if _nearly(c)]
    near.sort(key=lambda c: (missed_by(c.constraints), *rank(c.row, sort)))
    return Selection(
        model=fleet.name,
        limits=tuple(limits),
        sort=sort,
        meets=tuple(c for c in found if c.verdict.meets),
        unknown=tuple(sorted(unknown, key=lambda c: (*_doubt(c), *rank(c.row, sort)))),
        near=tuple(near),
        failed=tuple(c.row.hardware for c in failed if not _nearly(c)),
        notes=tuple(notes),
    )


_ORDER: Final = {verdict: i for i, verdict in enumerate(Verdict)}


def _best(
    fleet: Fleet, device: Device, field: Field, limits: Sequence[Limit], sort: str
) -> Candidate:
    several = len(field.precisions) > 1
    native = [p for p in field.precisions if not several or p is None or _native(device, p)]
    found = [
        judged(fleet, device, fleet.on(device, p, field.prices.get(device.id)), limits)
        for p in native or field.precisions[:1]
    ]
    return min(found, key=lambda c: (_ORDER[c.verdict], *rank(c.row, sort)))


def _native(device: Device, precision: str) -> bool:
    roof = resolve(device, "matrix", precision)
    return roof is not None and roof.dtype == precision


def judged(fleet: Fleet, device: Device, point: Point, limits: Sequence[Limit]) -> Candidate:
    """A point against limits, and against the memory of the device."""
    constraints = judge_point(point, limits)
    verdict = worst(c.verdict for c in constraints)
    reasons = [f"{c.metric}: {c.reason}" for c in constraints if c.verdict is verdict]
    return Candidate(
        row=row_of(fleet, device, point),
        verdict=verdict,
        constraints=constraints,
        reason="" if verdict is Verdict.PASS else "; ".join(reasons),
    )


def _doubt(candidate: Candidate) -> tuple[int, bool, float]:
    """How far from certain: figures that nothing limits, other doubts, the worst it could be."""
    verdicts = [c.verdict for c in candidate.constraints]
    open_ = [c for c in candidate.constraints if c.verdict is Verdict.UNKNOWN]
    shares = [_worst_share(c) for c in open_]
    known = [share for share in shares if share is not None]
    return len(shares) - len(known), Verdict.MARGINAL in verdicts, max(known, default=0.0)


def _worst_share(constraint: Constraint) -> float | None:
    """The share of the limit that the worst possible run uses; None when nothing bounds it."""
    found = constraint.figure.worst
    if found is None:
        return None
    more = METRICS[constraint.figure.metric].more_is_better
    return constraint.limit / found if more else found / constraint.limit


def _nearly(candidate: Candidate) -> bool:
    return candidate.verdict is Verdict.FAIL and missed_by(candidate.constraints) <= NEAR
