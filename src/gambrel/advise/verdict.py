"""A figure against a limit: PASS, MARGINAL, FAIL (proved or expected) or UNKNOWN, and why."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from gambrel.advise.figures import Facts, Figure, figure
from gambrel.advise.limits import METRICS, Limit, format_metric
from gambrel.units import format_number

#: Metrics that the speed of light limits.
TIMED: Final = frozenset({"latency", "throughput"})
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
    def rank(self) -> int:
        """From best to worst; FAIL is worse than UNKNOWN."""
        return _RANK[self]

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
        proof: What a FAIL rests on: ``sol`` (the limit is beyond the speed of light, so that no run
            meets it) or ``expected`` (outside the range of the expected value, or it does not fit);
            None for any other verdict.
    """

    metric: str
    limit: float
    unit: str
    verdict: Verdict
    figure: Figure
    headroom: float | None
    confidence: str
    reason: str
    proof: str | None = None


def judge(facts: Facts, limit: Limit) -> Constraint:
    """One requirement against the facts of a model on a device.

    In order: FAIL when the limit is beyond the speed of light, or the need of memory beyond its
    limit; PASS when even the worst possible run meets it; FAIL when the whole expected range misses
    it; UNKNOWN without an expected value; PASS when the whole range meets it with 10 % to spare at
    the expected value; else MARGINAL. So a tighter limit never makes a verdict better.
    """
    found = figure(facts, limit.metric)
    more = METRICS[limit.metric].more_is_better

    def used(value: float | None) -> float | None:
        """The share of the limit that a value uses up; above 1 misses it."""
        if value is None:
            return None
        return limit.value / value if more else value / limit.value

    least, most = (found.high, found.low) if more else (found.low, found.high)
    shares = _Shares(*map(used, (found.best, found.worst, least, found.value, most)))
    verdict, confidence, reason, proof = _decide(found, shares, facts)
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
        proof=proof,
    )


class _Shares(NamedTuple):
    """Shares of the limit that the numbers of a figure use up; above 1 misses it."""

    best: float | None
    worst: float | None
    low: float | None
    value: float | None
    high: float | None


def _decide(found: Figure, used: _Shares, facts: Facts) -> tuple[Verdict, str, str, str | None]:
    """The verdict, its confidence, its reason and the proof of a FAIL."""
    if facts.on_host and found.metric in TIMED:  # the device's limits are not the host's
        return Verdict.UNKNOWN, "", found.reason, None
    if used.best is not None and used.best > 1:
        return _beyond_best(found, facts, used.best)
    if used.worst is not None and used.worst <= 1:
        # What the most power proves does not rest on an estimate.
        own = "high" if found.metric == "power" else found.confidence
        return Verdict.PASS, own or "high", found.reason, None
    if used.low is not None and used.low > 1:
        why = f"even the favourable end of the range misses it; {found.reason}"
        return Verdict.FAIL, found.confidence or "medium", why, "expected"
    if used.value is None or used.high is None:
        return Verdict.UNKNOWN, "", f"{found.reason}{_asked(found, used)}", None
    if used.high <= 1 and used.value <= 1 - HEADROOM:
        return Verdict.PASS, found.confidence, found.reason, None
    if used.high <= 1:
        why = f"under {HEADROOM:.0%} headroom"
    elif used.value <= 1:
        why = "the worse end of the range misses it"
    else:
        why = "the expected value misses it, the better end of the range meets it"
    return Verdict.MARGINAL, found.confidence, f"{why}; {found.reason}", None


def _beyond_best(found: Figure, facts: Facts, factor: float) -> tuple[Verdict, str, str, str]:
    """A limit that is beyond the speed of light, or beyond what is certain to be needed."""
    best = format_metric(found.metric, found.best)
    if found.metric not in TIMED:
        return Verdict.FAIL, found.confidence, f"it needs {best}; {found.reason}", "expected"
    doubt = facts.doubt(factor)
    if not doubt:
        return Verdict.FAIL, "certain", f"no run is faster than the speed of light, {best}", "sol"
    why = f"the speed of light as counted is {best}, which is no proof here: {doubt}"
    return Verdict.FAIL, found.confidence or "low", why, "expected"


def _asked(found: Figure, used: _Shares) -> str:
    """How much of the speed of light would be enough where nothing else is known of a time."""
    if found.metric not in TIMED or used.best is None or used.low is not None:
        return ""
    return f"; {format_number(used.best * 100, 2)}% of the speed of light would meet the limit"


def _decisive(found: Figure, verdict: Verdict, least: float | None) -> float | None:
    """The number that headroom is measured on."""
    if found.value is not None:
        return found.value
    if verdict is Verdict.PASS:
        return found.worst
    return (least if least is not None else found.best) if verdict is Verdict.FAIL else None


def expected_beyond(verdict: Verdict, constraints: Iterable[Constraint]) -> bool:
    """Whether what is MARGINAL misses a limit by its expected value, not by its whole range."""
    return verdict is Verdict.MARGINAL and any(
        c.headroom is not None and c.headroom < 0 for c in constraints
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The overall verdict: the worst of all."""
    return max(verdicts, key=_RANK.__getitem__, default=Verdict.UNKNOWN)
