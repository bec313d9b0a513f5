"""A follow-up takes from the turn before what it does not say itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from gambrel.chat.frame import Frame, Pairs
from gambrel.chat.names import phases_of
from gambrel.chat.roles import changes_of

#: Intents that judge against limits.
_LIMITED: Final = frozenset({"check", "judge", "select", "serve"})
_TOO: Final = re.compile(r"\b(?:too|also|as well|plus|added?|both|and with)\b")


def merged(own: Frame, previous: Frame, text: str) -> Frame:
    """The frame that a follow-up means.

    Args:
        own: What the follow-up says.
        previous: The turn before.
        text: The follow-up with markers.
    """
    intent = own.intent or previous.intent
    if not own.intent and own.limits and previous.intent not in _LIMITED:
        intent = "check"
    base = previous if intent == "what_if" else _settled(previous)
    models = own.models or base.models
    phased = any(map(phases_of, models))
    frame = Frame(
        intent=intent,
        models=models,
        hardware=_hardware(own, base, intent),
        precision=own.precision or base.precision,
        batch=own.batch or base.batch,
        phase=(own.phase or base.phase) if phased else "",
        runtime=own.runtime or base.runtime,
        settings=_over(base.settings, own.settings),
        limits=_over(base.limits, own.limits) if intent in _LIMITED else (),
        changes=own.changes,
        metrics=own.metrics or (base.metrics if base.intent == intent else ()),
        filters=own.filters,
        term=own.term,
    )
    if intent == "what_if":
        frame = _changed(frame, own, previous, text)
    kept = () if own.models and own.models != base.models else base.sizes
    dropped = {"decode": "seq", "prefill": "context"}.get(frame.phase)
    return replace(frame, sizes=tuple(s for s in _over(kept, own.sizes) if s[0] != dropped))


def _over(base: Pairs, own: Pairs) -> Pairs:
    """Pairs of the turn before, those of the same name replaced."""
    return tuple({**dict(base), **dict(own)}.items())


def _settled(previous: Frame) -> Frame:
    """The turn before a question that is no what-if: changes that are plain settings are made."""
    given = dict(change.partition("=")[::2] for change in previous.changes)
    given |= {"runtime": "torch-compile"} if "fuse" in given else {}

    def made(name: str) -> tuple[str, ...]:
        return (given[name],) if name in given else getattr(previous, name)

    return replace(
        previous,
        precision=made("precision"),
        hardware=made("hardware"),
        runtime=made("runtime"),
        batch=tuple(map(int, made("batch"))),
        changes=(),
    )


def _hardware(own: Frame, base: Frame, intent: str) -> tuple[str, ...]:
    if intent == "select":
        return own.hardware
    if intent == "compare" and base.intent != "compare" and own.hardware:
        return tuple(dict.fromkeys((*base.hardware, *own.hardware)))
    return own.hardware or base.hardware


def _changed(frame: Frame, own: Frame, previous: Frame, text: str) -> Frame:
    """A what-if on the turn before: what the follow-up gives is what changes.

    After another what-if, changes of the same kind are replaced; the others stay when the
    follow-up adds to them.
    """
    again = previous.intent == "what_if"
    changes = list(own.changes)
    if not own.intent:  # "and fp8 on h100?": no words said what-if, so nothing was sorted yet
        changes = changes_of(own.precision, replace(own, settings=()), own.runtime)
        changes += [f"batch={b}" for b in own.batch[-1:]]
    elif not again and own.hardware and not own.models and "DEVICE" in text:
        changes += [f"hardware={own.hardware[-1]}"]
    kept = []
    if again and (not changes or _TOO.search(text)):
        kinds = {c.partition("=")[0] for c in changes}
        kept = [c for c in previous.changes if c.partition("=")[0] not in kinds]
    moved = changes[-1:] and changes[-1].startswith("hardware=")
    return replace(
        frame,
        hardware=previous.hardware if moved else frame.hardware,
        precision=previous.precision,
        batch=own.batch if own.intent and own.batch else previous.batch,
        runtime=previous.runtime,
        changes=tuple(dict.fromkeys((*kept, *changes))),
    )
