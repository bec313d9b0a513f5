"""How much speaks for each kind of question: the words, less what the things named contradict."""

from __future__ import annotations

import re
from typing import Final

from gambrel.chat.evidence import ENOUGH, INTENTS, scores
from gambrel.chat.frame import Frame, Unclear
from gambrel.chat.glossary import find_term
from gambrel.chat.lexicon import phases_of
from gambrel.chat.reading import Reading

#: Questions about a model on a device; one about a device alone asks for the device's figures.
OF_BOTH: Final = frozenset(
    {"bound", "intensity", "latency", "throughput", "memory", "energy", "power", "utilization"}
)
#: Evidence that devices are to be chosen rather than one to be judged.
_CHOOSING: Final = 7.0
#: What a text that asks for a term's meaning has above one that only mentions it.
_NAMED_TERM: Final = 6.0

Weights = dict[str, float]


def weigh(reading: Reading, previous: Frame | None) -> Weights:
    """Weight of the evidence for each kind of question that the reading leaves possible.

    Args:
        reading: The question.
        previous: The turn before, which may supply what the question does not name.
    """
    found = scores(reading.text)
    for rule in _RULES:
        rule(found, reading, previous)
    return found


def leading(weights: Weights) -> str | Unclear:
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
    return {one, other} in _KIN


def kin(intent: str) -> tuple[str, ...]:
    """Other kinds of question that the answer to one holds, or that are held by it."""
    return tuple(name for pair in _KIN if intent in pair for name in pair if name != intent)


_KIN: Final = (
    {"energy", "power"},
    {"bound", "intensity"},
    {"latency", "throughput"},
    {"bound", "utilization"},
    {"bound", "latency"},
    {"bound", "ridge"},
    {"bound", "what_if"},
    {"bound", "recommend"},
    {"kv_cache", "memory"},
    {"serve", "throughput"},
    {"serve", "latency"},
    {"serve", "check"},
    {"serve", "memory"},
)


def asks_twice(weights: Weights, text: str) -> bool:
    """Whether a text asks two things that no one answer holds: ``how fast ... and how much``."""
    if not _AND_ALSO.search(text):
        return False
    strong = [name for name, weight in weights.items() if weight >= ENOUGH + 1]
    return any(one != other and not _kin(one, other) for one in strong for other in strong)


_AND_ALSO: Final = re.compile(r"\band (?:how|what|which|why|is|does|can|will|where)\b")


def _drop(found: Weights, *names: str) -> None:
    for name in names:
        found.pop(name, None)


def _limited(found: Weights, reading: Reading, previous: Frame | None) -> None:
    """Checks and selections need limits, of their own or of the turn before."""
    own = reading.found.limits
    if not own:
        _drop(found, "check")
    if not own and not (previous and previous.limits) and not superlative(reading.text):
        _drop(found, "select")


def _compared(found: Weights, reading: Reading, previous: Frame | None) -> None:
    if previous is None and not _several(reading):
        _drop(found, "compare")


def _changed(found: Weights, reading: Reading, previous: Frame | None) -> None:
    """A what-if needs something that changes; with a limit it is a check of what is named."""
    if not _changes(reading, previous) or (reading.found.limits and "check" in found):
        _drop(found, "what_if")


def _explained(found: Weights, reading: Reading, previous: Frame | None) -> None:
    """A term is asked for when no model is named; 'the latency' in a follow-up is a figure."""
    if "explain" not in found:
        return
    if reading.models or reading.devices or find_term(reading.question) is None:
        _drop(found, "explain")
    elif previous is None or not re.search(r"\b(?:the|its|it)\b", reading.text):
        found["explain"] += _NAMED_TERM
    elif found["explain"] < _NAMED_TERM - 1:
        _drop(found, "explain")


def _chosen(found: Weights, reading: Reading, previous: Frame | None) -> None:
    """Devices are chosen for a model; one that is named is judged rather than chosen."""
    if "select" not in found:
        return
    if len(reading.devices) == 1 and not re.search(r"\b(?:best|which|what) DEVICE\b", reading.text):
        found["select"] -= 4
    if "devices" in found and not reading.models and not (previous and previous.models):
        _drop(found, "select")
    elif found["select"] >= _CHOOSING and len(reading.devices) != 1:
        _drop(found, "check")


def _listed(found: Weights, reading: Reading, _: Frame | None) -> None:
    """Lists of models and devices: only where nothing asks about one of them."""
    named = reading.devices and not re.search(r"\b(?:list|know|support)", reading.text)
    if reading.models or named:
        _drop(found, "devices", "models")
    if "select" in found:
        _drop(found, "devices")
    if "devices" in found:
        _drop(found, "power", "memory", "check", "model", "device")


def _of_one(found: Weights, reading: Reading, _: Frame | None) -> None:
    """Figures of a model alone, or of a device alone."""
    alone = reading.models and not reading.devices and _asks_about(reading.text)
    if alone:
        found["model"] = found.get("device", 0.0) + found.get("model", 0.0) + 5
    if reading.models or not reading.devices:
        _drop(found, "device")
    if not reading.models:
        _drop(found, "model")


def _of_device(found: Weights, reading: Reading, previous: Frame | None) -> None:
    """Without a model, a question that would need one is about the device itself."""
    alone = reading.devices and not reading.models and not reading.strangers
    if not alone or (previous is not None and "device" not in found):
        return
    moved = [found.pop(name) for name in {"memory", "power"} & set(found)]
    if moved:
        found["device"] = found.get("device", 0.0) + max(moved)


def _and_advice(found: Weights, reading: Reading, _: Frame | None) -> None:
    """The answer to what limits holds what to change, not the other way round."""
    if found.get("bound", 0.0) >= ENOUGH + 1 and _AND_ALSO.search(reading.text):
        _drop(found, "recommend")


def _of_language(found: Weights, reading: Reading, previous: Frame | None) -> None:
    """Caches and serving: of language models, and of a model that runs as it is."""
    models = [n.name for n in reading.models] or list(previous.models if previous else ())
    if not models or not all(phases_of(m) for m in models):
        _drop(found, "kv_cache", "serve")
    if any(c.startswith("kv=") for c in reading.found.changes) and "what_if" in found:
        _drop(found, "kv_cache")
    if "compare" in found and len(reading.devices) > 1:
        _drop(found, "serve")
    if {"kv_cache", "serve"} & set(found):
        _drop(found, "explain", "select", "model")


_RULES: Final = (
    _and_advice,
    _of_language,
    _limited,
    _compared,
    _changed,
    _explained,
    _chosen,
    _listed,
    _of_one,
    _of_device,
)


def _asks_about(text: str) -> bool:
    return bool(
        re.search(r"\btell me|\binfo|\bdescribe|\bdetails|^show|^what is (?:an? )?MODEL", text)
    )


def superlative(text: str) -> bool:
    """Whether a text asks for the most of something."""
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
    settings = (found.changes, found.precision, found.batch, found.sizes, found.runtime)
    # A device alone is what is asked about; beside another, or in a follow-up, it is a change.
    return any(settings) or len(reading.devices) > (0 if previous else 1)
