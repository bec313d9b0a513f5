"""Whether every figure of a text comes from results: numbers with units, scaled and rounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gambrel.chat.sentence import without_names
from gambrel.report.units import BESIDE, unit_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number in a text.

    Attributes:
        text: As written.
        value: In base units.
        slack: Half of its last digit, in base units: what rounding may have changed.
        kind: Of its unit: ``"s"``, ``"byte"``, ...; empty for none.
    """

    text: str
    value: float
    slack: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNumber:
    """A number of a result, in base units; ``kind`` as above."""

    value: float
    kind: str


_PREFIX: Final = {
    "p": 1e-12, "n": 1e-9, "nano": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "micro": 1e-6, "m": 1e-3,
    "milli": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
#: Spelling of a unit, behind any prefix → kind.
_UNITS: Final = (
    (r"FLOPs?(?:/| per )(?:byte|B)", "ratio"),
    (r"(?:FLOP|OP)s?/s|FLOPS|OPS", "flop/s"),
    (r"FLOPs?", "flop"),
    (r"(?:B|bytes?)/s", "byte/s"),
    (r"B|bytes?", "byte"),
    (r"s|sec|seconds?", "s"),
    (r"W|watts?", "W"),
    (r"J|joules?", "J"),
    (r"(?:images?|items?|samples?|tokens?|tok|frames?)?(?:/s| per second)|fps|FPS|Hz", "item/s"),
)
#: Words that scale, and signs of a kind of their own.
_WORDS: Final = {
    "million": ("", 1e6), "billion": ("", 1e9), "B": ("", 1e9), "trillion": ("", 1e12),
    "thousand": ("", 1e3), "percent": ("%", 1e-2), "%": ("%", 1e-2), "×": ("ratio", 1.0),
    "x": ("ratio", 1.0), "times": ("ratio", 1.0),
}  # fmt: skip
#: Unit of a field → kind; any other is a plain number.
_KINDS: Final = {
    "FLOP/byte": "ratio", "FLOP/s": "flop/s", "FLOP": "flop", "byte/s": "byte/s", "byte": "byte",
    "s": "s", "W": "W", "J": "J", "J/item": "J", "1/s": "item/s", "token/s": "item/s",
    "item/s": "item/s",
}  # fmt: skip
_NUMBER: Final = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)[-−]?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?:e([+-]?\d+))?"
    r"(?:\s?([A-Za-zµμ%×/]+(?: per [a-z]+)?))?"
)
_MARKER: Final = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)


def unsupported(text: str, known: list[KnownNumber], question: str = "") -> list[str]:
    """The figures of a text that neither a result nor the question holds.

    Args:
        text: To check. Names of models, devices and formats are no figures.
        known: Of the results of this turn; see `known_in`.
        question: What the user asked; its own numbers may be repeated.

    Returns:
        As written, in order.
    """
    asked = [KnownNumber(value=n.value, kind=n.kind) for n in numbers(question)]
    return [n.text for n in numbers(text) if not any(_means(n, k) for k in (*known, *asked))]


def numbers(text: str) -> Iterator[Number]:
    """The numbers of a text, without those that belong to names."""
    bare = _MARKER.sub("", without_names(text))
    for match in _NUMBER.finditer(bare):
        digits = match.group(1).replace(",", "")
        power = int(match.group(2) or 0)
        kind, scale = _unit(match.group(3) or "")
        places = len(digits.partition(".")[2])
        factor = scale * 10.0**power
        value = float(digits) * factor
        yield Number(
            text=match.group(0).strip(), value=value, slack=0.5 * 10.0**-places * factor, kind=kind
        )


def _unit(text: str) -> tuple[str, float]:
    """Kind and scale of a unit; a word that is none counts as no unit."""
    for pattern, kind in _UNITS:
        match = re.fullmatch(rf"({'|'.join(_PREFIX)})?(?:{pattern})", text)
        if match and text != "B":
            return kind, _PREFIX.get(match[1] or "", 1.0)
    return _WORDS.get(text) or ("", _PREFIX.get(text, 1.0) if text in "KkMGT" else 1.0)


def _means(number: Number, known: KnownNumber) -> bool:
    """Whether a written number is a known one, rounded."""
    if number.kind == "%":
        return known.kind in {"", "ratio", "%"} and _near(number, known.value)
    if number.kind == "ratio":
        return known.kind in {"", "ratio"} and _near(number, known.value)
    if number.kind and number.kind != known.kind:
        return False
    return _near(number, known.value)


def _near(number: Number, value: float) -> bool:
    slack = max(number.slack, abs(number.value) * 1e-9)
    # "about 100 s" is one digit of accuracy at most: nothing is off by more than 2 %.
    slack = min(slack, abs(number.value) * 0.02) if number.value else slack
    return math.isclose(abs(value), number.value, rel_tol=0.0, abs_tol=slack * (1 + 1e-9))


def known_in(result: Any) -> list[KnownNumber]:
    """The numbers of a result as JSON: numeric values only, never digits inside of texts.

    A name from a file could hold any digits; they prove nothing.
    """
    found: list[KnownNumber] = []
    _walk(result, "", found)
    return found


def _walk(value: Any, kind: str, found: list[KnownNumber]) -> None:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, (int, float)):
        found.append(KnownNumber(value=float(value), kind=kind))
    elif isinstance(value, dict):
        beside = _KINDS.get(str(value.get("unit")), kind)
        for key, item in value.items():
            unit = unit_of(str(key))
            own = beside if unit in (None, BESIDE) else _KINDS.get(unit, "")
            _walk(item, own, found)
    elif isinstance(value, (list, tuple)):
        found.append(KnownNumber(value=float(len(value)), kind=""))
        for item in value:
            _walk(item, kind, found)
