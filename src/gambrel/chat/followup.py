"""A follow-up takes from the turn before what it does not say itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from gambrel.chat.frame import Frame, Pairs
from gambrel.chat.names import phases_of
from gambrel.chat.roles import change_of

#: Intents that judge against limits.
_LIMITED: Final = frozenset({"check", "select", "serve"})
#: Intents about one device, or none: several that were compared are not carried into them.
_ALONE: Final = frozenset({"device", "ridge"})


def merged(own: Frame, previous: Frame, text: str) -> Frame:
    """The frame that a follow-up means.

    Args:
        own: What the follow-up says.
        previous: The turn before.
        text: The follow-up with markers.
    """
    intent = own.intent or _intent(own, previous)
    base = previous if intent == "what_if" else _settled(previous)
    models = own.models or base.models
    frame = Frame(
        intent=intent,
        models=models,
        hardware=_hardware(own, base, intent),
        precision=own.precision or base.precision,
        batch=own.batch or base.batch,
        phase=_phase(own, base, models),
        runtime=own.runtime or base.runtime,
        settings=tuple({**dict(base.settings), **dict(own.settings)}.items()),
        limits=_limits(own, base, intent),
        changes=own.changes,
        metrics=own.metrics or (base.metrics if base.intent == intent else ()),
        filters=own.filters,
        term=own.term,
    )
    if intent == "what_if":
        frame = _changed(frame, own, previous, text)
    return replace(frame, sizes=_sizes(own, base, frame))


def _intent(own: Frame, previous: Frame) -> str:
    if own.limits and previous.intent not in _LIMITED:
        return "check"
    return previous.intent


def _settled(previous: Frame) -> Frame:
    """The turn before a question that is no what-if: changes that are plain settings are made."""
    if not previous.changes:
        return previous
    given = dict(change.partition("=")[::2] for change in previous.changes)
    return replace(
        previous,
        precision=(given["precision"],) if "precision" in given else previous.precision,
        batch=(int(given["batch"]),) if "batch" in given else previous.batch,
        hardware=(given["hardware"],) if "hardware" in given else previous.hardware,
        runtime=("torch-compile",)
        if "fuse" in given
        else (given["runtime"],)
        if "runtime" in given
        else previous.runtime,
        changes=(),
    )


def _hardware(own: Frame, base: Frame, intent: str) -> tuple[str, ...]:
    if intent == "select":
        return own.hardware
    if intent == "compare" and base.intent != "compare" and own.hardware:
        return tuple(dict.fromkeys((*base.hardware, *own.hardware)))
    return own.hardware or base.hardware


def _phase(own: Frame, base: Frame, models: tuple[str, ...]) -> str:
    phased = any(map(phases_of, models))
    return (own.phase or base.phase) if phased else ""


def _limits(own: Frame, base: Frame, intent: str) -> Pairs:
    """Limits stay for another check; one of the same kind is replaced."""
    if intent not in _LIMITED:
        return ()
    return tuple({**dict(base.limits), **dict(own.limits)}.items()) if base.limits else own.limits


def _sizes(own: Frame, base: Frame, frame: Frame) -> tuple[tuple[str, int], ...]:
    sizes = {**dict(base.sizes), **dict(own.sizes)}
    if own.models and own.models != base.models:
        sizes = dict(own.sizes)
    dropped = {"decode": "seq", "prefill": "context"}.get(frame.phase)
    return tuple((name, value) for name, value in sizes.items() if name != dropped)


def _changed(frame: Frame, own: Frame, previous: Frame, text: str) -> Frame:
    """A what-if on the turn before: what the follow-up gives is what changes.

    After another what-if, changes of the same kind are replaced; the others stay when the
    follow-up adds to them.
    """
    again = previous.intent == "what_if"
    changes = list(own.changes)
    if not own.intent:  # "and fp8 on h100?": no words said what-if, so nothing was sorted yet
        changes = [f"precision={p}" for p in own.precision[-1:]] + changes
        changes += [change_of(name) for name in own.runtime[-1:]]
        changes += [f"batch={b}" for b in own.batch[-1:]]
    elif not again and own.hardware and not own.models and "DEVICE" in text:
        changes += [f"hardware={own.hardware[-1]}"]
    kept = []
    if again and (
        not changes or re.search(r"\b(?:too|also|as well|plus|added?|both|and with)\b", text)
    ):
        kinds = {c.partition("=")[0] for c in changes}
        kept = [c for c in previous.changes if c.partition("=")[0] not in kinds]
    return replace(
        frame,
        hardware=previous.hardware
        if changes[-1:] and changes[-1].startswith("hardware=")
        else frame.hardware,
        precision=previous.precision,
        batch=own.batch if own.intent and own.batch else previous.batch,
        runtime=previous.runtime,
        changes=tuple(dict.fromkeys((*kept, *changes))),
    )
