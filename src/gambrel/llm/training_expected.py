"""The expected time of a training step: of tuned stacks where measured, else of its kernels."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate import total
from gambrel.analysis.measures import Estimate, Limiter
from gambrel.analysis.result import Analysis
from gambrel.analysis.sol import Sol
from gambrel.device.model import Device
from gambrel.llm.training_activations import Intermediates
from gambrel.llm.training_base import offload_s
from gambrel.llm.training_plan import TrainingPlan
from gambrel.llm.training_time import Parts, Stack, exchange_s, pass_s, stack_of

_replace = msgspec.structs.replace
#: How much longer than at the links' rate an exchange that nobody measured may take. Assumed.
_UNMEASURED: Final = 4.0
_NOTHING: Final = Estimate(value=0.0, low=0.0, high=0.0, confidence="high", reason="")


class TrainingTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected of a step; None where neither steps nor kernels were measured.

    Attributes:
        expected: The step.
        limited_by: What takes the largest share of it.
        exchange_s: Exchange of gradients and parameters that is not hidden.
        update_s: The optimizer.
        offload_s: Waiting for the link to the host's memory.
    """

    expected: Estimate | None = None
    limited_by: str | None = None
    exchange_s: float | None = None
    update_s: float | None = None
    offload_s: float | None = None


def expected_of(
    plan: TrainingPlan,
    passes: Analysis,
    end: Analysis,
    parts: Parts | None,
    sol: Sol,
    written: Intermediates,
) -> TrainingTimes:
    """The times of a step.

    Args:
        plan: How the model is trained.
        passes: Forward and backward of a microbatch.
        end: The exchange and the update.
        parts: The step in the parts of tuned stacks; None where none was measured.
        sol: The speed of light of the step.
        written: What forward writes.
    """
    shares = {group.name: group.measures for group in end.by_kind}
    tuned = parts if plan.tuning == "tuned" else None
    one = _kernels(passes.expected_time_s, passes.roofline_time_s, tuned)
    shown, update = (
        _kernels(shares[kind].expected_time_s, shares[kind].roofline_time_s, tuned)
        if kind in shares
        else _NOTHING
        for kind in ("collective", "optimizer")
    )
    links = ""
    if shown is None:
        shown = _at_the_links(shares["collective"].roofline_time_s)
        links = "" if shown is None else f"; {shown.reason}"
    if one is None or shown is None or update is None:
        return TrainingTimes()
    passed = one.times(plan.microbatches / (1 - plan.bubble))
    shown = shown.times(1 - (plan.overlap or 0.0))
    limited_by = _limiter(
        (passed, passes.limited_by),
        (shown, Limiter.NETWORK),
        (update, shares["optimizer"].limited_by),
    )
    expected = _one_after_another(passed, shown, update)
    expected = _replace(expected, reason=f"{expected.reason}{links}")
    expected, limited_by, exchange, link_s = _timed(
        plan, passes, parts, sol, written, (passed, expected, limited_by, shown.value)
    )
    return TrainingTimes(
        expected=expected,
        limited_by=limited_by,
        exchange_s=exchange,
        update_s=update.value if tuned is None else tuned.update_s,
        offload_s=link_s,
    )


def _timed(
    plan: TrainingPlan,
    passes: Analysis,
    parts: Parts | None,
    sol: Sol,
    written: Intermediates,
    added: tuple[Estimate, Estimate, str, float],
) -> tuple[Estimate, str, float, float]:
    """The step, what limits it, the exchange that shows and the wait for the host's link.

    ``added`` are the passes, the step, its limit and the exchange as kernels add up; tuned stacks
    replace them where some were measured.
    """
    passed, expected, limited_by, exchange = added
    stack = stack_of(passes.hardware)
    one_s = passed.value / (plan.microbatches + plan.idle)
    if parts is not None and stack is not None:
        whole, limit, shown = _of_stack(plan, parts, stack, sol, passes.hardware)
        if plan.tuning == "tuned":
            whole = _both(whole, expected, "kernels of today one after another take less")
            expected, limited_by, exchange = whole, limit, shown
            one_s = pass_s(parts, stack)[0]
        else:
            why = "published tuned steps, many with slower attention, take longer"
            expected = _both(expected, whole, why)
    link_s = offload_s(plan, passes.hardware, written, one_s)
    return _later(expected, link_s), limited_by, exchange, link_s


