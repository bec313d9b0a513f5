"""What the tools return where it is not the record that every face gets."""

from __future__ import annotations

import difflib
import re
from typing import Any, Final

import msgspec

from gambrel.analysis.question import Question
from gambrel.api.verbs import answer
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
    """An analysis with its ops folded, the longest first."""
    from gambrel.report.builders.analysis import slowest

    found = answer(question)
    return msgspec.structs.replace(found, ops=tuple(slowest(found)))


def compare(question: Question) -> Any:
    """A comparison with the figures that were asked for."""
    found = answer(question)
    shown = [
        msgspec.structs.replace(row, figures={m: row.figures[m] for m in found.metrics})
        for row in found.rows
    ]
    return msgspec.structs.replace(found, rows=tuple(shown))


def judge(question: Question) -> Any:
    """A ruling in less than 2 kB; notes and the range of the library are what `limits` answers."""
    found = answer(question)
    told = msgspec.structs.replace(found.limits, notes=(), library_expected=None)
    return msgspec.structs.replace(found, notes=(), causes=found.causes[:3], limits=told)


def device(question: Question) -> Datasheet:
    """A device with what its figures mean."""
    from gambrel.device.explain import explain as explained

    sheet = answer(question)
    own = {name: getattr(sheet.device, name) for name in _PUBLISHED}
    return Datasheet(explained=tuple(explained(sheet.device)), notes=sheet.notes, **own)


_PUBLISHED: Final = ("id", "name", "architecture", "category", "ceilings", "memory", "unknown")


def explain(question: Question) -> Explanation:
    """Terms, and sentences about a device."""
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
