"""The words of a question that the answer to it would leave out."""

from __future__ import annotations

import re
from typing import Final

from gambrel.chat.evidence import ENOUGH, INTENTS
from gambrel.chat.vocabulary import neutral_words, topic_words
from gambrel.chat.weigh import kin

#: Kinds of question whose answers show every figure, or sort by the one that is named.
_OF_ALL: Final = frozenset(
    {"compare", "select", "check", "what_if", "recommend", "why", "ops", "device", "utilization",
     "serve"}
)  # fmt: skip
_FIGURES: Final = frozenset(
    {"bandwidth", "compute", "energy", "memory", "power", "throughput", "efficiency", "bound",
     "overhead", "watt"}
)  # fmt: skip
#: Kind → words of what its answer always says.
_OWN: Final = {"bound": frozenset({"compute", "memory"})}
#: Kinds that choose what to show by other means than their evidence.
_OTHER: Final = frozenset({"", "help", "explain", "devices", "models"})


def unused(text: str, intent: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a question holds beside what is answered.

    Args:
        text: With markers.
        intent: What is answered.

    Returns:
        Words of the field that said nothing for this kind of question; and those among them that
        ask for something else.
    """
    if intent in _OTHER:
        return (), ()
    allowed = (
        neutral_words()
        | _OWN.get(intent, frozenset())
        | (_FIGURES if intent in _OF_ALL else frozenset())
    )
    rest = text
    for name in (intent, *kin(intent)):
        for pattern, _ in INTENTS[name].evidence:
            rest = pattern.sub(_blank, rest)
    found = [w for w in re.findall(r"[a-z][a-z-]+", rest) if w in topic_words()]
    left = [w for w in found if w not in allowed and not allowed.issuperset(w.split("-"))]
    words = tuple(dict.fromkeys(left))
    return words, tuple(word for word in words if _asks(word, rest, intent))


def _blank(match: re.Match[str]) -> str:
    """Blanks of the same length, the markers kept for other patterns."""
    return re.sub(r"[a-z'-]", " ", match.group())


def _asks(word: str, rest: str, intent: str) -> bool:
    """Whether a word is evidence for another kind of question, on what is left of the text."""
    return any(
        re.search(rf"\b{re.escape(word)}\b", match.group())
        for name, other in INTENTS.items()
        if name != intent
        for pattern, weight in other.evidence
        if weight > ENOUGH
        for match in pattern.finditer(rest)
    )
