"""From a question, and the turn before it, to a frame; or to what was not understood."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from gambrel.chat.followup import merged
from gambrel.chat.frame import Frame, Unclear, Understood
from gambrel.chat.intents import INTENTS, asks_twice, leading, weigh
from gambrel.chat.names import names, phases_of
from gambrel.chat.refusals import left_out, refusal
from gambrel.chat.roles import frame_of
from gambrel.chat.sentence import Sentence, parse
from gambrel.errors import cut

#: Words without a meaning that a question may hold and still be answered; they are said.
_TOLERATED: Final = 2
_CONDITION: Final = (
    r"\b(?:with|without|using|in|when|while|if|after|via|through|under|assuming|given|as|only"
    r"|including|counting|plus|during|before|per)\b"
)
_MISSING: Final = {
    "models": "Which model? Name one, e.g. resnet50 ('list models' shows all).",
    "hardware": "On which device? Name one, e.g. a100 ('list devices' shows all).",
    "limits": "Under which limit? For example 'under 10 ms', '30 fps', 'below 15 W'.",
    "changes": "Which change? For example int8, fusion, batch 32, another device.",
    "term": "I do not know this term.",
}
#: Questions that take several models, devices, formats, batches or runtimes at once.
_SEVERAL: Final = frozenset({"compare", "throughput", "models", "devices"})
_COMPARABLE: Final = frozenset({"latency", "power", "energy", "memory"})
_LINKS: Final = frozenset(
    {"on", "in", "at", "with", "under", "a", "an", "the", "of", "for", "and", "prefill"}
)


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
    sentence = parse(question)
    weights = weigh(sentence, previous)
    if asks_twice(weights, sentence.text):
        return Unclear(reason="One question at a time, please; the next one may be short: 'why?'.")
    intent = leading(weights)
    problem = _problem(sentence, intent, previous)
    if problem is not None:
        return problem
    if isinstance(intent, Unclear):
        return intent
    own = _own(sentence, _alone(sentence, intent, previous), previous)
    if isinstance(own, Unclear):
        return own
    fresh = bool(intent) and not _missing(own)
    if not fresh and previous is not None and own.intent not in {"help", "models", "devices"}:
        if sentence.words:
            return _unknown_words(sentence)
        if own == Frame(intent=""):
            return _nothing(own, sentence)
        own = merged(own, previous, sentence.text)
    return _finished(own, sentence)


def _alone(sentence: Sentence, intent: str, previous: Frame | None) -> str:
    """The memory of a language model is a question that needs no device: weights and cache."""
    phased = sentence.models and all(phases_of(n.name) for n in sentence.models)
    alone = phased and not sentence.devices and not (previous and previous.hardware)
    return "kv_cache" if intent == "memory" and alone and not sentence.slots.limits else intent


def _own(sentence: Sentence, intent: str, previous: Frame | None) -> Frame | Unclear:
    """What the question itself says; one that goes on about serving or a cache in their terms."""
    if intent or previous is None or previous.intent not in {"serve", "kv_cache"}:
        return frame_of(sentence, intent)
    own = frame_of(sentence, previous.intent)
    if isinstance(own, Unclear) or "COUNT" in sentence.text:
        return own
    return replace(own, intent="", sizes=tuple(s for s in own.sizes if s[0] != "max_devices"))


#: "a 7B model", which no name says.
_SIZED: Final = re.compile(r"\d+(?:\.\d+)?b")
_MANY: Final = (
    "Many models have {} parameters; name one, e.g. llama-2-7b ('which models do you know' lists "
    "them)."
)


def _problem(sentence: Sentence, intent: str | Unclear, previous: Frame | None) -> Unclear | None:
    """Why no answer could be right, whatever was meant."""
    if sentence.strangers and intent not in {"models", "devices"}:
        sized = next((s for s in sentence.strangers if _SIZED.fullmatch(s)), "")
        return Unclear(reason=_MANY.format(sized.upper())) if sized else _stranger(sentence)
    said = refusal(sentence.text, intent if isinstance(intent, str) else "")
    if said:
        return Unclear(reason=said)
    words = sentence.words
    alone = words and not sentence.models and not previous
    if len(words) > _TOLERATED or _in_condition(sentence) or alone:
        return _unknown_words(sentence)
    if sentence.slots.clashes:
        return Unclear(reason=f"Two values: {'; '.join(sentence.slots.clashes)}. Give one.")
    if sentence.numbers:
        return Unclear(
            reason=f"What is {', '.join(sentence.numbers)}? Write a unit or a word beside it, e.g. "
            "5 ms, 30 fps, 10 W, batch 8, 2048 tokens context, 640 px."
        )
    return None


def _in_condition(sentence: Sentence) -> bool:
    """Whether an unknown word says under what the question holds: it cannot be left out."""
    words = "|".join(map(re.escape, sentence.words))
    return bool(words and re.search(rf"{_CONDITION}(?: \w+)? (?:{words})\b", sentence.text))


def _stranger(sentence: Sentence) -> Unclear:
    name = sentence.strangers[0]
    intent = leading(weigh(sentence, None))
    partial = frame_of(sentence, intent if isinstance(intent, str) else "")
    return Unclear(
        reason=f"I know no model or device called '{name}'.",
        candidates=names().closest(name),
        partial=partial if isinstance(partial, Frame) else None,
    )


#: Where no model is named, the unknown word may be one.
_NO_MODEL: Final = (
    " If it is a model, it is not built in ('list models' shows all): give its .onnx file or "
    "config.json."
)


def _unknown_words(sentence: Sentence) -> Unclear:
    words = ", ".join(f"'{w}'" for w in dict.fromkeys(sentence.words))
    way = _NO_MODEL if sentence.devices and not sentence.models else ""
    return Unclear(reason=f"I did not understand {cut(words)}.{way}")


def _missing(frame: Frame) -> list[str]:
    needs = INTENTS[frame.intent].needs if frame.intent else ("models", "hardware")
    return [name for name in needs if not getattr(frame, name)]


def _finished(frame: Frame, sentence: Sentence) -> Understood | Unclear:
    if not frame.intent:
        only_names = set(re.findall(r"[a-z]+", sentence.text)) <= _LINKS
        if not (frame.models and frame.hardware and only_names):
            return _nothing(frame, sentence)
        frame = replace(frame, intent="bound")  # the analysis as a whole
    frame = _one_or_several(frame)
    if frame.limits and frame.intent not in {"check", "judge", "select", "serve", "batch"}:
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
        unknown = f"{_unknown_words(sentence).reason} " if sentence.words else ""
        return Unclear(reason=unknown + _MISSING[missing[0]], partial=frame)
    if _phase_open(frame):
        return Unclear(
            reason=f"The prompt or one token of {frame.models[0]}? Say prefill or decode.",
            partial=frame,
        )
    return _noted(frame, sentence)


def _noted(frame: Frame, sentence: Sentence) -> Understood | Unclear:
    """A complete frame, unless its answer leaves out what was asked."""
    trained = dict(frame.settings).get("train")  # a network's step is answered as a time
    left, asked = left_out(sentence.text, "train" if trained else frame.intent)
    if asked:
        return Unclear(
            reason=f"The answer about {INTENTS[frame.intent].about} says nothing of "
            f"{', '.join(map(repr, asked))}. One question at a time, please.",
            partial=frame,
        )
    notes = list(sentence.notes)
    notes += [f"Left out: {', '.join(left)}."] if left else []
    notes += [f"Not used: {', '.join(sentence.words)}."] if sentence.words else []
    if len(frame.models) > 1 and len(frame.hardware) > 1:
        notes.append("Every model is shown on every device.")
    return Understood(frame=frame, notes=tuple(notes))


def _phase_open(frame: Frame) -> bool:
    """Whether a verdict or a change hangs on the phase, which the question leaves open.

    Other questions get both answers; the memory is nearly the same in both.
    """
    if frame.phase or frame.intent not in {"check", "judge", "select", "what_if", "batch"}:
        return False
    only_memory = {name for name, _ in frame.limits} == {"memory"}
    return not only_memory and any(len(phases_of(m)) > 1 for m in frame.models)


def _one_or_several(frame: Frame) -> Frame:
    """A figure of several things is a comparison; a check of several devices is a selection."""
    several = frame.intent in {"check", "compare"} and len(frame.hardware) > 1
    if several and frame.limits and len(frame.models) == 1 and len(frame.batch) < 2:
        return replace(frame, intent="select", metrics=())
    if frame.intent in _COMPARABLE and _plural(frame):
        metrics = () if frame.intent == "latency" else (frame.intent,)
        return replace(frame, intent="compare", metrics=metrics)
    return frame


def _plural(frame: Frame) -> str:
    """What the frame has several of; empty when one of each."""
    given = {
        "model": frame.models,
        "device": frame.hardware,
        "number format": frame.precision,
        "batch": frame.batch,
        "runtime": frame.runtime,
    }
    taken = {"serve": {"device"}, "select": {"device", "number format", "runtime"}}
    kept = given.keys() - taken.get(frame.intent, set())
    return next((name for name in given if name in kept and len(given[name]) > 1), "")


def _nothing(frame: Frame, sentence: Sentence) -> Unclear:
    if frame.models or frame.hardware:
        name = " on ".join((*frame.models[:1], *frame.hardware[:1]))
        return Unclear(reason=f"What do you want to know about {name}?", partial=frame)
    if sentence.words:
        return _unknown_words(sentence)
    return Unclear(reason="I did not understand the question.")
