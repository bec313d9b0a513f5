"""Whether every figure of a text comes from results: numbers with units, scaled and rounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gambrel.chat.sentence import without_names


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
class Known:
    """A number of a result, in base units; ``kind`` as above."""

    value: float
    kind: str


_PREFIX: Final = {
    "": 1.0, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3,
    "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
#: Spelling of a unit → kind; the longest that fits is taken.
_UNITS: Final = {
    "FLOP/byte": "ratio", "FLOPs/byte": "ratio", "FLOP/B": "ratio", "FLOPs per byte": "ratio",
    "FLOP per byte": "ratio",
    "FLOP/s": "flop/s", "FLOPS": "flop/s", "FLOPs/s": "flop/s", "OP/s": "flop/s", "OPS": "flop/s",
    "FLOPs": "flop", "FLOP": "flop", "B/s": "byte/s", "byte/s": "byte/s", "bytes/s": "byte/s",
    "bytes": "byte", "byte": "byte", "B": "byte", "s": "s", "seconds": "s", "second": "s",
    "sec": "s",
    "W": "W", "watts": "W", "J": "J", "joules": "J", "Hz": "item/s", "fps": "item/s",
    "FPS": "item/s",
    "/s": "item/s", "images/s": "item/s", "items/s": "item/s", "samples/s": "item/s",
    "tokens/s": "item/s", "tok/s": "item/s", "tokens per second": "item/s",
    "images per second": "item/s", "frames per second": "item/s", "items per second": "item/s",
    "parameters": "", "params": "",
}  # fmt: skip
_WORDS: Final = {
    "milliseconds": ("s", 1e-3), "millisecond": ("s", 1e-3), "microseconds": ("s", 1e-6),
    "nanoseconds": ("s", 1e-9), "milliwatts": ("W", 1e-3), "millijoules": ("J", 1e-3),
    "million": ("", 1e6), "billion": ("", 1e9), "trillion": ("", 1e12), "thousand": ("", 1e3),
    "percent": ("%", 1e-2), "%": ("%", 1e-2), "×": ("ratio", 1.0), "x": ("ratio", 1.0),
    "times": ("ratio", 1.0),
}  # fmt: skip
_NUMBER: Final = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)[-−]?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?:e([+-]?\d+))?"
    r"(?:\s?([A-Za-zµμ%×/]+(?: per [a-z]+)?))?"
)
_MARKER: Final = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)


def unsupported(text: str, known: list[Known], question: str = "") -> list[str]:
    """The figures of a text that neither a result nor the question holds.

    Args:
        text: To check. Names of models, devices and formats are no figures.
        known: Of the results of this turn; see `known_in`.
        question: What the user asked; its own numbers may be repeated.

    Returns:
        As written, in order.
    """
    asked = [Known(value=n.value, kind=n.kind) for n in numbers(question)]
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
    if text in _WORDS:
        return _WORDS[text]
    for size in (2, 1, 0):
        prefix, rest = text[:size], text[size:]
        if len(prefix) == size and prefix in _PREFIX and rest in _UNITS:
            return _UNITS[rest], _PREFIX[prefix]
    if text in {"K", "k", "M", "G", "T", "B"}:
        return "", {"B": 1e9}.get(text) or _PREFIX[text]
    return "", 1.0


def _means(number: Number, known: Known) -> bool:
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


_KINDS: Final = (
    ("flop_per_s", "flop/s"), ("byte_per_s", "byte/s"), ("bytes", "byte"), ("flops", "flop"),
    ("_s", "s"), ("_w", "W"), ("_j", "J"), ("intensity", "ratio"), ("ridge_point", "ratio"),
    ("gain", "ratio"),
    ("headroom", "%"), ("expected", "s"),
)  # fmt: skip
_OF_UNIT: Final = {"J/item": "J", "item/J": "", "1": "", "": ""}


def known_in(result: Any) -> list[Known]:
    """The numbers of a result as JSON: numeric values only, never digits inside of texts.

    A name from a file could hold any digits; they prove nothing.
    """
    return list(_walk(result, ""))


def _walk(value: Any, kind: str) -> Iterator[Known]:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, (int, float)):
        yield Known(value=float(value), kind=kind)
    elif isinstance(value, dict):
        unit = value.get("unit")
        own = _OF_UNIT.get(unit, unit) if isinstance(unit, str) else None
        for key, item in value.items():
            yield from _walk(item, _kind(key) or own or kind)
    elif isinstance(value, (list, tuple)):
        yield Known(value=float(len(value)), kind="")
        for item in value:
            yield from _walk(item, kind)


def _kind(key: str) -> str:
    return next((kind for ending, kind in _KINDS if key.endswith(ending)), "")
