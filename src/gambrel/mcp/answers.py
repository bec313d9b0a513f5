"""From questions to the records that the tools return; docstrings are what agents read."""

from __future__ import annotations

import difflib
import re
from typing import Any

import msgspec

from gambrel.analysis.question import Question
from gambrel.device.model import Ceiling, MemoryLevel
from gambrel.errors import UnknownNameError


class Datasheet(msgspec.Struct, frozen=True, kw_only=True):
    """Everything published about a device.

    Attributes:
        id: Short unique name.
        name: As its maker writes it.
        architecture: Of its chips.
        category: Class of device.
        ceilings: Compute roofs, each with its source.
        memory: Levels with capacity and bandwidth.
        explained: What its figures mean, dense and sparse readings.
        unknown: Looked for and not published.
        notes: How the name was understood.
    """

    id: str
    name: str
    architecture: str
    category: str
    ceilings: tuple[Ceiling, ...]
    memory: tuple[MemoryLevel, ...]
    explained: tuple[str, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Terms in words, and what the figures of a device mean.

    Attributes:
        terms: Term → definition with formula and unit.
        device: Sentences about the device, if one was named.
    """

    terms: dict[str, str]
    device: tuple[str, ...]


def analyze(question: Question) -> Any:
    """How long a model takes on a device, what limits it, its roofline and speed of light."""
    from gambrel.api.analyze import analyze as answered

    found = answered.answer(question)
    ranked = sorted(found.folded(), key=lambda row: -(row.measures.roofline_time_s or 0.0))
    return msgspec.structs.replace(found, ops=tuple(ranked))


def recommend(question: Question) -> Any:
    """What to change and by how much it would help: each change applied and analyzed again."""
    from gambrel.advise.recommend import advise
    from gambrel.api.analyze import analyze as answered
    from gambrel.api.analyze import settings_of

    return advise(answered.answer(question), settings_of(question).calibration)


def what_if(question: Question) -> Any:
    """The same question with changes: both answers, and where they differ."""
    from gambrel.api.advise import what_if as answered

    return answered.answer(question)


def check(question: Question) -> Any:
    """Whether a model on a device meets targets, and for a FAIL what would make it pass."""
    from gambrel.api.advise import check as answered

    return answered.answer(question)


def compare(question: Question) -> Any:
    """Models on devices in precisions and at batches, best first; unknown stays unknown."""
    from gambrel.api.advise import compare as answered

    found = answered.answer(question)
    shown = [
        msgspec.structs.replace(row, figures={m: row.figures[m] for m in found.metrics})
        for row in found.rows
    ]
    return msgspec.structs.replace(found, rows=tuple(shown))


def select(question: Question) -> Any:
    """The devices on which a model meets targets; unknowns and near misses stand apart."""
    from gambrel.api.advise import select as answered

    return answered.answer(question)


def serve_plan(question: Question) -> Any:
    """How to serve a language model: layout, batch, devices, TTFT, TPOT, tokens/s and cost."""
    from gambrel.api.plans import serve_plan as answered

    return answered.answer(question)


def train_plan(question: Question) -> Any:
    """A training step of a language model: time, MFU, tokens per second, memory."""
    from gambrel.api.plans import train_plan as answered

    return answered.answer(question)


def kv_cache(question: Question) -> Any:
    """The key/value cache: bytes needed and reserved, and the batch and context that fit."""
    from gambrel.api.plans import kv_cache as answered

    return answered.answer(question)


def devices(question: Question) -> Any:
    """The catalog of devices: dense peak, bandwidth, ridge point, memory, TDP."""
    from gambrel.api.catalog import devices as listed

    return {"devices": listed(question).devices}


def device(question: Question) -> Datasheet:
    """One device with every ceiling and its source."""
    from gambrel.device.explain import explain as explained
    from gambrel.device.resolve import resolve_hardware

    found, notes = resolve_hardware(question.hardware)
    return Datasheet(
        id=found.id,
        name=found.name,
        architecture=found.architecture,
        category=found.category,
        ceilings=found.ceilings,
        memory=found.memory,
        explained=tuple(explained(found)),
        unknown=tuple(found.unknown),
        notes=notes,
    )


def models(question: Question) -> Any:
    """The built-in models with the sizes that may be chosen."""
    from gambrel.api.catalog import models as listed

    found = listed(question)
    return {"models": found.models, "language": found.language}


def runtimes(question: Question) -> Any:
    """How models are executed: kernels, on-chip memory, host time, formats, evidence."""
    from gambrel.api.catalog import runtimes as listed

    return {"runtimes": listed(question).runtimes}


def explain(question: Question) -> Explanation:
    """What a term of roofline analysis means, and how to read a device's figures."""
    from gambrel.device.explain import explain as explained
    from gambrel.device.resolve import resolve_hardware
    from gambrel.report.terms import DEFINITIONS

    terms = dict(DEFINITIONS)
    if question.term is not None:
        key = _term(question.term, terms)
        terms = {key: terms[key]}
    elif question.hardware is not None:
        terms = {}
    named = question.hardware
    said = () if named is None else tuple(explained(resolve_hardware(named)[0]))
    return Explanation(terms=terms, device=said)


def _term(text: str, terms: dict[str, str]) -> str:
    """The term that is meant: spaces, dashes and case do not matter, nor does a missing unit."""
    key = re.sub(r"[\s-]+", "_", text.strip().lower())
    found = [t for t in terms if t == key or re.sub(r"_(s|j|bytes)$", "", t) == key]
    if found:
        return found[0]
    raise UnknownNameError("term", text, difflib.get_close_matches(key, terms, 4, 0.5) or terms)
