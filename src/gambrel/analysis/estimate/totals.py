"""The estimate of ops that run one after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gambrel.analysis.estimate.kinship import LEVELS
from gambrel.analysis.measures import Estimate

#: A total is called as certain as the part of its time that is at least this large.
_SHARE: Final = 0.8
#: A caution is worth a word from this share of the time on.
_CAUTION: Final = 0.1
#: How much longer than its roofline time an op may take of which nothing else is known.
BEYOND_ROOFLINE: Final = 3.0
#: The reason of its estimate.
ONLY_ROOFLINE: Final = "no constants: the roofline"


def total(parts: Iterable[tuple[Estimate | None, float | None]]) -> Estimate | None:
    """The estimate of ops that run one after another.

    Values add. Lower and upper ends add too: errors of one model on one device are taken as fully
    correlated, which is the widest that a sum of ranges can be. The confidence is the best one that
    ops with 80 % of the time have at least; the reason is that of the largest part of the time
    among the ops of that confidence. An op without an estimate counts with its roofline time.

    Args:
        parts: Of each op, its estimate and its roofline time, s.

    Returns:
        The sum; None where no op has an estimate.
    """
    pairs = list(parts)
    found = [estimate for estimate, _ in pairs if estimate is not None]
    if not found:
        return None
    others = [seconds for estimate, seconds in pairs if estimate is None and seconds]
    found += [_only_roofline(seconds) for seconds in others]
    value = sum(p.value for p in found)
    by_level = [sum(p.value for p in found if p.confidence == level) for level in LEVELS]
    confidence = confidence_of(by_level, value)
    reason = _main_reason([p for p in found if p.confidence == confidence] or found)
    return Estimate(
        value=value,
        low=sum(p.low for p in found),
        high=sum(p.high for p in found),
        confidence=confidence,
        reason=with_rooflines(reason, len(others)),
        launches_s=sum(p.launches_s for p in found),
        host_s=sum(p.host_s for p in found),
        caution=_main_caution(found, value),
    )


def _only_roofline(seconds: float) -> Estimate:
    return Estimate(
        value=seconds,
        low=seconds,
        high=seconds * BEYOND_ROOFLINE,
        confidence="low",
        reason=ONLY_ROOFLINE,
    )


def _main_caution(parts: list[Estimate], whole: float) -> str:
    """The caution of ops that take a share of the time worth a word; empty without one."""
    weights: dict[str, float] = {}
    for p in parts:
        if p.caution:
            weights[p.caution] = weights.get(p.caution, 0.0) + p.value
    text = max(weights, key=lambda one: weights[one], default="")
    return text if text and is_worth_a_word(weights[text], whole) else ""


def confidence_of(by_level: Sequence[float], whole: float) -> str:
    """The confidence of a whole from the time of its parts, by their own in the order of `LEVELS`.

    It is the best one that enough of the time has at least.
    """
    reached = 0.0
    for level, seconds in zip(LEVELS, by_level, strict=True):
        reached += seconds
        if reached >= _SHARE * whole:
            return level
    return LEVELS[-1]


def is_worth_a_word(cautious: float, whole: float) -> bool:
    """Whether kernels that a caution is about take enough of the time."""
    return cautious >= _CAUTION * whole


def with_rooflines(reason: str, count: int) -> str:
    """A reason with the number of ops that count with their roofline time."""
    if not count:
        return reason
    return f"{reason}; {count} ops without constants count with their roofline time"


def _main_reason(parts: list[Estimate]) -> str:
    weights: dict[str, float] = {}
    for p in parts:
        weights[p.reason] = weights.get(p.reason, 0.0) + p.value
    return max(weights, key=lambda reason: weights[reason])
