"""The known names that are nearest to one that is not known."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

#: Letters that a family's name has at least: fewer begin too many names.
_FAMILY: Final = 4


def closest(name: str, known: Collection[str], count: int, least: float) -> list[str]:
    """The nearest of some names, best first: those that go on where it ends, then similar ones.

    Args:
        name: What was given.
        known: The names that there are.
        count: How many at most.
        least: Similarity from 0 to 100 below which a name is none of them.
    """
    begun = sorted((text for text in known if text.startswith(name)), key=len) if name else []
    return list(dict.fromkeys([*begun, *_similar(name, known, count, least)]))[:count]


def family(name: str, known: Collection[str], count: int) -> list[str]:
    """The names that begin with the same letters up to a digit, the most similar first."""
    begun = _letters(name)
    if len(begun) < _FAMILY:
        return []
    kin = [text for text in known if _letters(text) == begun]
    return _similar(name, kin, count, 0)


def _letters(name: str) -> str:
    found = re.match(r"[a-z]*", name.lower())
    return found[0] if found else ""


def _similar(name: str, known: Collection[str], count: int, least: float) -> list[str]:
    try:
        from rapidfuzz import fuzz, process
    except ModuleNotFoundError:  # Python in a browser has none
        from difflib import get_close_matches

        return get_close_matches(name, known, count, least / 100)
    hits = process.extract(name, list(known), scorer=fuzz.ratio, limit=count, score_cutoff=least)
    return [text for text, _, _ in hits]
