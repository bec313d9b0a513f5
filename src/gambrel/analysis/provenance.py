"""Which question a result answers, for as long as the result lives."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Final

from gambrel.analysis.commandline import commands_of, is_text

#: Place of a record in memory → the record itself, its verb and what was given.
_ASKED: Final[dict[int, tuple[weakref.ref[Any], str, Mapping[str, Any]]]] = {}


def remember(record: object, verb: str, given: Mapping[str, Any]) -> None:
    """Notes what a result answers, where texts and numbers say it: models in memory stay free.

    Nothing is noted of a result that takes no weak reference.

    Args:
        record: The result.
        verb: One of `VERBS`.
        given: Field → text or value, as they were given.
    """
    if not is_text(given):
        return
    place = id(record)
    try:
        held = weakref.ref(record, lambda _: _ASKED.pop(place, None))
    except TypeError:
        return
    _ASKED[place] = held, verb, given


def asked_of(record: object) -> dict[str, str]:
    """The command and the Python that ask for a result again; empty where that is not known."""
    held, verb, given = _ASKED.get(id(record), (None, "", {}))
    if held is None or held() is not record:
        return {}
    return commands_of(verb, given, "python")
