"""What would make a failed check pass: the catalogue's changes, tried one by one, then together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from gambrel.analysis.advise.changes import CATALOGUE, Case, describe_changes
from gambrel.analysis.advise.check import Check, Fix, judge_point
from gambrel.analysis.advise.explore import Changes, Explorer, kinds_of
from gambrel.analysis.advise.limits import Limit
from gambrel.analysis.advise.verdict import Constraint, Verdict, worst

#: Fixes that are listed.
_LISTED = 3
#: Changes that are combined at most.
_DEEPEST = 3


def fixes(case: Case, limits: Sequence[Limit]) -> tuple[Fix, ...]:
    """Changes with which the limits are met, what costs a user least first.

    Single changes where any passes; else a combination, greedily built, beside single changes that
    are marginal; else what comes closest, whose verdict is still FAIL. Empty when nothing comes
    closer.

    Args:
        case: What failed.
        limits: What it failed.
    """
    explorer = Explorer(case)
    tried = [fix for text in _candidates(explorer) if (fix := _fix(explorer, (text,), limits))]
    enough = [fix for fix in tried if fix.verdict.meets]
    if any(fix.verdict is Verdict.PASS for fix in enough):
        return tuple(_cheapest(enough)[:_LISTED])
    start = _distance(judge_point(explorer.start, limits))
    closer = [fix for fix in tried if _distance(fix.constraints) < start]
    if not closer:
        return ()
    best = _combined(explorer, closer, limits)
    return tuple(_cheapest([best, *enough])[:_LISTED])


def with_fixes(found: Check, case: Case, limits: Sequence[Limit]) -> Check:
    """A failed check with what would make it pass; any other one as it is."""
    if found.verdict is not Verdict.FAIL:
        return found
    return msgspec.structs.replace(found, fixes=fixes(case, limits))


def _candidates(explorer: Explorer) -> Iterator[str]:
    for name in CATALOGUE:
        yield from explorer.proposals(name)
    batch = explorer.case.sizes.get("batch", 1)
    while batch > 1:
        batch //= 2
        yield f"batch={batch}"


def _fix(explorer: Explorer, changes: Changes, limits: Sequence[Limit]) -> Fix | None:
    point = explorer.tried(changes)
    if point is None:
        return None
    constraints = judge_point(point, limits)
    return Fix(
        changes=changes,
        about=describe_changes(changes),
        verdict=worst(c.verdict for c in constraints),
        constraints=constraints,
    )


def _cheapest(found: list[Fix]) -> list[Fix]:
    """One of each kind, PASS before MARGINAL, in the order of the catalogue."""
    ranked = sorted(found, key=lambda fix: fix.verdict is not Verdict.PASS)  # a stable sort
    kinds: dict[frozenset[str], Fix] = {}
    for fix in ranked:
        kinds.setdefault(kinds_of(fix.changes), fix)
    return list(kinds.values())


def _combined(explorer: Explorer, singles: list[Fix], limits: Sequence[Limit]) -> Fix:
    """Adds the change that comes closest, until all limits pass or nothing comes closer."""
    best = min(singles, key=lambda fix: _distance(fix.constraints))
    for _ in range(_DEEPEST - 1):
        longer = [
            fix
            for other in singles
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


_ORDER: Final = {verdict: i for i, verdict in enumerate(Verdict)}


def _distance(constraints: Sequence[Constraint]) -> tuple[int, float]:
    """How far from a PASS: the overall verdict, then the least headroom of what does not pass."""
    verdict = worst(c.verdict for c in constraints)
    short = [c for c in constraints if c.verdict is not Verdict.PASS]
    return _ORDER[verdict], max((-c.headroom for c in short if c.headroom is not None), default=0.0)
