"""What a question asks for, once understood: plain data that one command can answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Pairs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One understood question. Empty fields take the defaults of the command.

    Attributes:
        intent: A key of `gambrel.chat.intents.INTENTS`.
        models: Names of the zoo, without a phase.
        hardware: Ids of devices; ``("all",)`` is the whole catalog.
        precision: Number formats.
        batch: Batch sizes.
        sizes: Field → value, other than the batch.
        phase: ``"prefill"``, ``"decode"`` or empty.
        runtime: What executes the model.
        settings: Other fields that say how it runs.
        limits: Target → text with a unit.
        changes: As ``gambrel what-if --change`` takes them.
        metrics: What to compare, the first one sorts.
        filters: Of a list of devices or models.
        term: Of the glossary.
    """

    intent: str
    models: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    batch: tuple[int, ...] = ()
    sizes: Pairs = ()
    phase: str = ""
    runtime: tuple[str, ...] = ()
    settings: Pairs = ()
    limits: Pairs = ()
    changes: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    filters: Pairs = ()
    term: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """A frame, and what the user must know of how it was read.

    Attributes:
        frame: The question.
        notes: Choices made for the user, as sentences.
    """

    frame: Frame
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """A question that is not answered, because an answer would be a guess.

    Attributes:
        reason: What was not understood, or is missing; a sentence.
        candidates: What the user may have meant.
        partial: What was understood, for the next turn to complete; None when nothing was.
    """

    reason: str
    candidates: tuple[str, ...] = ()
    partial: Frame | None = None
