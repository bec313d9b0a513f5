"""A diagnosis: causes with their evidence."""

from __future__ import annotations

import msgspec

from gambrel.views import Viewed


class DiagnosisItem(msgspec.Struct, frozen=True, kw_only=True):
    """One cause.

    Attributes:
        cause: In two or three words.
        saves_s: Seconds of the recording that removing it can give back at most; None where that
            cannot be told from the recording.
        saves_share: That, of the whole.
        evidence: What was seen.
        change: What to do.
        command: How to check it.
    """

    cause: str
    saves_s: float | None
    saves_share: float | None
    evidence: str
    change: str
    command: str = ""


class Diagnosis(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """What makes a run slow.

    Attributes:
        source: The file.
        whole_s: Time of the recording from the first op to the last.
        items: The cause that can give back most first; at most ten.
        notes: What the reader should know.
    """

    source: str
    whole_s: float
    items: tuple[DiagnosisItem, ...]
    notes: tuple[str, ...] = ()