def _of_stack(
    plan: TrainingPlan, parts: Parts, stack: Stack, sol: Sol, device: Device
) -> tuple[Estimate, str, float]:
    """Seconds of a step under tuned stacks with their range, what limits it, and the exchange."""
    one, shares = pass_s(parts, stack)
    busy = plan.microbatches * one
    shown = exchange_s(parts, stack, busy)
    if plan.overlap is not None:
        shown = roofline.seconds(parts.gradient_s, stack.network) * (1 - plan.overlap)
    whole = busy + plan.idle * one + shown + parts.update_s
    least = sol.time_s or 0.0
    takes = {name: value * (plan.microbatches + plan.idle) for name, value in shares.items()}
    takes[Limiter.NETWORK] += shown
    takes[Limiter.MEMORY] += parts.update_s
    low, high = stack.ends(device)
    unfitted = "" if stack.fits(device) else f"; steps on {device.name} were not fitted"
    on = f" on {stack.production_on}" if stack.production_on else ""
    estimate = Estimate(
        value=max(whole, least),
        low=max(whole * low, least),
        high=max(whole * high, least),
        confidence="low" if unfitted else "medium",
        reason=f"form fitted to {stack.rows} published steps of tuned runs on {stack.name} "
        f"({stack.error:.0%} off with the model left out, up to {stack.high:.2f} times as long); "
        f"production runs{on} take up to {stack.production:.1f} times as long{unfitted}",
    )
    return estimate, max(takes, key=lambda name: takes[name]).value, shown


def _both(one: Estimate, other: Estimate, why: str) -> Estimate:
    """An estimate whose range reaches to that of the other way of counting."""
    if one.low <= other.value <= one.high:
        return one
    low, high = min(one.low, other.value), max(one.high, other.value)
    return _replace(one, low=low, high=high, reason=f"{one.reason}; {why}")


def _later(expected: Estimate, seconds: float) -> Estimate:
    """The same, so much longer."""
    if not seconds:
        return expected
    return _replace(
        expected,
        value=expected.value + seconds,
        low=expected.low + seconds,
        high=expected.high + seconds,
    )


def _kernels(
    expected: Estimate | None, roofline_s: float | None, parts: Parts | None
) -> Estimate | None:
    """What kernels add up to; their roofline where none was measured but whole steps were.

    The constants of whole steps replace it.
    """
    if expected is None and parts is not None and roofline_s is not None:
        return Estimate(
            value=roofline_s, low=roofline_s, high=roofline_s, confidence="low", reason="roofline"
        )
    return expected


def _at_the_links(roofline_s: float | None) -> Estimate | None:
    """An exchange whose collectives were not measured: hidden, or a quarter of the links' rate."""
    if roofline_s is None:
        return None
    reason = "no collective was measured on this device: the exchange at its links' rate"
    return Estimate(
        value=roofline_s, low=0.0, high=_UNMEASURED * roofline_s, confidence="low", reason=reason
    )


def _limiter(*parts: tuple[Estimate, Limiter | None]) -> str:
    """What limits the parts with the largest share of the step."""
    shares: dict[Limiter, float] = defaultdict(float)
    for part, limiter in parts:
        if limiter is not None:
            shares[limiter] += part.value
    return max(shares, key=lambda name: shares[name]).value


def _one_after_another(*parts: Estimate) -> Estimate:
    """Their sum, less certain than kernels alone: no training step was measured."""
    whole = total((part, None) for part in parts if part.value)
    assert whole is not None  # forward has at least one op
    confidence = "low" if whole.confidence == "low" else "medium"
    reason = f"kernels: {whole.reason}; no training step was measured"
    return _replace(whole, confidence=confidence, reason=reason)
