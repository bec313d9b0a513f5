"""Repeated layers as one row: identical ops at the same place of each layer of a stack."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from gambrel.analysis.measures import EngineWork, LevelTraffic, Measures, ResourceTime
from gambrel.analysis.result import OpResult

_INDEX = re.compile(r"(?<![^.])\d+(?![^.])")


def fold(ops: Iterable[OpResult]) -> tuple[OpResult, ...]:
    """Merges ops that differ only in the index of the layer they are in.

    Two ops are the same when kind, framework op, phase, shapes and measures agree and their module
    paths agree after replacing each index by ``*``. Order is that of first occurrence. The merged
    row counts its executions and carries the sums of their measures.
    """
    listed = tuple(ops)
    return tuple(_merge([listed[i] for i in members]) for members in alike(listed))


def alike(ops: Iterable[OpResult]) -> list[list[int]]:
    """The places of the ops that `fold` merges into each row, in the order of its rows."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, op in enumerate(ops):
        m, expected = op.measures, op.measures.expected_time_s
        key = (
            _INDEX.sub("*", op.name),
            op.kind,
            op.phase,
            op.shapes,
            op.state,
            m.matrix_flops,
            m.vector_flops,
            m.read_bytes,
            m.write_bytes,
            m.roofline_time_s,
            expected and f"{expected.value:.6g}",  # sums differ in their last digits
            op.launches,
        )
        groups[key].append(place)
    return list(groups.values())


def _merge(members: list[OpResult]) -> OpResult:
    first, n = members[0], len(members)
    if n == 1:
        return first
    return msgspec.structs.replace(
        first,
        name=_common([m.name for m in members]),
        module=_common([m.module for m in members]),
        count=sum(m.count for m in members),
        launches=sum(m.launches for m in members),
        measures=_times(first.measures, n),
    )


def _common(paths: list[str]) -> str:
    """The path with ``*`` at the indices that differ."""
    split = [re.split(r"([. ])", p) for p in paths]
    if len({len(s) for s in split}) != 1:
        return _INDEX.sub("*", paths[0])
    return "".join(parts[0] if len(set(parts)) == 1 else "*" for parts in zip(*split, strict=True))


def _times(m: Measures, n: int) -> Measures:
    return msgspec.structs.replace(
        m,
        matrix_flops=m.matrix_flops * n,
        vector_flops=m.vector_flops * n,
        special_ops=m.special_ops * n,
        read_bytes=m.read_bytes * n,
        write_bytes=m.write_bytes * n,
        link_bytes=m.link_bytes * n,
        work=tuple(_work_times(w, n) for w in m.work),
        times=tuple(_time_times(t, n) for t in m.times),
        roofline_time_s=None if m.roofline_time_s is None else m.roofline_time_s * n,
        sol_time_s=None if m.sol_time_s is None else m.sol_time_s * n,
        sol_traffic_bytes=m.sol_traffic_bytes * n,
        expected_time_s=None if m.expected_time_s is None else m.expected_time_s.times(n),
        time_share=None if m.time_share is None else m.time_share * n,
        levels=tuple(_level_times(level, n) for level in m.levels),
    )


def _level_times(level: LevelTraffic, n: int) -> LevelTraffic:
    return msgspec.structs.replace(
        level,
        traffic_bytes=level.traffic_bytes * n,
        flops=level.flops * n,
        time_s=None if level.time_s is None else level.time_s * n,
    )


def _work_times(w: EngineWork, n: int) -> EngineWork:
    time_s = None if w.time_s is None else w.time_s * n
    return msgspec.structs.replace(w, flops=w.flops * n, time_s=time_s)


def _time_times(t: ResourceTime, n: int) -> ResourceTime:
    return msgspec.structs.replace(t, time_s=t.time_s * n)
