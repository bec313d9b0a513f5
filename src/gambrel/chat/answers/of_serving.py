"""Answers about the cache of a language model, and about serving it to many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gambrel.chat.answers.base import Answer
from gambrel.chat.commands import CONTEXT, DEVICES, INPUT, OUTPUT, command_of
from gambrel.chat.frame import Frame
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_number, format_si

if TYPE_CHECKING:
    from gambrel.llm.cache_plan import CachePlan
    from gambrel.llm.serving.records import Choice, Plan

#: Numbers of devices that are tried, smallest first, when a question asks how many.
_TRIED: Final = (1, 2, 4, 8, 16)


def answer(frame: Frame, options: Options) -> Answer:
    """Counts the cache, or plans the serving, of the model that the frame names."""
    return _BY_INTENT[frame.intent](frame, options)


def _kv_cache(frame: Frame, options: Options) -> Answer:
    from gambrel.api.plans import kv_cache
    from gambrel.report import render

    sizes = dict(frame.sizes)
    found = kv_cache(
        frame.models[0],
        context=sizes.get("context", CONTEXT),
        batch_size=frame.batch[0] if frame.batch else None,
        hardware=frame.hardware[0] if frame.hardware else None,
        precision=frame.precision[0] if frame.precision else None,
    )
    return Answer(
        frame=frame,
        sentence=_cache_sentence(found),
        body=str(render(found, "table", options)),
        command=command_of(frame),
        data=lambda: str(render(found, "json")),
        notes=() if "context" in sizes else (f"A context of {CONTEXT:,} tokens assumed.",),
    )


def _cache_sentence(found: CachePlan) -> str:
    cache = found.cache
    text = (
        f"The cache of {cache.model} for {cache.batch:,} x {cache.context:,} tokens in "
        f"{cache.precision} takes {format_capacity(cache.allocated_bytes)}"
    )
    room = found.room
    if room is None:
        return f"{text}."
    fits = {True: "it fits", False: "it does NOT fit", None: "whether it fits is unknown"}
    text += f"; on {found.device}, beside {format_capacity(found.weights_bytes)} of weights, "
    text += fits[found.fits]
    if not room.batch:
        return f"{text}: not one sequence of {cache.context:,} tokens does."
    return (
        f"{text}. At most {room.batch:,} sequences of {cache.context:,} tokens, or "
        f"{room.context:,} tokens for {cache.batch:,}."
    )


def _plan(frame: Frame) -> Plan:
    from gambrel.api.plans import serve_plan

    sizes, limits = dict(frame.sizes), dict(frame.limits)
    return serve_plan(
        frame.models[0],
        frame.hardware,
        input=sizes.get("input", INPUT),
        output=sizes.get("output", OUTPUT),
        max_devices=sizes.get("devices", DEVICES),
        ttft=limits.get("ttft"),
        tpot=limits.get("tpot"),
        concurrency=sizes.get("users"),
        precision=frame.precision or None,
    )


def _serve(frame: Frame, options: Options) -> Answer:
    from gambrel.report import render

    tried, plan = _smallest(frame)
    sizes = dict(tried.sizes)
    assumed = [
        f"{name} of {value:,} tokens assumed; say e.g. '{value} tokens {name}'."
        for name, value in (("input", INPUT), ("output", OUTPUT))
        if name not in sizes
    ]
    return Answer(
        frame=tried,
        sentence=_plan_sentence(frame, plan),
        body=str(render(plan, "table", options)),
        command=command_of(tried),
        data=lambda: str(render(plan, "json")),
        notes=tuple(assumed),
    )


def _smallest(frame: Frame) -> tuple[Frame, Plan]:
    """The plan for as many devices as are named; else for the fewest that meet the target."""
    if "devices" in dict(frame.sizes):
        return frame, _plan(frame)
    for count in _TRIED:
        tried = replace(frame, sizes=(*frame.sizes, ("devices", count)))
        plan = _plan(tried)
        if plan.best:
            break
    return tried, plan


def _plan_sentence(frame: Frame, plan: Plan) -> str:
    asked = "devices" in dict(frame.sizes)
    if not plan.best:
        kept = "meets the target" if frame.limits else "can serve it"
        near = max(plan.refused, key=lambda r: (-r.missed, r.sharding.devices), default=None)
        told = f" The nearest: {near.reason}" if near else ""
        return f"{plan.model}: nothing of at most {plan.max_devices} devices {kept}.{told}"
    best = plan.best[0]
    if asked:
        head = f"{best.point.devices} x {best.point.device} serve {plan.model}"
    else:
        head = (
            f"{best.point.devices} x {best.point.device} are enough for {plan.model} (1, 2, 4, 8 "
            "and 16 were tried)"
        )
    return f"{head}: {_figures(best)}."


def _figures(best: Choice) -> str:
    point = best.point
    return (
        f"TPOT {_time(best.tpot, point.tpot_s)}, TTFT {format_si(point.ttft_s, 's', 3)}, "
        f"{format_number(point.tokens_per_s)} tokens/s in all, {point.batch:,} requests in flight "
        f"a replica; more are stopped by {point.batch_limit or 'nothing that was asked'}"
    )


def _time(found: Any, plain: float) -> str:
    if found is None:
        return f"{format_si(plain, 's')} at the bound"
    low, high = format_si(found.low, "s", 3), format_si(found.high, "s", 3)
    return f"{format_si(found.value, 's')} ({low} to {high})"


_BY_INTENT: Final[dict[str, Callable[[Frame, Options], Answer]]] = {
    "kv_cache": _kv_cache,
    "serve": _serve,
}
