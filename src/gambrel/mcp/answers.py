"""What the tools return where it is not the record that every face gets."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from gambrel.advise.design.record import DesignLayer, FusionDepth, Sensitivity
from gambrel.analysis.question import Question
from gambrel.analysis.sweep.record import Sweep
from gambrel.api.verbs import answer
from gambrel.closest import closest
from gambrel.device.model import Ceiling, MemoryLevel
from gambrel.engine.tables import PointTable
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


class SweepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Points of a sweep as rows, the highest rate first.

    Attributes:
        models: Names of the models.
        asked: Points that were asked for.
        rows: That were kept.
        said: What the points come to, a sentence each.
        pareto: Objectives of `front`.
        front: Points that no other beats in every objective.
        table: Points with their figures; those that are refused say why.
        column_units: Column → unit of its numbers.
    """

    models: tuple[str, ...]
    asked: int
    rows: int
    said: tuple[str, ...]
    pareto: tuple[str, ...]
    front: tuple[dict[str, Any], ...]
    table: tuple[dict[str, Any], ...]
    column_units: dict[str, str]


class DesignAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Designs under models, and the fastest one within the budgets layer by layer.

    Attributes:
        name: Of the specification.
        designs: All of them, see `SweepAnswer`.
        chosen: Parameters of the design that is looked at.
        totals: Its figures under all models together.
        layers: Its layers, slowest first.
        sensitivities: What 10 % more of each parameter is worth, largest gain first.
        fusion: How deep its memory lets layers fuse.
        assumptions: What the figures rest on.
        warnings: What the reader should know.
    """

    name: str
    designs: SweepAnswer
    chosen: dict[str, Any]
    totals: dict[str, Any]
    layers: tuple[DesignLayer, ...]
    sensitivities: tuple[Sensitivity, ...]
    fusion: tuple[FusionDepth, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]


def sweep(question: Question) -> SweepAnswer:
    """A sweep as rows."""
    found = answer(question)
    return _as_rows(found, found)


def design(question: Question) -> DesignAnswer:
    """A study of designs, its points as rows."""
    found = answer(question)
    own = {n: getattr(found, n) for n in DesignAnswer.__struct_fields__ if n != "designs"}
    return DesignAnswer(**own, designs=_as_rows(found.sweep, found))


def _as_rows(found: Sweep, said: Any) -> SweepAnswer:
    """The rows; ``said`` is the record whose report says what they come to."""
    from gambrel.report import document

    return SweepAnswer(
        models=found.models,
        asked=found.points,
        rows=found.rows,
        said=document(said).answer,
        pareto=found.pareto,
        front=_rows(found, found.front) if found.front is not None else (),
        table=_rows(found, found.table),
        column_units={f.name: f.unit for f in found.fields if f.unit},
    )


def _rows(found: Sweep, table: PointTable) -> tuple[dict[str, Any], ...]:
    """One row a point; the highest rate first, the refused ones last."""
    from gambrel.engine.tables import plain

    columns = {field.name: plain(table[field.name]) for field in found.fields}
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return tuple(sorted(rows, key=_rate, reverse=True))


def _rate(row: dict[str, Any]) -> float:
    rate, time = row.get("items_per_s"), row.get("array_time_s")
    if rate is None and time:
        rate = 1 / time
    return rate if rate is not None and rate == rate and row.get("fits") is not False else -1.0


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
    raise UnknownNameError("term", text, closest(key, terms, 4, 50) or terms)
