"""Launches added up: sums first, ratios after, so that no mean of ratios arises."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from gambrel.analysis.samples.records import Known, MeasuredTraffic, MeasuredWork, Sample
from gambrel.errors import UnknownNameError

#: By what launches are added: the same kernel with the same launch shape is the same work.
GROUPINGS: Final[dict[str, Callable[[int, Sample], Hashable]]] = {
    "kernel": lambda _, s: (s.name, s.grid, s.block, s.group),
    "name": lambda _, s: s.name,
    "group": lambda _, s: s.group or s.name,
    "range": lambda _, s: s.range or s.group or "(no range)",
    "launch": lambda i, _: i,
}


def aggregate(launches: Sequence[Sample], by: str = "kernel") -> tuple[Sample, ...]:
    """Adds launches up.

    Args:
        launches: As read.
        by: A key of `GROUPINGS`.

    Returns:
        One sample a group, the one with the most time first.

    Raises:
        UnknownNameError: No such grouping.
    """
    if by not in GROUPINGS:
        raise UnknownNameError("grouping", by, GROUPINGS)
    groups: dict[Hashable, list[Sample]] = {}
    for i, launch in enumerate(launches):
        groups.setdefault(GROUPINGS[by](i, launch), []).append(launch)
    merged = [merge(group, _name(group, by)) for group in groups.values()]
    return tuple(sorted(merged, key=lambda s: -(s.time_s or 0.0)))


def merge(group: Sequence[Sample], name: str) -> Sample:
    """Adds samples into one. A sum with an unknown part is unknown.

    Args:
        group: One or more.
        name: Of the sum.
    """
    if len(group) == 1 and group[0].name == name:
        return group[0]
    times = [s.time_s for s in group]
    states = {s.state for s in group}
    worst = next((k for k in (Known.NOT_COUNTABLE, Known.MISSING) if k in states), Known.COUNTED)
    return Sample(
        name=name,
        count=sum(s.count for s in group),
        time_s=None if None in times else sum(t for t in times if t is not None),
        state=worst,
        why=_why(group, worst),
        work=_add_work(group),
        traffic=_add_traffic(group),
        group=_same(s.group for s in group),
        grid=_same(s.grid for s in group),
        block=_same(s.block for s in group),
        origin=_same(s.origin for s in group),
        recorded=_mean([s.recorded for s in group], group),
        ratios=_mean([s.ratios for s in group], group),
        range=_same(s.range for s in group),
        instructions=_sum([s.instructions for s in group]),
        notes=tuple(dict.fromkeys(note for s in group for note in s.notes)),
    )


def times_work(work: tuple[MeasuredWork, ...], count: int) -> tuple[MeasuredWork, ...]:
    """The work of so many launches, each with this work."""
    if count == 1:
        return work
    return tuple(msgspec.structs.replace(w, flops=w.flops * count) for w in work)


def times_traffic(traffic: tuple[MeasuredTraffic, ...], count: int) -> tuple[MeasuredTraffic, ...]:
    """The traffic of so many launches, each with this traffic; other definitions too."""
    if count == 1:
        return traffic
    return tuple(
        msgspec.structs.replace(
            t,
            traffic_bytes=None if t.traffic_bytes is None else t.traffic_bytes * count,
            others={name: size * count for name, size in t.others.items()},
        )
        for t in traffic
    )


def _name(group: Sequence[Sample], by: str) -> str:
    if by == "range":
        return group[0].range or group[0].group or "(no range)"
    return (group[0].group if by == "group" else "") or group[0].name


def _why(group: Sequence[Sample], worst: Known) -> str:
    if worst is Known.COUNTED:
        return ""
    bad = [s for s in group if s.state is worst]
    whole = "" if len(bad) == len(group) else f" ({len(bad)} of {len(group)} launches)"
    return next((s.why for s in bad if s.why), worst.value) + whole


def _add_work(group: Sequence[Sample]) -> tuple[MeasuredWork, ...]:
    parts: dict[tuple[str, str, bool, bool], list[MeasuredWork]] = {}
    for sample in group:
        for w in sample.work:
            parts.setdefault((w.work_class, w.dtype, w.sparse, w.suspect), []).append(w)
    return tuple(
        MeasuredWork(
            work_class=key[0],
            dtype=key[1],
            flops=sum(w.flops for w in found),
            sparse=key[2],
            how=_same(w.how for w in found),
            error=max(w.error for w in found),
            suspect=key[3],
        )
        for key, found in parts.items()
    )


def _add_traffic(group: Sequence[Sample]) -> tuple[MeasuredTraffic, ...]:
    """Levels that every launch has, in one definition; different definitions are never mixed."""
    parts: dict[tuple[str, str], list[MeasuredTraffic]] = {}
    for sample in group:
        for t in sample.traffic:
            parts.setdefault((t.level, t.how), []).append(t)
    whole = [found for found in parts.values() if len(found) == len(group)]
    return tuple(_sum_level(found, group) for found in whole)


def _sum_level(found: Sequence[MeasuredTraffic], group: Sequence[Sample]) -> MeasuredTraffic:
    sizes = [t.traffic_bytes for t in found]
    known = [size for size in sizes if size is not None]
    shared = set.intersection(*(set(t.others) for t in found))
    rates = [t.byte_per_s for t in found if t.byte_per_s is not None]
    complete = len(known) == len(sizes)
    return MeasuredTraffic(
        level=found[0].level,
        traffic_bytes=sum(known) if complete else None,
        # Without times there is no weight: a rate is kept only where it is one launch's own.
        byte_per_s=rates[0] if not complete and len(group) == 1 and rates else None,
        how=found[0].how,
        others={name: sum(t.others[name] for t in found) for name in sorted(shared)},
        error=max(t.error for t in found),
    )


def _mean(values: Sequence[Mapping[str, float]], group: Sequence[Sample]) -> dict[str, float]:
    """Recorded shares weighted by time (they are shares of a time); unweighted without times."""
    names = set.intersection(*map(set, values))
    weights = [s.time_s or 0.0 for s in group]
    if not sum(weights):
        weights = [1.0] * len(group)
    return {
        n: sum(w * v[n] for w, v in zip(weights, values, strict=True)) / sum(weights)
        for n in sorted(names)
    }


def _sum(values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def _same(texts: Iterable[str]) -> str:
    found = list(dict.fromkeys(texts))
    return found[0] if len(found) == 1 else ""
