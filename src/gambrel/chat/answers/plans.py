"""Answers about the cache of a language model, and about serving it to many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gambrel.chat.answers.base import Answer
from gambrel.chat.answers.results import result_of
from gambrel.chat.command import SEQUENCES, assumed_by, command_of
from gambrel.chat.frame import Frame
from gambrel.errors import GambrelError
from gambrel.report import document
from gambrel.report.terms import range_text
from gambrel.units import format_si

if TYPE_CHECKING:
    from gambrel.llm.serving.records import Plan
    from gambrel.llm.training_search import TrainingSearch

#: Field → what its tokens are of, where the name does not say it.
_TOKENS: Final = {"seq": "sequence length"}
#: The line of an answer that says what still fits.
_ROOM: Final = "Room:"
#: Numbers of devices that are tried, smallest first, when a question asks how many.
_TRIED: Final = (1, 2, 4, 8, 16, 32, 64)


def answer(frame: Frame) -> Answer:
    """Counts the cache, or plans the serving, of the model that the frame names."""
    head = ""
    found: Any
    if frame.intent == "serve":
        frame, plan = _smallest(frame)
        head, found = f"{_asked(frame, plan)}{_enough(frame, plan)}", plan
    elif frame.intent == "train":
        named = "devices" in dict(frame.sizes)
        frame, search = _least(frame)
        found = search
        if search.best and not named:
            head = f"The fewest that hold it: {document(search).title}."
    else:
        found = result_of(frame)
    made = document(found)
    given = dict(frame.sizes)
    assumed = [
        f"{value:,} tokens of {_TOKENS.get(name, name)} assumed."
        for name, value in assumed_by(frame).items()
        if name not in given and name not in {"max_devices", "devices"}
    ]
    if frame.intent == "train":
        assumed.append("All parameters are trained, with AdamW.")
    told = sorted(made.answer, key=lambda line: not (frame.term and line.startswith(_ROOM)))
    lines = " ".join(f"{line.rstrip('.')}." for line in told)
    return Answer(
        frame=frame,
        sentence=f"{head or made.title + '.'} {lines}",
        record=found,
        blocks=made.tables[:1],
        notes=tuple(assumed),
    )


def first_token(frame: Frame) -> str:
    """How long a server takes with the prompt alone, beside the pass itself; empty if unknown."""
    sizes = dict(frame.sizes)
    prompt = {"input": sizes["seq"]} if "seq" in sizes else {}
    alone = {**prompt, "max_devices": 1, "concurrency": 1}
    served = replace(frame, intent="serve", phase="", sizes=tuple(alone.items()))
    try:
        plan: Plan = result_of(served)
    except GambrelError:
        return ""
    if not plan.best or (time := plan.best[0].ttft) is None:
        return ""
    return (
        f" That is the pass over the prompt. Of a server, with no other request: TTFT "
        f"{format_si(time.value, 's', 3)} ({range_text(time)}, {time.confidence} confidence; "
        f"'{command_of(served)}')."
    )


def _asked(frame: Frame, plan: Plan) -> str:
    """The time that the question asks for, before the plan that it belongs to."""
    if not frame.term or not plan.best:
        return ""
    best = plan.best[0]
    time, value = (
        (best.ttft, best.point.ttft_s) if frame.term == "TTFT" else (best.tpot, best.point.tpot_s)
    )
    around = "" if time is None else f" ({range_text(time)}, {time.confidence} confidence)"
    full = (
        f" with {best.point.batch:,} requests in flight on a replica"
        if best.point.batch > 1
        else ""
    )
    return f"{frame.term} {format_si(value, 's', 3)}{around}{full}. "


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


def _least(frame: Frame) -> tuple[Frame, TrainingSearch]:
    """The search on as many devices as are named; else on the fewest that hold the model."""
    named = dict(frame.sizes).get("devices")
    for count in (named,) if named else _TRIED:
        given = dict(frame.sizes) | {"devices": count}
        given.setdefault("global_batch", SEQUENCES * count)
        given |= _network(frame.hardware[0], count)
        tried = replace(frame, sizes=tuple(given.items()))
        found: TrainingSearch = result_of(tried)
        if found.best:
            break
    return tried, found


def _network(hardware: str, devices: int) -> dict[str, str]:
    """Beyond a node: the network of the maker's own nodes, where the device has such."""
    from gambrel.device.lookup import find
    from gambrel.llm.topology import topology_for

    name = f"dgx-{hardware.partition('-')[0]}"
    try:
        node = topology_for(find(hardware).device, name)
    except GambrelError:
        return {}
    return {"topology": name} if devices > (node.devices_per_node or devices) else {}


def _enough(frame: Frame, plan: Plan) -> str:
    """How many devices serve the model, or what comes nearest."""
    if plan.best:
        point = plan.best[0].point
        return f"{point.devices} x {point.device} serve {plan.model} as asked."
    near = max(plan.refused, key=lambda r: (-r.missed, r.sharding.devices), default=None)
    told = f" The nearest: {near.reason}" if near else ""
    count = dict(frame.sizes)["max_devices"]
    if count > 1:
        return f"{plan.model}: no layout of at most {count} devices meets the target.{told}"
    ask = (
        f"Ask how many it takes: 'how many {near.device if near else 'h100'} for {plan.model} ...'."
    )
    return f"{plan.model}: no single device meets the target.{told} {ask}"
