"""Measured time by module: every module with all that runs inside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gambrel.measure.profile.points import RooflinePoint, main_flops

#: How the model itself is called, which has no path.
WHOLE: Final = "(model)"


class ModulePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A module and everything inside it.

    Attributes:
        name: Path; ``"(model)"`` for the model itself.
        depth: 0 for the model, 1 for its children, ...
        ops: Rows of the profile inside.
        flops: Their work on the main class of engine, FLOP.
        traffic_bytes: Their bytes.
        time_s: Sum of their measured times; None where none was measured.
        share: Of the model's time.
        roofline_time_s: Sum of their bounds; None where one is unknown.
        expected_time_s: Sum of their expected times; None where one is unknown.
        utilization: ``roofline_time_s / time_s``.
    """

    name: str
    depth: int
    ops: int
    flops: int
    traffic_bytes: int
    time_s: float | None
    share: float | None
    roofline_time_s: float | None
    expected_time_s: float | None
    utilization: float | None


def modules(points: Sequence[RooflinePoint]) -> tuple[ModulePoint, ...]:
    """Every module that runs something, parents before children, in the order of first use.

    Args:
        points: Of a profile. A kernel of several modules counts with the one that holds all.
    """
    inside: dict[str, list[RooflinePoint]] = defaultdict(list)
    for point in points:
        for path in _paths(point.module):
            inside[path].append(point)
    whole = _sum(p.time_s for p in points) if points else None
    return tuple(_module(path, found, whole) for path, found in _ordered(inside))


def _paths(module: str) -> tuple[str, ...]:
    parts = module.split(".") if module else []
    return ("", *(".".join(parts[: i + 1]) for i in range(len(parts))))


def _ordered(
    inside: dict[str, list[RooflinePoint]],
) -> list[tuple[str, list[RooflinePoint]]]:
    """Depth first: a module's children follow it, whatever ran in between."""
    place = {path: i for i, path in enumerate(inside)}
    return sorted(inside.items(), key=lambda item: [place[p] for p in _paths(item[0])])


def _module(path: str, found: Sequence[RooflinePoint], whole: float | None) -> ModulePoint:
    time_s = _sum(p.time_s for p in found)
    measured = [p for p in found if p.time_s is not None]
    bound = _all(p.roofline_time_s for p in measured)
    return ModulePoint(
        name=path or WHOLE,
        depth=len(path.split(".")) if path else 0,
        ops=len(found),
        flops=main_flops(found),
        traffic_bytes=sum(p.traffic_bytes for p in found),
        time_s=time_s,
        share=time_s / whole if time_s is not None and whole else None,
        roofline_time_s=bound,
        expected_time_s=_all(p.expected_time_s for p in measured),
        utilization=bound / time_s if bound is not None and time_s else None,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _all(values: Iterable[float | None]) -> float | None:
    """The sum; None where one is unknown."""
    found = list(values)
    known = [v for v in found if v is not None]
    return sum(known) if known and len(known) == len(found) else None
