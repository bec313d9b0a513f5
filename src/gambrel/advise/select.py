"""Which device: ranks what meets the limits; near misses and unknowns stand apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec

from gambrel.advise.check import contradictions, judge_point, missed_by, tried_batches
from gambrel.advise.compare import Grid, Row, all_cautions, check_metrics, rank, row_of
from gambrel.advise.fleet import Fleet, Point
from gambrel.advise.limits import METRICS, Limit
from gambrel.advise.subjects import LARGEST_BATCH, Contender, Subject, prepare
from gambrel.advise.verdict import Constraint, Verdict, expected_beyond, worst
from gambrel.analysis.roofs import roofs_of
from gambrel.collector import without_collector
from gambrel.device.model import Device
from gambrel.device.roofs import resolve
from gambrel.dtypes import BITS
from gambrel.views import Viewed

#: Number format and runtime, see `Contender.kind`.
_Kind: TypeAlias = tuple[str | None, str]
#: A device that misses limits by no more than this share of each is called a near miss.
NEAR: Final = 0.25
#: The first batches that are tried are so far apart.
_APART: Final = 16
#: Up to so much beyond a limit, the batches beside a FAIL and beside a MARGINAL are tried.
_IN_REACH: Final = {Verdict.FAIL: 2.0, Verdict.MARGINAL: 1.25}
#: What a larger batch may bring about; it needs no less power, memory and time to a result.
_HELPED: Final = frozenset({"throughput", "energy", "efficiency"})


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A device with its verdict.

    Attributes:
        row: Its figures.
        verdict: The worst of all limits.
        constraints: One a limit.
        reason: Why it is not met or not known; empty for PASS.
        strain: Of an unknown: how much would have to come true, from 0 (little) to 1 (everything,
            or nothing bounds it).
        met_if: The same in words, e.g. ``"latency at 1% of roofline"``: that much is enough; empty
            where nothing bounds it.
    """

    row: Row
    verdict: Verdict
    constraints: tuple[Constraint, ...]
    reason: str
    strain: float = 0.0
    met_if: str = ""


class Selection(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """Devices by how they meet the limits; each group best first.

    Attributes:
        model: Name of the model.
        limits: What was required.
        sort: The metric that ranks within a group.
        meets: The answer: PASS, then MARGINAL, of these last the ones that miss a limit by their
            expected value (`gambrel.advise.verdict.expected_beyond`).
        unknown: A needed figure is unknown, none is missed; first where least would have to come
            true.
        over_power: The design power is above the limit, and neither a power mode nor a typical or
            measured figure says that less is drawn: not impossible, but nothing speaks for it.
        near: Every missed limit is missed by 25 % or less.
        failed: Ids of the devices that miss more.
        refused: Ids of the devices that lack what was asked for: a format, an engine, sparsity.
        notes: Choices made for the user.
    """

    model: str
    limits: tuple[Limit, ...]
    sort: str
    meets: tuple[Candidate, ...]
    unknown: tuple[Candidate, ...]
    near: tuple[Candidate, ...]
    failed: tuple[str, ...]
    refused: tuple[str, ...] = ()
    over_power: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Selection: {self.model}: {len(self.meets)} devices meet all limits, "
            f"{len(self.unknown)} may, {len(self.near)} nearly do, "
            f"{len(self.failed) + len(self.over_power)} do not>"
        )


@without_collector()
def select(
    over: Grid, limits: Sequence[Limit], sort: str = "latency", notes: Sequence[str] = ()
) -> Selection:
    """Devices for one model; of precisions, runtimes and open batches each device takes its best.

    Args:
        over: One model, the devices, the precisions to choose from, the prices.
        limits: At least one.
        sort: Metric that ranks within a group.
        notes: To carry along.

    Raises:
        UnknownNameError: No such metric.
    """
    check_metrics([sort])
    subject = over.subjects[0]
    subject.refuse_idle(over.devices, over.precisions)
    able = {
        d.id: _formats(subject, d, over) if subject.fleet().takes(d) else [] for d in over.devices
    }
    best = _search(subject, over, limits, sort, able)
    found = [c for c in best.values() if c is not None]
    found.sort(
        key=lambda c: (
            c.verdict.rank,
            expected_beyond(c.verdict, c.constraints),
            *rank(c.row, sort),
        )
    )
    unknown = [c for c in found if c.verdict is Verdict.UNKNOWN]
    hungry = _hungry(over.devices, limits)
    unknown.sort(key=lambda c: (c.row.hardware in hungry, c.strain, *rank(c.row, sort)))
    near = [c for c in found if _nearly(c)]
    near.sort(key=lambda c: (missed_by(c.constraints), *rank(c.row, sort)))
    met = tuple(c for c in found if c.verdict.meets)
    return Selection(
        model=subject.fleet().name,
        limits=tuple(limits),
        sort=sort,
        meets=met,
        unknown=tuple(c for c in unknown if not _over_power(c)),
        near=tuple(near),
        failed=tuple(
            id_
            for id_, c in best.items()
            if able[id_] and (c is None or (c.verdict is Verdict.FAIL and not _nearly(c)))
        ),
        refused=tuple(id_ for id_, formats in able.items() if not formats),
        over_power=tuple(filter(_over_power, unknown)),
        notes=(
            *contradictions(limits, subject.fleet().sizes.get("batch", 1)),
            *notes,
            *all_cautions(c.row for c in (*met, *near)),
        ),
    )


