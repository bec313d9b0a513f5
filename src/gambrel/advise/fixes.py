"""What would make a failed check pass: the catalogue's changes, tried one by one, then together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import isclose
from typing import Final

import msgspec

from gambrel.advise.changes import (
    CATALOGUE,
    Effort,
    Scenario,
    describe_changes,
    effort_of,
    parse_change,
)
from gambrel.advise.check import Check, Fix, judge_point
from gambrel.advise.explore import Changes, Explorer, kinds_of
from gambrel.advise.fitting import fitting
from gambrel.advise.limits import Limit
from gambrel.advise.verdict import Constraint, Verdict, worst

#: Fixes that are listed.
_LISTED = 3
#: Changes that are combined at most, before retraining.
_DEEPEST = 3
#: Metrics that a larger batch may improve; it lengthens the latency and needs more memory.
_PER_ITEM: Final = frozenset({"throughput", "power", "energy", "efficiency"})


def fixes(
    case: Scenario, limits: Sequence[Limit], without: Collection[str] = ()
) -> tuple[Fix, ...]:
    """Changes with which the limits are met, what costs a user least first.

    Single changes where any passes; else a combination, greedily built, beside single changes that
    are marginal; else what comes closest, whose verdict is still FAIL. What needs retraining is
    combined only where nothing else is enough, and another model or device not at all. Empty when
    nothing comes closer.

    Args:
        case: What failed.
        limits: What it failed.
        without: Kinds of change that are not to be tried.
    """
    return _fixes(Explorer(case), limits, without)


def _fixes(
    explorer: Explorer, limits: Sequence[Limit], without: Collection[str]
) -> tuple[Fix, ...]:
    missed = judge_point(explorer.start, limits)
    texts = [t for t in _candidates(explorer, missed) if parse_change(t)[0] not in without]
    # A wider range alone reaches a limit without coming closer to it.
    gap = _short(missed)
    tried = [
        fix
        for text in texts
        if (fix := _fix(explorer, (text,), limits))
        and (fix.verdict is not Verdict.MARGINAL or _short(fix.constraints) < gap)
    ]
    enough = [fix for fix in tried if fix.verdict.meets]
    if any(fix.verdict is Verdict.PASS for fix in enough):
        return tuple(_cheapest(enough)[:_LISTED])
    start = _distance(missed)
    closer = [fix for fix in tried if _distance(fix.constraints) < start]
    # What alone changes nothing, behind the host, may count once another change has been made.
    hidden = [
        fix for fix in tried if fix not in closer and _alike(_distance(fix.constraints), start)
    ]
    best = [
        fix
        for fix in _combined(explorer, [*closer, *hidden], limits)
        if _distance(fix.constraints) < start
    ]
    others = [fix for fix in closer if _needs(fix) is Effort.REPLACE]
    nearest = [min(others, key=lambda fix: _distance(fix.constraints))] if others else []
    if not enough and best and best[0].verdict.meets:
        nearest = []
    return tuple(_cheapest([*best, *enough, *nearest])[:_LISTED])


def with_fixes(
    found: Check, case: Scenario, limits: Sequence[Limit], without: Collection[str] = ()
) -> Check:
    """A failed check with what would make it pass; any other one as it is."""
    if found.verdict is not Verdict.FAIL:
        return found
    explorer = Explorer(case)
    tried = _fixes(explorer, limits, without)
    notes = (*fitting(explorer), *found.notes)
    return msgspec.structs.replace(found, fixes=tried, notes=notes)


def _candidates(explorer: Explorer, missed: Sequence[Constraint]) -> Iterator[str]:
    """Changes that may help; a larger batch helps nothing but figures per item."""
    per_item = any(c.metric in _PER_ITEM and c.verdict is not Verdict.PASS for c in missed)
    for name in CATALOGUE:
        if name != "batch" or per_item:
            yield from explorer.proposals(name)
    batch = explorer.case.sizes.get("batch", 1)
    while batch > 1:
        batch //= 2
        yield f"batch={batch}"


def _fix(explorer: Explorer, changes: Changes, limits: Sequence[Limit]) -> Fix | None:
    """The changes, applied; None where they do not apply or what they lead to is unknown."""
    point = explorer.tried(changes)
    if point is None:
        return None
    constraints = judge_point(point, limits)
    verdict = worst(c.verdict for c in constraints)
    if verdict is Verdict.UNKNOWN and explorer.start.facts.expected is not None:
        return None
    return Fix(
        changes=changes,
        about=describe_changes(changes),
        verdict=verdict,
        constraints=constraints,
    )


def _cheapest(found: list[Fix]) -> list[Fix]:
    """One of each kind, PASS before MARGINAL, in the order of the catalogue."""
    ranked = sorted(found, key=lambda fix: fix.verdict is not Verdict.PASS)  # a stable sort
    kinds: dict[frozenset[str], Fix] = {}
    for fix in ranked:
        kinds.setdefault(kinds_of(fix.changes), fix)
    return list(kinds.values())


def _combined(explorer: Explorer, closer: list[Fix], limits: Sequence[Limit]) -> list[Fix]:
    """The best combination of what leaves the model as trained; with retraining if that misses."""
    plain = [fix for fix in closer if _needs(fix) < Effort.RETRAIN]
    trained = [fix for fix in closer if _needs(fix) is Effort.RETRAIN]
    best = _stacked(explorer, None, plain, limits)
    if best is None or not best.verdict.meets:
        best = _stacked(explorer, best, trained, limits)
    return [best] if best else []


def _needs(fix: Fix) -> Effort:
    return effort_of(fix.changes)


def _stacked(
    explorer: Explorer, best: Fix | None, singles: list[Fix], limits: Sequence[Limit]
) -> Fix | None:
    """Adds the change that comes closest, until all limits pass or nothing comes closer."""
    nearest = sorted(singles, key=lambda fix: _distance(fix.constraints))
    best = best or next(iter(nearest), None)
    if best is None:
        return None
    # Of each kind the value that comes closest alone: one format of int8 and fp8 is enough.
    of_kind = {parse_change(fix.changes[0])[0]: fix for fix in reversed(nearest)}
    for _ in range(_DEEPEST - 1):
        longer = [
            fix
            for other in of_kind.values()
            if not kinds_of(other.changes) & kinds_of(best.changes)
            and (fix := _fix(explorer, (*best.changes, *other.changes), limits))
        ]
        closest = min(longer, key=lambda fix: _distance(fix.constraints), default=best)
        if _distance(closest.constraints) >= _distance(best.constraints):
            break
        best = closest
        if best.verdict is Verdict.PASS:
            break
    return best


def _distance(constraints: Sequence[Constraint]) -> tuple[int, float]:
    """How far from a PASS: the overall verdict, then the least headroom of what does not pass."""
    return worst(c.verdict for c in constraints).rank, _short(constraints)


def _alike(one: tuple[int, float], other: tuple[int, float]) -> bool:
    """Whether two distances are of one verdict and differ by rounding at most."""
    return one[0] == other[0] and isclose(one[1], other[1], rel_tol=1e-3)


def _short(constraints: Sequence[Constraint]) -> float:
    """By how much the worst of what does not pass is missed, as expected."""
    open_ = [c for c in constraints if c.verdict is not Verdict.PASS]
    return max((-c.headroom for c in open_ if c.headroom is not None), default=0.0)
