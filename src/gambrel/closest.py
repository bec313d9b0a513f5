"""The known names that are nearest to one that is not known."""

from __future__ import annotations

from collections.abc import Collection


def closest(name: str, known: Collection[str], count: int, least: float) -> list[str]:
    """The nearest of some names, best first.

    Args:
        name: What was given.
        known: The names that there are.
        count: How many at most.
        least: Similarity from 0 to 100 below which a name is none of them.
    """
    try:
        from rapidfuzz import fuzz, process
    except ModuleNotFoundError:  # Python in a browser has none
        from difflib import get_close_matches

        return get_close_matches(name, known, count, least / 100)
    hits = process.extract(name, list(known), scorer=fuzz.ratio, limit=count, score_cutoff=least)
    return [text for text, _, _ in hits]
