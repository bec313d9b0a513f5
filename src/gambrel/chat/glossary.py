"""The terms of the field, each in a few sentences; figures of a device come from the device."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One entry.

    Attributes:
        name: As it is shown.
        text: What it means.
        also: Other words for it.
        see: A command that shows it; empty for none.
    """

    name: str
    text: str
    also: tuple[str, ...] = ()
    see: str = ""


@lru_cache(maxsize=1)
def terms() -> dict[str, Term]:
    """All terms by name, in the order of the file."""
    text = files(__package__).joinpath("glossary.toml").read_text(encoding="utf-8")
    found = (
        Term(
            name=entry["name"],
            text=entry["text"],
            also=tuple(entry.get("also", ())),
            see=entry.get("see", ""),
        )
        for entry in tomllib.loads(text)["term"]
    )
    return {term.name: term for term in found}


@lru_cache(maxsize=1)
def _spellings() -> tuple[tuple[re.Pattern[str], str], ...]:
    pairs = sorted(_pairs(), key=lambda p: -len(p[0]))
    return tuple(
        (re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])"), name) for text, name in pairs
    )


def _pairs() -> Iterator[tuple[str, str]]:
    for term in terms().values():
        for text in (term.name, *term.also):
            yield text, term.name


def find_term(text: str) -> Term | None:
    """The term that a text names; of several the one with the longest spelling.

    Args:
        text: Lower case.
    """
    longest = next((name for pattern, name in _spellings() if pattern.search(text)), None)
    return terms()[longest] if longest else None
