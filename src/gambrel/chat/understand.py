"""From a question, and the turn before it, to a frame; or to what was not understood."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from gambrel.chat.evidence import ENOUGH, INTENTS, scores
from gambrel.chat.filters import device_filters, matching_devices
from gambrel.chat.followup import merged
from gambrel.chat.frame import Frame, Unclear, Understood
from gambrel.chat.glossary import find_term
from gambrel.chat.lexicon import lexicon
from gambrel.chat.reading import Reading, read
from gambrel.chat.refusals import refusal

#: Questions about a model on a device; one about a device alone asks for the device's figures.
_OF_BOTH: Final = frozenset(
    {"bound", "intensity", "latency", "throughput", "memory", "energy", "power", "utilization"}
)
#: Words without a meaning that a question may hold and still be answered; they are said.
_TOLERATED: Final = 2
#: Evidence that devices are to be chosen rather than one to be judged.
_CHOOSING: Final = 7.0
_FIGURES: Final = {
    r"\blatenc|\bfast(?:er|est)|\bquick|\bslow": "latency",
    r"\bthroughput|\bfps\b|\bper sec": "throughput",
    r"\befficien|\bper watt|\bper joule": "efficiency",
    r"\benergy|\bjoule": "energy",
    r"\bpower|\bwatt": "power",
    r"\bmemory|\bv?ram\b|\bfootprint": "memory",
}
_NO_SUBJECT: Final = frozenset({"models", "devices", "help", "explain", "device", "ridge", "model"})


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
    weights = _weights(reading, previous)
    intent = _leading(weights)
    problem = _problem(reading, intent, previous)
    if problem is not None:
        return problem
    if isinstance(intent, Unclear):
        return intent
    own = _frame(reading, intent)
    if isinstance(own, Unclear):
        return own
    fresh = bool(intent) and _complete(own)
    if not fresh and previous is not None and own.intent not in {"help", "models", "devices"}:
        if reading.words:
            return _unknown_words(reading)
        own = merged(own, previous, reading.text)
    return _finished(own, reading)


def _weights(reading: Reading, previous: Frame | None) -> dict[str, float]:
    """Evidence from the words, less what the things named contradict."""
    found = scores(reading.text)
    limits = bool(reading.found.limits) or bool(previous and previous.limits)
    if not reading.found.limits:
        found.pop("check", None)
    if not limits and not _superlative(reading.text):
        found.pop("select", None)
    if not _several(reading) and not (previous and "compare" in found):
        found.pop("compare", None)
    if not _changes(reading, previous):
        found.pop("what_if", None)
    if reading.found.limits and "check" in found:
        found.pop("what_if", None)
    if (
        reading.models
        or not find_term(reading.question)
        or (reading.devices and "explain" in found)
    ):
        found.pop("explain", None)
    elif previous is not None and re.search(r"\b(?:the|its|it)\b", reading.text):
        found.pop("explain", None) if "explain" in found and found["explain"] < 5 else None
    elif "explain" in found:
        found["explain"] += 6
    if (
        "select" in found
        and len(reading.devices) == 1
        and not re.search(r"\b(?:best|which|what) DEVICE\b", reading.text)
    ):
        found["select"] -= 4
    return _of_catalog(found, reading, previous)


def _of_catalog(
    found: dict[str, float], reading: Reading, previous: Frame | None
) -> dict[str, float]:
    """Lists, devices and models: only where nothing asks about a model on a device."""
    if reading.models or (
        reading.devices and not re.search(r"\b(?:list|know|support)", reading.text)
    ):
        found.pop("devices", None)
        found.pop("models", None)
    if (
        "select" in found
        and "devices" in found
        and not reading.models
        and not (previous and previous.models)
    ):
        del found["select"]
    if "select" in found:
        found.pop("devices", None)
        if found["select"] >= _CHOOSING and len(reading.devices) != 1:
            found.pop("check", None)
    if "devices" in found:
        for name in ("power", "memory", "check", "model", "device"):
            found.pop(name, None)
    asked_about = reading.models and not reading.devices and _asks_about(reading.text)
    if (reading.models and not asked_about) or not reading.devices and not asked_about:
        found.pop("device", None)
    if not reading.models:
        found.pop("model", None)
    if asked_about:
        found["model"] = found.pop("device", 0.0) + found.get("model", 0.0) + 5
    alone = reading.devices and not reading.models and not reading.strangers
    if alone and (previous is None or "device" in found):
        moved = [found.pop(name, 0.0) for name in _OF_BOTH if name in found]
        if moved:
            found["device"] = found.get("device", 0.0) + max(moved)
    return found


def _asks_about(text: str) -> bool:
    return bool(
        re.search(r"\btell me|\binfo|\bdescribe|\bdetails|^show|^what is (?:an? )?MODEL", text)
    )


def _superlative(text: str) -> bool:
    return bool(
        re.search(
            r"\b(?:fastest|slowest|quickest|most (?:power |energy )?efficient|lowest|highest)\b",
            text,
        )
    )


def _several(reading: Reading) -> bool:
    given = (reading.models, reading.devices, reading.found.precision, reading.found.batch)
    return any(len(of) > 1 for of in given)


def _changes(reading: Reading, previous: Frame | None) -> bool:
    found = reading.found
    settings = (found.changes, found.precision, found.batch, found.sizes, found.stack)
    # A device alone is what is asked about; beside another, or in a follow-up, it is a change.
    return any(settings) or len(reading.devices) > (0 if previous else 1)


def _leading(weights: dict[str, float]) -> str | Unclear:
    """The intent with most evidence; empty when no word says one."""
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    if not ranked or ranked[0][1] < ENOUGH:
        return ""
    if len(ranked) > 1 and ranked[1][1] == ranked[0][1] and not _kin(ranked[0][0], ranked[1][0]):
        both = " or ".join(INTENTS[name].about for name, _ in ranked[:2])
        return Unclear(
            reason=f"Do you ask for {both}?",
            candidates=tuple(INTENTS[name].example for name, _ in ranked[:2]),
        )
    return ranked[0][0]


def _kin(one: str, other: str) -> bool:
    """Whether the same answer holds both; the one that stands first in the list is taken."""
    return {one, other} in ({"energy", "power"}, {"bound", "intensity"}, {"latency", "throughput"},
                            {"bound", "utilization"}, {"bound", "latency"}, {"bound", "ridge"})  # fmt: skip


def _problem(reading: Reading, intent: str | Unclear, previous: Frame | None) -> Unclear | None:
    """Why no answer could be right, whatever was meant."""
    if reading.strangers and intent not in {"models", "devices"}:
        return _stranger(reading)
    said = refusal(reading.text)
    if said:
        return Unclear(reason=said)
    if len(reading.words) > _TOLERATED or (reading.words and not reading.models and not previous):
        return _unknown_words(reading)
    if reading.numbers:
        return Unclear(
            reason=f"What is {', '.join(reading.numbers)}? Write a unit or a word beside it, e.g. "
            "5 ms, 30 fps, 10 W, batch 8, 2048 tokens context, 640 px."
        )
    return None


def _stranger(reading: Reading) -> Unclear:
    name = reading.strangers[0]
    partial = _frame(reading, _word_intent(reading))
    return Unclear(
        reason=f"I know no model or device called '{name}'.",
        candidates=lexicon().closest(name),
        partial=partial if isinstance(partial, Frame) else None,
    )


def _word_intent(reading: Reading) -> str:
    found = _leading(_weights(reading, None))
    return found if isinstance(found, str) else ""


def _unknown_words(reading: Reading) -> Unclear:
    words = ", ".join(f"'{w}'" for w in reading.words)
    return Unclear(reason=f"I did not understand {words}.")


def _frame(reading: Reading, intent: str) -> Frame | Unclear:
    """What this question alone says."""
    found = reading.found
    models = tuple(dict.fromkeys(n.name for n in reading.models))
    devices = tuple(dict.fromkeys(n.name for n in reading.devices))
    frame = Frame(
        intent=intent,
        models=models,
        hardware=devices,
        precision=tuple(found.precision),
        batch=tuple(found.batch),
        phase=_phase(reading, models),
        stack=found.stack,
        limits=tuple(found.limits.items()),
        changes=tuple(found.changes),
    )
    frame = replace(frame, sizes=_sizes(reading, frame.phase))
    shape = _SHAPES.get(intent)
    return shape(frame, reading) if shape else frame


def _phase(reading: Reading, models: tuple[str, ...]) -> str:
    if models and not any(name in lexicon().phases for name in models):
        return ""
    said = next((n.phase for n in reading.models if n.phase), "")
    return said or reading.found.phase or ("decode" if "context" in reading.found.sizes else "")


def _sizes(reading: Reading, phase: str) -> tuple[tuple[str, int], ...]:
    sizes = dict(reading.found.sizes)
    if reading.found.tokens is not None:
        sizes["context" if phase == "decode" else "seq"] = reading.found.tokens
    return tuple(sizes.items())


def _explain(frame: Frame, reading: Reading) -> Frame | Unclear:
    term = find_term(reading.question)
    return Frame(intent="explain", term=term.name if term else "")


def _devices(frame: Frame, reading: Reading) -> Frame | Unclear:
    return Frame(intent="devices", filters=device_filters(reading))


def _models(frame: Frame, reading: Reading) -> Frame | Unclear:
    text = reading.strangers[:1]
    return Frame(intent="models", filters=(("text", text[0]),) if text else ())


def _compare(frame: Frame, reading: Reading) -> Frame | Unclear:
    named = [m for pattern, m in _FIGURES.items() if re.search(pattern, reading.text)]
    # "faster" and "better" order by latency, which is the default.
    return replace(frame, metrics=tuple(m for m in named if m != "latency"))


def _select(frame: Frame, reading: Reading) -> Frame | Unclear:
    hardware = frame.hardware
    if len(reading.devices) == 1:
        hardware = (reading.devices[0].name, *reading.devices[0].also)
    if not hardware:
        hardware = matching_devices(reading)
    sort = ("efficiency",) if re.search(r"\befficien", reading.text) else ()
    if re.search(r"\b(?:lowest|least) power\b", reading.text):
        sort = ("power",)
    if not frame.limits and _superlative(reading.text):
        return replace(
            frame, intent="compare", hardware=hardware or ("all",), metrics=sort or ("latency",)
        )
    return replace(frame, hardware=hardware, metrics=sort)


def _what_if(frame: Frame, reading: Reading) -> Frame | Unclear:
    """Formats, stacks and a second device are what changes; so is the batch if nothing else is."""
    precision, hardware, batch = frame.precision, frame.hardware, frame.batch
    changes = [f"precision={p}" for p in precision[-1:]] + list(frame.changes)
    if frame.stack:
        changes += ["fuse"] if frame.stack == "compiled" else [f"stack={frame.stack}"]
    if len(hardware) > 1:
        changes.append(f"hardware={hardware[-1]}")
    with_batch = re.search(r"\b(?:and|plus|\+) (?:with |at )?(?:an? )?BATCH", reading.text)
    if batch and (not changes or with_batch):
        changes.append(f"batch={batch[-1]}")
        batch = ()
    sizes = frame.sizes
    if sizes and not changes:
        changes, sizes = [f"{name}={value}" for name, value in sizes], ()
    return replace(
        frame,
        precision=precision[:-1],
        hardware=hardware[:1],
        batch=batch,
        sizes=sizes,
        stack="",
        changes=tuple(changes),
    )


def _no_changes(frame: Frame, reading: Reading) -> Frame | Unclear:
    """Other questions than a what-if: what only a what-if can change is not silently left out."""
    left = [c for c in frame.changes if c.startswith(("weights=", "kv=", "sparsity"))]
    if left and frame.intent:
        return Unclear(
            reason=f"'{left[0]}' is a change: ask 'what if', e.g. What if resnet50 on a100 used "
            "int8?"
        )
    return frame


def _ridge(frame: Frame, reading: Reading) -> Frame | Unclear:
    return replace(frame, intent="bound") if frame.models else frame


def _model(frame: Frame, reading: Reading) -> Frame | Unclear:
    return replace(frame, intent="intensity") if frame.hardware else frame


_SHAPES: Final = {
    "explain": _explain,
    "devices": _devices,
    "models": _models,
    "compare": _compare,
    "select": _select,
    "what_if": _what_if,
    "ridge": _ridge,
    "model": _model,
    **dict.fromkeys((*_OF_BOTH, "check", "recommend", "why", "ops"), _no_changes),
}


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
        if not (frame.models and frame.hardware):
            return _nothing(frame, reading)
        frame = replace(frame, intent="bound")
    frame = _one_or_several(frame)
    if frame.intent not in _SEVERAL and _plural(frame):
        return Unclear(reason=f"One {_plural(frame)} at a time, please; or ask to compare them.")
    missing = _missing(frame)
    if missing:
        unknown = (
            f"I did not understand {', '.join(map(repr, reading.words))}. " if reading.words else ""
        )
        return Unclear(reason=unknown + _ASK[missing[0]], partial=frame)
    notes = list(reading.notes)
    if reading.words:
        notes.append(f"Not used: {', '.join(reading.words)}.")
    return Understood(frame=frame, notes=tuple(notes))


#: Questions that take several models, devices, formats or batches at once.
_SEVERAL: Final = frozenset({"compare", "throughput", "models", "devices"})
_COMPARABLE: Final = {
    "latency": (), "throughput": ("throughput",), "power": ("power",), "energy": ("energy",),
    "memory": ("memory",),
}  # fmt: skip


def _one_or_several(frame: Frame) -> Frame:
    """A figure of several things is a comparison; a check of several devices is a selection."""
    if frame.intent == "check" and len(frame.hardware) > 1:
        return replace(frame, intent="select")
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
    if frame.intent == "select":
        del given["device"], given["number format"]
    return next((name for name, of in given.items() if len(of) > 1), "")


def _nothing(frame: Frame, reading: Reading) -> Unclear:
    if frame.models or frame.hardware:
        name = (*frame.models, *frame.hardware)[0]
        return Unclear(reason=f"What do you want to know about {name}?", partial=frame)
    if reading.words:
        return _unknown_words(reading)
    return Unclear(reason="I did not understand the question.")
