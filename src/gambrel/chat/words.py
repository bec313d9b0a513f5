"""The words that questions are made of; any other is a misspelling, a name, or unknown."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files


@lru_cache(maxsize=1)
def _words() -> dict[str, str]:
    """Words of `words.toml` by list."""
    text = files(__package__).joinpath("words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@lru_cache(maxsize=1)
def topic_words() -> frozenset[str]:
    """Words that misspellings are corrected to."""
    return frozenset(w for w in _words()["topic"].split() if len(w) >= 4)


@lru_cache(maxsize=1)
def neutral_words() -> frozenset[str]:
    """Words of the topic that an answer may leave out."""
    return frozenset(_words()["neutral"].split())


@lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """Every word that is understood or meaningless."""
    from gambrel.chat.glossary import terms as all_terms

    terms = {w for t in all_terms().values() for text in (t.name, *t.also) for w in text.split()}
    return frozenset(_words()["topic"].split()) | frozenset(_words()["plain"].split()) | terms


def is_known(word: str) -> bool:
    """Whether a word is known, also as a plural, a possessive or a compound of known words."""
    known = known_words()
    bare = word.removesuffix("'s").removesuffix("’s").removesuffix("'")
    if bare in known or bare.removesuffix("s") in known:
        return True
    parts = [p for p in bare.replace("/", "-").split("-") if p]
    return len(parts) > 1 and all(p in known for p in parts)


def corrected(word: str) -> str | None:
    """The topic word that a misspelling must mean; None when there is none or several.

    One slip (letter missing, extra, wrong, or two swapped) in a word of up to eight letters, two in
    longer ones.
    """
    from rapidfuzz.distance import OSA

    slips = 1 if len(word) <= 8 else 2
    if len(word) < 4:
        return None
    near = {w: OSA.distance(word, w, score_cutoff=slips) for w in topic_words()}
    best = min(near.values())
    found = [w for w, d in near.items() if d == best]
    return found[0] if best <= slips and len(found) == 1 else None
