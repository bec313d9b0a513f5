"""From a question, and the turn before it, to a frame; or to what was not understood."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from gambrel.chat.evidence import INTENTS
from gambrel.chat.followup import merged
from gambrel.chat.frame import Frame, Unclear, Understood
from gambrel.chat.lexicon import lexicon, phases_of
from gambrel.chat.reading import Reading, read
from gambrel.chat.refusals import refusal
from gambrel.chat.shapes import frame_of
from gambrel.chat.unused import unused
from gambrel.chat.weigh import asks_twice, leading, weigh

#: Words without a meaning that a question may hold and still be answered; they are said.
_TOLERATED: Final = 2


def understand(question: str, previous: Frame | None = None) -> Understood | Unclear:
    """What a question asks for.

    Args:
        question: As it was typed.
        previous: The frame of the turn before, whose fields a follow-up inherits.

    Returns:
        A frame that one command can answer; else what is missing or was not understood. Nothing
        is guessed: a name that is unknown, a number without a meaning or words that speak for two
        things at once are said.
    """
    reading = read(question)
    weights = weigh(reading, previous)
    if asks_twice(weights, reading.text):
        return Unclear(reason="One question at a time, please; the next one may be short: 'why?'.")
    intent = leading(weights)
    problem = _problem(reading, intent, previous)
    if problem is not None:
        return problem
    if isinstance(intent, Unclear):
        return intent
    own = _own(reading, intent, previous)
    if isinstance(own, Unclear):
        return own
    fresh = bool(intent) and _complete(own)
    if not fresh and previous is not None and own.intent not in {"help", "models", "devices"}:
        if reading.words:
            return _unknown_words(reading)
        if own == Frame(intent=""):
            return _nothing(own, reading)
        own = merged(own, previous, reading.text)
    return _finished(own, reading)


def _own(reading: Reading, intent: str, previous: Frame | None) -> Frame | Unclear:
    """What the question itself says; one that goes on about serving or a cache in their terms."""
    if intent or previous is None or previous.intent not in {"serve", "kv_cache"}:
        return frame_of(reading, intent)
    own = frame_of(reading, previous.intent)
    if isinstance(own, Unclear) or "COUNT" in reading.text:
        return own
    return replace(own, intent="", sizes=tuple(s for s in own.sizes if s[0] != "devices"))


def _problem(reading: Reading, intent: str | Unclear, previous: Frame | None) -> Unclear | None:
    """Why no answer could be right, whatever was meant."""
    if reading.strangers and intent not in {"models", "devices"}:
        return _stranger(reading)
    said = refusal(reading.text, intent if isinstance(intent, str) else "")
    if said:
        return Unclear(reason=said)
    if (
        len(reading.words) > _TOLERATED
        or _in_condition(reading)
        or (reading.words and not reading.models and not previous)
    ):
        return _unknown_words(reading)
    if reading.found.clashes:
        return Unclear(reason=f"Two values: {'; '.join(reading.found.clashes)}. Give one.")
    if reading.numbers:
        return Unclear(
            reason=f"What is {', '.join(reading.numbers)}? Write a unit or a word beside it, e.g. "
            "5 ms, 30 fps, 10 W, batch 8, 2048 tokens context, 640 px."
        )
    return None


def _in_condition(reading: Reading) -> bool:
    """Whether an unknown word says under what the question holds: it cannot be left out."""
    words = "|".join(map(re.escape, reading.words))
    return bool(words) and bool(re.search(rf"{_CONDITION}(?: \w+)? (?:{words})\b", reading.text))


_CONDITION: Final = (
    r"\b(?:with|without|using|in|when|while|if|after|via|through|under|assuming|given|as|only"
    r"|including|counting|plus|during|before|per)\b"
)


def _stranger(reading: Reading) -> Unclear:
    name = reading.strangers[0]
    partial = frame_of(reading, _word_intent(reading))
    return Unclear(
        reason=f"I know no model or device called '{name}'.",
        candidates=lexicon().closest(name),
        partial=partial if isinstance(partial, Frame) else None,
    )


def _word_intent(reading: Reading) -> str:
    found = leading(weigh(reading, None))
    return found if isinstance(found, str) else ""


def _unknown_words(reading: Reading) -> Unclear:
    words = ", ".join(f"'{w}'" for w in reading.words)
    return Unclear(reason=f"I did not understand {words}.")


def _missing(frame: Frame) -> list[str]:
    needs = INTENTS[frame.intent].needs if frame.intent else ("models", "hardware")
    return [name for name in needs if not getattr(frame, name)]


def _complete(frame: Frame) -> bool:
    return not _missing(frame)


_ASK: Final = {
    "models": "Which model? Name one, e.g. resnet50 ('list models' shows all).",
    "hardware": "On which device? Name one, e.g. a100 ('list devices' shows all).",
    "limits": "Under which limit? For example 'under 10 ms', '30 fps', 'below 15 W'.",
    "changes": "Which change? For example int8, fusion, batch 32, another device.",
    "term": "I do not know this term.",
}


def _finished(frame: Frame, reading: Reading) -> Understood | Unclear:
    if not frame.intent:
        if not (frame.models and frame.hardware and _only_names(reading.text)):
            return _nothing(frame, reading)
        frame = replace(frame, intent="bound")
    frame = _one_or_several(frame)
    if frame.limits and frame.intent not in {"check", "select", "serve"}:
        limits = ", ".join(text for _, text in frame.limits)
        return Unclear(
            reason=f"Do you ask whether {limits} is met? Then ask 'can MODEL do {limits} on "
            f"DEVICE', else leave {limits} out.",
            partial=replace(frame, limits=()),
        )
    if frame.intent not in _SEVERAL and _plural(frame):
        return Unclear(reason=f"One {_plural(frame)} at a time, please; or ask to compare them.")
    missing = _missing(frame)
    if missing:
        unknown = (
            f"I did not understand {', '.join(map(repr, reading.words))}. " if reading.words else ""
        )
        return Unclear(reason=unknown + _ASK[missing[0]], partial=frame)
    return _noted(frame, reading)


def _noted(frame: Frame, reading: Reading) -> Understood | Unclear:
    """A complete frame, unless it leaves open or leaves out what was asked."""
    if _phase_open(frame):
        return Unclear(
            reason=f"The prompt or one token of {frame.models[0]}? Say prefill or decode.",
            partial=frame,
        )
    left, asked = unused(reading.text, frame.intent)
    if asked:
        return Unclear(
            reason=f"The answer about {INTENTS[frame.intent].about} says nothing of "
            f"{', '.join(map(repr, asked))}. One question at a time, please.",
            partial=frame,
        )
    notes = list(reading.notes)
    if left:
        notes.append(f"Left out: {', '.join(left)}.")
    if reading.words:
        notes.append(f"Not used: {', '.join(reading.words)}.")
    if len(frame.models) > 1 and len(frame.hardware) > 1:
        notes.append("Every model is shown on every device.")
    return Understood(frame=frame, notes=tuple(notes))


def _phase_open(frame: Frame) -> bool:
    """Whether a verdict or a change hangs on the phase, which the question leaves open.

    Other questions get both answers; the memory is nearly the same in both.
    """
    if frame.phase or frame.intent not in {"check", "select", "what_if"}:
        return False
    only_memory = {name for name, _ in frame.limits} == {"memory"}
    return not only_memory and any(len(phases_of(m)) > 1 for m in frame.models)


def _only_names(text: str) -> bool:
    """Whether a text names things and asks nothing: then the analysis as a whole is shown."""
    rest = [w for w in re.findall(r"[a-z]+", text) if w not in _LINKS]
    return not rest


_LINKS: Final = frozenset({"on", "in", "at", "with", "a", "an", "the", "of", "for", "and"})


#: Questions that take several models, devices, formats or batches at once.
_SEVERAL: Final = frozenset({"compare", "throughput", "models", "devices"})
_COMPARABLE: Final = {
    "latency": (), "throughput": ("throughput",), "power": ("power",), "energy": ("energy",),
    "memory": ("memory",),
}  # fmt: skip


def _one_or_several(frame: Frame) -> Frame:
    """A figure of several things is a comparison; a check of several devices is a selection."""
    several = frame.intent in {"check", "compare"} and len(frame.hardware) > 1
    if several and frame.limits and len(frame.models) == 1 and len(frame.batch) < 2:
        return replace(frame, intent="select", metrics=())
    if frame.intent in _COMPARABLE and frame.intent != "throughput" and _plural(frame):
        return replace(frame, intent="compare", metrics=_COMPARABLE[frame.intent])
    return frame


def _plural(frame: Frame) -> str:
    """What the frame has several of; empty when one of each."""
    given = {
        "model": frame.models,
        "device": frame.hardware,
        "number format": frame.precision,
        "batch": frame.batch,
    }
    if frame.intent == "serve":
        del given["device"]
    if frame.intent == "select":
        del given["device"], given["number format"]
    return next((name for name, of in given.items() if len(of) > 1), "")


def _nothing(frame: Frame, reading: Reading) -> Unclear:
    if frame.models or frame.hardware:
        name = " on ".join((*frame.models[:1], *frame.hardware[:1]))
        return Unclear(reason=f"What do you want to know about {name}?", partial=frame)
    if reading.words:
        return _unknown_words(reading)
    return Unclear(reason="I did not understand the question.")
