"""A figure against a limit: PASS, MARGINAL, FAIL or UNKNOWN, with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from gambrel.advise.figures import Facts, Figure, figure
from gambrel.advise.limits import METRICS, Limit, format_metric

#: Less headroom than this is called marginal.
HEADROOM: Final = 0.10


class Verdict(StrEnum):
    """How a requirement is met."""

    PASS = "PASS"
    MARGINAL = "MARGINAL"
    UNKNOWN = "UNKNOWN"
    FAIL = "FAIL"

    @property
    def meets(self) -> bool:
        """Whether it counts as met."""
        return self in {Verdict.PASS, Verdict.MARGINAL}

    @property
    def exit_code(self) -> int:
        """Of the command line: 0 when met, 1 for FAIL, 3 for UNKNOWN."""
        return {Verdict.FAIL: 1, Verdict.UNKNOWN: 3}.get(self, 0)


_RANK: Final = {v: i for i, v in enumerate(Verdict)}


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement and how it is met.

    Attributes:
        metric: What is limited.
        limit: A most, or a least for throughput.
        unit: Of limit and figure.
        verdict: The answer.
        figure: What it rests on.
        headroom: Share of the limit that stays free (negative: exceeded), by the expected value,
            else by what proves the verdict; None when nothing is known.
        confidence: ``certain`` when proven; else ``high``, ``medium``, ``low``; empty if unknown.
        reason: Why this verdict.
    """

    metric: str
    limit: float
    unit: str
    verdict: Verdict
    figure: Figure
    headroom: float | None
    confidence: str
    reason: str


def judge(facts: Facts, limit: Limit) -> Constraint:
    """One requirement against the facts of a model on a device.

    In order: FAIL when even the best possible run misses the limit; PASS when even the worst
    possible one meets it; FAIL when the whole expected range misses it; UNKNOWN without an expected
    value; PASS when the whole range meets it with 10 % to spare at the expected value; else
    MARGINAL. So a tighter limit never makes a verdict better.
    """
    found = figure(facts, limit.metric)
    more = METRICS[limit.metric].more_is_better

    def used(value: float | None) -> float | None:
        """The share of the limit that a value uses up; above 1 misses it."""
        if value is None:
            return None
        return limit.value / value if more else value / limit.value

    least, most = (found.high, found.low) if more else (found.low, found.high)
    verdict, confidence, reason = _decide(
        found, used(found.best), used(found.worst), used(least), used(found.value), used(most)
    )
    share = used(_decisive(found, verdict, least))
    return Constraint(
        metric=limit.metric,
        limit=limit.value,
        unit=found.unit,
        verdict=verdict,
        figure=found,
        headroom=None if share is None else 1 - share,
        confidence=confidence,
        reason=reason,
    )


def _decide(
    found: Figure,
    best: float | None,
    worst: float | None,
    low: float | None,
    value: float | None,
    high: float | None,
) -> tuple[Verdict, str, str]:
    """The verdict, its confidence and its reason, from the shares of the limit used up."""
    at_best = format_metric(found.metric, found.best)
    if best is not None and best > 1:
        return Verdict.FAIL, "certain", f"the best possible is {at_best}"
    if worst is not None and worst <= 1:
        return Verdict.PASS, found.confidence or "high", found.reason
    if low is not None and low > 1:
        why = (
            found.reason
            if value is not None
            else f"even the favourable end misses it; {found.reason}"
        )
        return Verdict.FAIL, found.confidence or "high", why
    if value is None or high is None:
        return Verdict.UNKNOWN, "", found.reason
    if high <= 1 and value <= 1 - HEADROOM:
        return Verdict.PASS, found.confidence, found.reason
    if high <= 1:
        why = f"under {HEADROOM:.0%} headroom"
    elif value <= 1:
        why = "the upper end of the range misses it"
    else:
        why = "the expected value misses it, the better end of the range meets it"
    return Verdict.MARGINAL, found.confidence, f"{why}; {found.reason}"


def _decisive(found: Figure, verdict: Verdict, least: float | None) -> float | None:
    """The number that headroom is measured on."""
    if found.value is not None:
        return found.value
    if verdict is Verdict.PASS:
        return found.worst
    return (least if least is not None else found.best) if verdict is Verdict.FAIL else None


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The overall verdict: the worst of all; FAIL is worse than UNKNOWN."""
    return max(verdicts, key=_RANK.__getitem__, default=Verdict.UNKNOWN)