def _hungry(devices: Sequence[Device], limits: Sequence[Limit]) -> set[str]:
    """Devices of unknown power in whose class none is known to draw as little as is allowed."""
    most = min((limit.value for limit in limits if limit.metric == "power"), default=math.inf)
    least: dict[str, float] = {}
    for device in devices:
        if device.tdp_w:
            least[device.category] = min(device.tdp_w, least.get(device.category, math.inf))
    return {d.id for d in devices if not d.tdp_w and least.get(d.category, 0.0) > most}


def _over_power(candidate: Candidate) -> bool:
    """Whether the design power alone is known, and above the limit."""
    return any(
        c.metric == "power"
        and c.verdict is Verdict.UNKNOWN
        and c.figure.worst is not None
        and c.figure.worst > c.limit
        for c in candidate.constraints
    )


class _Search:
    """The best runtime, format and batch on a device.

    What misses a limit at the speed of light fails, and by no less than that: it is evaluated only
    where nothing else meets the limits and it may come near. Larger batches are tried of the
    runtimes and formats that they may help: first a few far apart, then those beside one that
    comes near, and those between one that is too slow and one that takes too long or too much.

    Args:
        subject: The model.
        device: The device.
        formats: Number formats to choose from; none where no runtime there takes one.
        price: What the device costs.
        limits: What is required.
        sort: Metric that ranks.
    """

    def __init__(
        self,
        subject: Subject,
        device: Device,
        formats: Sequence[str | None],
        price: float | None,
        limits: Sequence[Limit],
        sort: str,
    ) -> None:
        self.device = device
        self.best: Candidate | None = None
        self._subject, self._limits, self._sort = subject, limits, sort
        self._formats, self._price = formats, price
        self._short: dict[_Kind, int] = {}  # where only what larger batches help was missed
        self._worth: dict[_Kind, set[int]] = {}
        self._close: dict[_Kind, dict[int, float]] = {}  # batch → what it uses of the limits
        self._nearest: _Kind | None = None
        self._near: list[Contender] = []
        self._settled: set[_Kind] = set()
        self._fitting: list[_Kind] = []
        self._over = False

    def at(self, batch: int) -> list[Contender]:
        """What may meet the limits at a batch; none where the search is over."""
        if self._over:
            return []
        found = []
        self._fitting = []
        for one in self._contenders(batch):
            if one.kind in self._settled:
                continue
            point = one.best_case()
            verdicts = judge_point(point, self._limits)
            missed = missed_by(verdicts)
            if 0 < missed <= NEAR:
                self._near.append(one)
            if _beyond_help(verdicts):
                self._settled.add(one.kind)
                between = _between(self._short.get(one.kind, batch), batch)
                self._worth.setdefault(one.kind, set()).update(between)
            if not missed:
                found.append(one)
            if point.fits is not False:
                self._fitting.append(one.kind)
        return found

    def between(self, batch: int) -> list[Contender]:
        """What may meet the limits at a batch that was left out, where nothing passed."""
        if self.best is not None and self.best.verdict is Verdict.PASS:
            return []
        kinds = {kind for kind, worth in self._worth.items() if batch in worth}
        if self._nearest is not None and self._beside_the_best(self._nearest, batch):
            kinds.add(self._nearest)
        if not kinds:
            return []
        return [
            one
            for one in self._contenders(batch)
            if one.kind in kinds and not missed_by(judge_point(one.best_case(), self._limits))
        ]

    def _beside_the_best(self, kind: _Kind, batch: int) -> bool:
        """Whether a batch is next to the one that comes nearest, of those tried so far."""
        close = self._close.get(kind)
        if not close:
            return False
        best = min(close, key=lambda b: close[b])
        step = 4 if batch.bit_length() % 2 else 2
        return batch in (best * step, best // step)

    def _contenders(self, batch: int) -> list[Contender]:
        return [
            one
            for precision in self._formats
            for one in self._subject.contenders(self.device, precision, self._price, batch)
        ]

    def take(self, possible: Sequence[Contender]) -> None:
        """Judges what may meet the limits."""
        for one in possible:
            candidate = judged(one.fleet, self.device, one.point(), self._limits)
            self.best = _better(self.best, candidate, self._sort)
            if self.best is candidate:
                self._nearest = one.kind
            self._note(one, candidate)
            if _settled(candidate, one.point(), self._sort):
                self._settled.add(one.kind)
        met = self.best is not None and self.best.verdict is Verdict.PASS
        self._over = met or self._settled.issuperset(self._fitting)

    def _note(self, one: Contender, candidate: Candidate) -> None:
        """What a judgement says of other batches."""
        batch = one.point().facts.items
        helped = [c for c in candidate.constraints if c.metric in _HELPED]
        others = {c.verdict for c in candidate.constraints if c.metric not in _HELPED}
        short = any(c.verdict is not Verdict.PASS for c in helped)
        worth = self._worth.setdefault(one.kind, set())
        if others & {Verdict.FAIL, Verdict.MARGINAL}:
            if Verdict.FAIL in others:
                worth.difference_update([b for b in worth if b > batch])
            worth.update(_between(self._short.get(one.kind, batch), batch))
        elif short and all(_in_reach(c) for c in helped):
            self._close.setdefault(one.kind, {})[batch] = max(map(_used, helped))
        elif short:
            worth.difference_update([b for b in worth if b < batch])
        if short and Verdict.FAIL not in others:
            self._short[one.kind] = batch

    def closest(self) -> list[Contender]:
        """What comes near, where nothing meets the limits."""
        return self._near if self.best is None or self.best.verdict is Verdict.FAIL else []


def _search(
    subject: Subject,
    over: Grid,
    limits: Sequence[Limit],
    sort: str,
    able: Mapping[str, Sequence[str | None]],
) -> dict[str, Candidate | None]:
    """The best on each device; None where none is even a near miss."""
    searches = [
        _Search(subject, device, able[device.id], over.prices.get(device.id), limits, sort)
        for device in over.devices
    ]
    apart = tried_batches(subject, limits, step=_APART)
    for batch in apart:
        possible = [one.at(batch) for one in searches]
        prepare(chain.from_iterable(possible))
        for one, found in zip(searches, possible, strict=True):
            one.take(found)
    nearer = tried_batches(subject, limits, step=4)
    every = tried_batches(subject, limits)
    for batch in dict.fromkeys(b for b in (*nearer, *every) if b not in apart):
        possible = [one.between(batch) for one in searches]
        prepare(chain.from_iterable(possible))
        for one, found in zip(searches, possible, strict=True):
            one.take(found)
    prepare(chain.from_iterable(one.closest() for one in searches))
    for one in searches:
        one.take(one.closest())
    return {one.device.id: one.best for one in searches}


def _between(after: int, before: int) -> list[int]:
    """Batches of which none is tried at first."""
    powers = (1 << n for n in range(LARGEST_BATCH.bit_length()))
    return [b for b in powers if after < b < before]


def _in_reach(constraint: Constraint) -> bool:
    """Whether the verdict of a limit could be another one at a batch a little faster."""
    if constraint.verdict is Verdict.PASS:
        return True
    return _used(constraint) <= _IN_REACH.get(constraint.verdict, 0.0)


def _used(constraint: Constraint) -> float:
    """How much of a limit the end of the range uses at which the verdict becomes a better one.

    A FAIL ends where the good end meets the limit, a PASS begins where the other one does.
    """
    found, limit = constraint.figure, constraint.limit
    more = METRICS[constraint.metric].more_is_better
    end = found.high if more is (constraint.verdict is Verdict.FAIL) else found.low
    if not end:
        return math.inf
    return limit / end if more else end / limit


def _beyond_help(constraints: Sequence[Constraint]) -> bool:
    """Whether a limit that larger batches do not help is missed by too much."""
    return missed_by([c for c in constraints if c.metric not in _HELPED]) > NEAR


def _settled(candidate: Candidate, point: Point, sort: str) -> bool:
    """Whether larger batches cannot stand better.

    Without an expected time there is none at larger batches either; else where something is missed
    that they do not help, or where all that they help is met (and does not rank). A design power
    above the limit stays so.
    """
    if candidate.verdict is Verdict.UNKNOWN and point.facts.expected is None:
        return True
    helped = [c.verdict for c in candidate.constraints if c.metric in _HELPED]
    others = [c.verdict for c in candidate.constraints if c.metric not in _HELPED]
    met = sort not in _HELPED and all(v is Verdict.PASS for v in helped)
    return met or Verdict.FAIL in others or _over_power(candidate)


def _formats(subject: Subject, device: Device, over: Grid) -> list[str | None]:
    """The formats to try: those that a runtime there takes, of several those with an engine."""
    able = [p for p in over.precisions if subject.runs(device, p)]
    several = len(over.precisions) > 1
    native = [p for p in able if not several or p is None or _native(device, p)]
    return native or able[:1]


def _better(best: Candidate | None, other: Candidate, sort: str) -> Candidate:
    if best is None or _standing(other, sort) < _standing(best, sort):
        return other
    return best


def _standing(candidate: Candidate, sort: str) -> tuple[Any, ...]:
    """Sorts best first; of those that fail, the one that misses least."""
    missed, order = missed_by(candidate.constraints), candidate.verdict.rank
    ranked = rank(candidate.row, sort)
    doubt = ranked[1] if candidate.verdict is Verdict.FAIL else 0
    beyond = expected_beyond(candidate.verdict, candidate.constraints)
    return order, beyond, doubt, missed, *ranked


def _native(device: Device, precision: str) -> bool:
    if precision not in BITS:
        return True  # part by part: it may be made of several formats
    roof = resolve(device, "matrix", precision)
    return roof is not None and roof.dtype == precision


def judged(fleet: Fleet, device: Device, point: Point, limits: Sequence[Limit]) -> Candidate:
    """A point against limits, and against the memory of the device."""
    constraints = judge_point(point, limits)
    verdict = worst(c.verdict for c in constraints)
    whole = roofs_of(device).memory_byte_per_s is not None
    strain, met_if = _strain(constraints, whole) if verdict is Verdict.UNKNOWN else (0.0, "")
    reasons = [f"{c.metric}: {c.reason}" for c in constraints if c.verdict is verdict]
    return Candidate(
        row=row_of(fleet, device, point),
        verdict=verdict,
        constraints=constraints,
        reason="" if verdict is Verdict.PASS else "; ".join(reasons),
        strain=strain,
        met_if=met_if,
    )


def _strain(constraints: Sequence[Constraint], whole: bool) -> tuple[float, str]:
    """What would have to come true for an unknown candidate to meet its limits.

    An open limit lies between the best and the worst that is possible. Where only the best is
    known, the run has to attain a share of it (limit 33 ms, bound 3.3 ms: 10 % of the roofline);
    where only the worst is, it has to stay below a share of it (limit 10 W, design power 40 W: a
    quarter). Where no memory roof is published (not ``whole``), a demand on the roofline counts as
    a half at least. The largest of these demands counts, from 0 (certain) to 1 (everything, or
    nothing is known), and is said in words.
    """
    demands = [
        demand
        for c in constraints
        if c.verdict is Verdict.UNKNOWN
        for demand in (_to_attain(c, whole), _to_save(c))
        if demand is not None
    ]
    bounded = {text.split(" ", 1)[0] for _, text in demands}
    open_ = [c.metric for c in constraints if c.verdict is Verdict.UNKNOWN]
    if not open_:
        return 0.0, ""
    if any(metric not in bounded for metric in open_):
        return 1.0, ""
    # More than 1: a card would have to exceed its printed clock, which may be possible.
    largest = min(max(demands)[0], 1.0)
    return largest, "; ".join(dict.fromkeys(text for _, text in sorted(demands, reverse=True)))


def _to_attain(constraint: Constraint, whole: bool) -> tuple[float, str] | None:
    """The share of the best possible that is enough."""
    found, metric = constraint.figure, METRICS[constraint.metric]
    if metric.name not in {"latency", "throughput"} or found.best is None:
        return None
    used = constraint.limit / found.best if metric.more_is_better else found.best / constraint.limit
    share = f"{metric.name} at {used:.0%}"
    return (used, f"{share} of roofline") if whole else (max(used, 0.5), f"{share} of peak")


def _to_save(constraint: Constraint) -> tuple[float, str] | None:
    """The share of the worst possible that must not be used."""
    found, name = constraint.figure, constraint.metric
    if found.worst is None:
        return None
    more = METRICS[name].more_is_better
    share = found.worst / constraint.limit if more else constraint.limit / found.worst
    if share >= 1:
        return None
    return 1 - share, f"{name} at {share:.0%} of {'TDP' if name == 'power' else 'most'}"


def _nearly(candidate: Candidate) -> bool:
    return candidate.verdict is Verdict.FAIL and missed_by(candidate.constraints) <= NEAR
