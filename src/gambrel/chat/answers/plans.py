"""Answers about the cache of a language model, and about serving it to many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gambrel.chat.answers.base import Answer
from gambrel.chat.answers.results import result_of
from gambrel.chat.command import ASSUMED
from gambrel.chat.frame import Frame
from gambrel.report import document

if TYPE_CHECKING:
    from gambrel.llm.serving.records import Plan

#: Numbers of devices that are tried, smallest first, when a question asks how many.
_TRIED: Final = (1, 2, 4, 8, 16, 32, 64)


def answer(frame: Frame) -> Answer:
    """Counts the cache, or plans the serving, of the model that the frame names."""
    head = ""
    if frame.intent == "serve":
        frame, found = _smallest(frame)
        head = _enough(frame, found)
    else:
        found = result_of(frame)
    made = document(found)
    given = dict(frame.sizes)
    assumed = [
        f"{value:,} tokens of {name} assumed."
        for name, value in ASSUMED[frame.intent].items()
        if name not in given and name != "max_devices"
    ]
    lines = " ".join(f"{line}." for line in made.answer)
    return Answer(
        frame=frame,
        sentence=f"{head or made.title + '.'} {lines}",
        record=found,
        blocks=made.tables[:1],
        notes=tuple(assumed),
    )


def _smallest(frame: Frame) -> tuple[Frame, Plan]:
    """The plan for as many devices as are named; else for the fewest that meet the target."""
    if "max_devices" in dict(frame.sizes):
        return frame, result_of(frame)
    for count in _TRIED:
        tried = replace(frame, sizes=(*frame.sizes, ("max_devices", count)))
        plan: Plan = result_of(tried)
        if plan.best:
            break
    return tried, plan


def _enough(frame: Frame, plan: Plan) -> str:
    """How many devices serve the model, or what comes nearest."""
    if plan.best:
        point = plan.best[0].point
        return f"{point.devices} x {point.device} serve {plan.model} as asked."
    near = max(plan.refused, key=lambda r: (-r.missed, r.sharding.devices), default=None)
    told = f" The nearest: {near.reason}" if near else ""
    count = dict(frame.sizes)["max_devices"]
    return f"{plan.model}: no layout of at most {count} devices meets the target.{told}"
