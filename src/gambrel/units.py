"""Text to SI values and back. Prefixes exist only here; memory and JSON hold base units.

Decimal prefixes (GB = 1e9 byte) everywhere; binary ones (GiB) are parsed, and written only where a
memory capacity is displayed.
"""

from __future__ import annotations

import math
import re
from typing import Final

from gambrel.errors import InputError, shown

_PREFIX: Final[dict[str, float]] = {
    "": 1.0,
    "p": 1e-12,
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}

#: Units by quantity, lower case; a bare number with only a prefix is accepted as well ("989T").
_UNITS: Final[dict[str, frozenset[str]]] = {
    "rate": frozenset({"", "flop/s", "flops", "flops/s", "op/s", "ops"}),
    "bandwidth": frozenset({"", "b/s", "byte/s", "bytes/s", "bps"}),
    "size": frozenset({"", "b", "byte", "bytes"}),
    "time": frozenset({"s", "sec"}),
    "power": frozenset({"w", ""}),
    "energy": frozenset({"j", "joule", "joules", ""}),
    "count": frozenset({"", "tokens"}),
    "throughput": frozenset({"", "/s", "fps", "hz", "items/s", "samples/s", "images/s", "qps"}),
}

_NUMBER: Final = re.compile(r"^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s].*)?$")


def parse_quantity(text: str, quantity: str, *, zero: bool = False) -> float:
    """Returns the value of ``text`` in base SI units.

    Args:
        text: For example ``"989T"``, ``"3.35TB/s"``, ``"10ms"``, ``"4096MB"``, ``"4GiB"``.
        quantity: ``"rate"`` (FLOP/s), ``"bandwidth"`` (byte/s), ``"size"`` (byte), ``"time"`` (s),
            ``"power"`` (W), ``"energy"`` (J), ``"count"`` or ``"throughput"`` (items/s).
        zero: Whether nothing at all is an answer.

    Raises:
        InputError: Not a number, not finite, not positive, or a unit of another quantity.
    """
    units = _UNITS[quantity]
    match = _NUMBER.match(text)
    if match is None:
        raise InputError(
            f"{shown(text)} is not a {quantity}; write for example {_EXAMPLE[quantity]}."
        )
    suffix = (match.group(2) or "").strip()
    for size in (2, 1, 0):
        prefix, unit = suffix[:size], suffix[size:]
        if len(prefix) == size and prefix in _PREFIX and unit.lower() in units:
            value = float(match.group(1)) * _PREFIX[prefix]
            if not math.isfinite(value) or value < 0 or (not value and not zero):
                least = "finite, non-negative" if zero else "positive, finite"
                raise InputError(f"{shown(text)} is not a {least} {quantity}.")
            return value
    raise InputError(
        f"{shown(text)}: unknown unit {shown(suffix)} for a {quantity}; "
        f"write for example {_EXAMPLE[quantity]}."
    )


_EXAMPLE: Final[dict[str, str]] = {
    "rate": "989T or 989TFLOP/s",
    "bandwidth": "3.35T or 3.35TB/s",
    "size": "4096MB or 4GiB",
    "time": "10ms",
    "power": "15W",
    "energy": "500mJ",
    "count": "15T or 300e9",
    "throughput": "30fps or 1k/s",
}

_SCALE: Final = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL: Final = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))


def format_si(value: float | None, unit: str, digits: int = 4) -> str:
    """Returns ``value`` with a decimal prefix, e.g. ``"8.178 GFLOP"``; unknown stays "unknown".

    Args:
        value: In base units.
        unit: Written after the prefix.
        digits: Significant digits.
    """
    if value is None:
        return "unknown"
    if value == 0:
        return f"0 {unit}".rstrip()
    if not math.isfinite(value):
        return f"∞ {unit}".rstrip()
    steps = _SCALE + _SMALL if unit in {"s", "W", "J", "FLOP/byte", ""} else (*_SCALE, (1.0, ""))
    magnitude = abs(value)
    for scale, prefix in steps:
        if magnitude < 0.9 * scale and scale != steps[-1][0]:
            continue
        # Rounding may carry into the next prefix: 999.96 k with 4 digits is 1 M.
        if float(f"{magnitude / scale:.{digits}g}") >= 1 or (scale, prefix) == steps[-1]:
            return f"{_plain(value / scale, digits)} {prefix}{unit}".rstrip()
    raise AssertionError("unreachable")  # pragma: no cover


def exact_text(value: float, unit: str) -> str:
    """Returns a value as a person types it, which `parse_quantity` reads back: ``"312T"``.

    Args:
        value: In base units.
        unit: Written after the prefix; may be empty.
    """
    found = [f"{value}".removesuffix(".0")]
    for scale, prefix in _SMALL if unit == "s" else (*_SCALE, *_SMALL):
        text = f"{value / scale:.12g}"
        if abs(value) >= scale and "e" not in text and float(text) * _PREFIX[prefix] == value:
            found.append(f"{text}{prefix.replace('µ', 'u')}")
    return min(found, key=len) + unit


def format_capacity(value: float | None, digits: int = 4) -> str:
    """Returns a memory capacity in binary units, e.g. ``"80 GiB"``."""
    if value is None:
        return "unknown"
    for power, prefix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if abs(value) >= 2.0**power:
            return f"{_plain(value / 2.0**power, digits)} {prefix}B"
    return f"{_plain(value, digits)} B"


def format_number(value: float | None, digits: int = 4) -> str:
    """Returns a plain number to ``digits`` significant digits, "∞" or "unknown"."""
    if value is None:
        return "unknown"
    if math.isinf(value):
        return "∞"
    return _plain(value, digits)


def format_percent(value: float | None) -> str:
    """Returns a share as a percentage with one decimal."""
    return "unknown" if value is None else f"{value:.1%}"


def format_count(count: int, noun: str, several: str = "") -> str:
    """Returns a number of things, e.g. ``"1 device"``, ``"2,048 devices"``.

    Args:
        count: How many.
        noun: One of them.
        several: More of them; empty appends an s.
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def format_figure(value: float | None, unit: str) -> str:
    """Returns a figure as people read it: a share in percent, anything else with its prefix."""
    return format_percent(value) if unit == "1" else format_si(value, unit, 3)


def _plain(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{float(text):.0f}" if abs(value) >= 1 else text
    return text
