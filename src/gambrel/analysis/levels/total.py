"""Levels as records of the result: of one op, and summed over ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from gambrel import roofline
from gambrel.analysis.levels.hierarchy import hierarchy_of
from gambrel.analysis.levels.predict import USABLE, Step, Traffic, predict
from gambrel.analysis.measures import LevelTraffic, Measures
from gambrel.analysis.result import OpResult
from gambrel.device.model import Device
from gambrel.units import format_percent, format_si
from gambrel.workload import Workload

#: A difference below this is not worth a sentence.
_WORTH_SAYING: Final = 0.05


def records(traffic: Sequence[Traffic], flops: int) -> tuple[LevelTraffic, ...]:
    """What the result stores of one op.

    Args:
        traffic: From `predict`.
        flops: Of the op, for its intensity at each level.
    """
    return tuple(
        LevelTraffic(
            name=t.level.name,
            traffic_bytes=t.traffic_bytes,
            flops=flops,
            peak_byte_per_s=t.level.byte_per_s,
            time_s=_seconds(t.traffic_bytes, t.level.byte_per_s),
        )
        for t in traffic
    )


def add_levels(parts: Iterable[Measures], flops: int) -> tuple[LevelTraffic, ...]:
    """The levels of ops that run one after another.

    Args:
        parts: Of the ops; those without levels (unmodelled) add nothing.
        flops: Of their sum.
    """
    order: dict[str, LevelTraffic] = {}
    nbytes: dict[str, int] = {}
    for part in parts:
        for level in part.levels:
            order.setdefault(level.name, level)
            nbytes[level.name] = nbytes.get(level.name, 0) + level.traffic_bytes
    return tuple(
        LevelTraffic(
            name=name,
            traffic_bytes=nbytes[name],
            flops=flops,
            peak_byte_per_s=first.peak_byte_per_s,
            time_s=_seconds(nbytes[name], first.peak_byte_per_s),
        )
        for name, first in order.items()
    )


def _seconds(nbytes: int, byte_per_s: float | None) -> float | None:
    return roofline.seconds(nbytes, byte_per_s) if byte_per_s else None


def binding_level(levels: Sequence[LevelTraffic]) -> str | None:
    """The level that takes longest, the outermost of equals; None without a known bandwidth."""
    known = [level for level in levels if level.time_s]
    return max(known, key=lambda level: level.time_s or 0.0).name if known else None


def cached_roofline(rows: Iterable[Measures]) -> float | None:
    """The roofline when every level carries its own traffic: the sum of each op's slowest resource.

    Engines and links count as they do there; in place of all compulsory bytes at the main memory,
    each level with a known bandwidth moves what it must supply.

    Returns:
        Seconds; None when no op has levels.
    """
    whole, known = 0.0, False
    for m in rows:
        seconds = cached_time(m)
        known = known or seconds is not None
        whole += (m.roofline_time_s if seconds is None else seconds) or 0.0
    return whole if known else None


def cached_time(measures: Measures) -> float | None:
    """Seconds of one op when each level moves what it must supply; None when no level is known."""
    if not measures.levels:
        return None
    outer = measures.levels[0].name
    seconds = [t.time_s for t in measures.times if t.resource != outer]
    seconds += [level.time_s for level in measures.levels if level.time_s is not None]
    return max(seconds, default=0.0)


def with_levels(
    rows: Sequence[OpResult],
    workload: Workload,
    steps: Sequence[Step],
    device: Device,
    *,
    warm: bool = False,
) -> list[OpResult]:
    """The rows with the traffic of each level filled in.

    Args:
        rows: One a step.
        workload: The model.
        steps: Its ops in order.
        device: Whose levels.
        warm: As for `predict`.
    """
    found = predict(workload, steps, hierarchy_of(device), warm=warm)
    return [_with(row, traffic) for row, traffic in zip(rows, found, strict=True)]


def _with(row: OpResult, traffic: Sequence[Traffic]) -> OpResult:
    if not traffic:
        return row
    levels = records(traffic, row.measures.flops)
    return replace(row, measures=replace(row.measures, levels=levels))


def describe_caches(
    total: Measures, cached_s: float | None, warm: bool, rows: Sequence[OpResult] = ()
) -> tuple[str, ...]:
    """One sentence where the caches change the roofline by more than 5 %; nothing elsewhere.

    Args:
        total: Of the whole.
        cached_s: Its roofline time with the caches counted.
        warm: Whether the caches start full.
        rows: The ops, to name the inner levels that limit some of them.
    """
    roofline_s = total.roofline_time_s
    if not roofline_s or not cached_s or abs(cached_s / roofline_s - 1) <= _WORTH_SAYING:
        return ()
    outer = total.levels[0]
    start = "with what the run before left in them" if warm else "empty at the start"
    return (
        f"the roofline assumes that every kernel reads and writes {outer.name}, "
        f"{format_si(total.traffic_bytes, 'B')} in all; with what caches keep ({start}, "
        f"{format_percent(USABLE)} usable by assumption) it is "
        f"{format_si(outer.traffic_bytes, 'B')}, and the time "
        f"{format_si(cached_s, 's')} instead of {format_si(roofline_s, 's')}"
        f"{_inner(rows, cached_s)}.",
    )


def _inner(rows: Sequence[OpResult], whole_s: float) -> str:
    """The inner levels that limit ops, with their share of the time."""
    seconds: dict[str, float] = {}
    for row in rows:
        spent = cached_time(row.measures)
        inner = (x for x in row.measures.levels[1:] if spent and x.time_s == spent)
        for level in list(inner)[:1]:
            seconds[level.name] = seconds.get(level.name, 0.0) + (level.time_s or 0.0)
    found = [
        f"{format_percent(s / whole_s)} of it at the roof of {name}"
        for name, s in seconds.items()
        if s > _WORTH_SAYING * whole_s
    ]
    return f", {' and '.join(found)}" if found else ""
