"""Ops that stay far below their roof: what holds them there."""

from __future__ import annotations

import msgspec

from gambrel.analysis.measures import Bound, Measures
from gambrel.analysis.result import Analysis
from gambrel.device.model import Device
from gambrel.dtypes import width_bytes

#: An op that attains less than this share of its roof, and takes more than this share of the time.
_FAR, _SHARE = 0.5, 0.02
_LISTED = 5


class Below(msgspec.Struct, frozen=True, kw_only=True):
    """An op far below its roof.

    Attributes:
        name: Of the op, repeated layers merged.
        count: Executions.
        time_share: Of the expected time of the whole.
        attained: Roofline over expected time.
        cause: ``launches``, ``network``, ``wrong engine``, ``small problem`` or ``access``.
        remedy: What would help.
    """

    name: str
    count: int
    time_share: float
    attained: float
    cause: str
    remedy: str


def below(analysis: Analysis) -> tuple[Below, ...]:
    """The ops with the most time that attain less than half of their roof; none if unknown."""
    whole = analysis.expected_time_s
    if whole is None or not whole.value:
        return ()
    found = []
    for row in analysis.folded():
        expected, bound = row.measures.expected_time_s, row.measures.roofline_time_s
        if expected is None or bound is None or not expected.value:
            continue
        share, attained = expected.value / whole.value, bound / expected.value
        if attained < _FAR and share > _SHARE:
            cause, remedy = _cause(row.measures, analysis.hardware)
            found.append(
                Below(
                    name=row.name,
                    count=row.count,
                    time_share=share,
                    attained=attained,
                    cause=cause,
                    remedy=remedy,
                )
            )
    return tuple(sorted(found, key=lambda b: -b.time_share)[:_LISTED])


def _cause(measures: Measures, device: Device) -> tuple[str, str]:
    if measures.bound is Bound.NETWORK:
        return "network", "devices wait for each other: fewer devices per group, or a faster link"
    expected = measures.expected_time_s
    if expected is not None and expected.launches_share >= _FAR:
        return (
            "launches",
            "kernel-launch overhead takes most of it: fuse, a larger batch, or graphs",
        )
    slow = [w for w in measures.work if w.work_class == "matrix" and w.engine]
    if any(c.engine == "matrix" for c in device.ceilings) and any(
        w.engine == "vector" or width_bytes(w.engine_dtype) > width_bytes(w.dtype) for w in slow
    ):
        return "wrong engine", "this format has no matrix engine here: choose another precision"
    if measures.bound is Bound.COMPUTE or measures.matrix_flops:
        return "small problem", "too little work to fill the device: a larger batch"
    return "access", "memory is reached at a part of its rate: fuse it with its neighbours"
