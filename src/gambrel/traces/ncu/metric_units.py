"""Units as every version of Nsight Compute spells them, as factors to base units."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_PREFIX: Final = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SMALL: Final = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12}
#: Bases that count; their automatic prefixes are decimal, and a small "m" is a large one.
_COUNTS: Final = frozenset(
    {"byte", "bytes", "b", "hz", "inst", "cycle", "sector", "request", "warp", "thread", "op"}
)
_TIMES: Final = frozenset({"second", "seconds", "s", "sec"})
_PART: Final = re.compile(r"([KkMGTPmuµμnp]?)([A-Za-z]+)")
_BINARY: Final = re.compile(r"([KkMGT])i(?:[Bb]|bytes?)")
_STEPS: Final = {"K": 1, "M": 2, "G": 3, "T": 4}


@lru_cache(maxsize=1024)
def scale(unit: str) -> float:
    """The factor from a unit to its base: ``Mbyte`` 1e6, ``usecond`` 1e-6, ``cycle/nsecond`` 1e9.

    What it counts does not matter, and an unknown unit is a base unit: the dimension follows from
    the metric's name, because labels of derived rates are wrong in some versions.

    Args:
        unit: As written; percent stays percent.
    """
    head, *rest = unit.strip().split("/")
    factor = _one(head)
    for part in rest:
        factor /= _one(part)
    return factor


def is_time(unit: str) -> bool:
    """Whether a unit is one of time: ``ns``, ``usecond``, ``ms``."""
    match = _PART.fullmatch(unit.strip())
    low = unit.strip().lower()
    return low in _TIMES or (match is not None and match[2].lower() in _TIMES)


def _one(part: str) -> float:
    part = part.strip()
    low = part.lower()
    if low in _COUNTS or low in _TIMES:
        return 1.0
    binary = _BINARY.fullmatch(part)
    if binary is not None:
        return float(1024 ** _STEPS[binary[1].upper()])
    match = _PART.fullmatch(part)
    if match is None:
        return 1.0
    prefix, base = match[1], match[2].lower()
    if base in _TIMES:
        return _SMALL.get(prefix, _PREFIX.get(prefix, 1.0))
    if base in _COUNTS:
        return _PREFIX.get(prefix.upper(), 1.0)
    return 1.0
