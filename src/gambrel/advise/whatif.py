"""The same question with changes: both answers, and where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from gambrel.advise.changes import apply_changes, case_of, describe_changes
from gambrel.advise.figures import items_of
from gambrel.analysis.estimate import Calibration
from gambrel.analysis.measures import Bound, Estimate, Measures
from gambrel.analysis.result import Analysis, Group, OpResult
from gambrel.errors import InputError
from gambrel.views import Viewed


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One scope before or after.

    Attributes:
        flops: FLOP.
        traffic_bytes: Bytes.
        arithmetic_intensity: FLOP/byte; None for work without traffic.
        bound: What limits.
        roofline_time_s: s.
        expected_time_s: With its range, s.
    """

    flops: int
    traffic_bytes: int
    arithmetic_intensity: float | None
    bound: Bound | None
    roofline_time_s: float | None
    expected_time_s: Estimate | None

    @property
    def time_s(self) -> float | None:
        """Expected time, else the bound."""
        return self.expected_time_s.value if self.expected_time_s else self.roofline_time_s


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A scope on both sides; None where it exists on one side only.

    Attributes:
        name: Of the op or kind.
        before: As it was.
        after: As it would be.
    """

    name: str
    before: Side | None
    after: Side | None

    @property
    def change_s(self) -> float:
        """By how much the time changes, s; negative is faster."""
        return _seconds(self.after) - _seconds(self.before)


class TotalPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The whole on one side.

    Attributes:
        hardware: Id of the device.
        precision: Number format.
        runtime: Id of the runtime.
        sizes: Symbol → value.
        items: Items of a batch.
        memory_bytes: Footprint.
        fits: Whether that fits the device; None when unknown.
        total: The whole.
    """

    hardware: str
    precision: str
    runtime: str
    sizes: dict[str, int]
    items: int
    memory_bytes: int
    fits: bool | None
    total: Side


class WhatIf(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """Both answers and their differences.

    Attributes:
        model: Name of the model.
        changes: As they were asked for.
        about: What they are and what they cost.
        before: As it is.
        after: As it would be.
        gain: Time per item before / after; above 1 is faster. None when either is unknown.
        gain_kind: ``expected`` or ``roofline``: the times that the gain compares.
        kinds: By kind of op, the largest change first.
        ops: By op, the largest change first.
        notes: What is assumed after the change and was not before.
    """

    model: str
    changes: tuple[str, ...]
    about: str
    before: TotalPoint
    after: TotalPoint
    gain: float | None
    gain_kind: str
    kinds: tuple[Difference, ...]
    ops: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        gain = "gain unknown" if self.gain is None else f"{self.gain:.2f}×, {self.gain_kind} time"
        return f"<WhatIf: {self.model}, {' + '.join(self.changes)}: {gain}>"


def with_change(
    analysis: Analysis, changes: Sequence[str], calibration: Calibration | None = None
) -> Analysis:
    """The analysis of the same question with changes.

    Args:
        analysis: As it is.
        changes: E.g. ``"precision=int8"``; see `gambrel.advise.changes.CATALOGUE`.
        calibration: Constants of the expected time; None for those that come with gambrel.

    Raises:
        InputError: No change.
        GambrelError: As `apply_changes`.
    """
    if not changes:
        raise InputError("name at least one change, e.g. precision=int8 or fuse.")
    return apply_changes(case_of(analysis, calibration), changes).analyzed()


def what_if(before: Analysis, after: Analysis, changes: Sequence[str]) -> WhatIf:
    """Where two analyses of one model differ.

    Args:
        before: As it is.
        after: From `with_change`.
        changes: That led from one to the other.
    """
    first, then = _point(before), _point(after)
    gain, kind = _gain(first, then)
    return WhatIf(
        model=before.model.name,
        changes=tuple(changes),
        about=describe_changes(changes),
        before=first,
        after=then,
        gain=gain,
        gain_kind=kind,
        kinds=_differences(_by_kind(before.by_kind), _by_kind(after.by_kind)),
        ops=_differences(_by_op(before.ops), _by_op(after.ops)),
        notes=(
            *([f"times leave out {after.left_out}."] if after.left_out else []),
            *(text for text in after.assumptions if text not in before.assumptions),
            *(text for text in after.warnings if text not in before.warnings),
        ),
    )


def _gain(before: TotalPoint, after: TotalPoint) -> tuple[float | None, str]:
    expected = before.total.expected_time_s, after.total.expected_time_s
    bounds = before.total.roofline_time_s, after.total.roofline_time_s
    if expected[0] is not None and expected[1] is not None:
        was, then, kind = expected[0].value, expected[1].value, "expected"
    elif bounds[0] is not None and bounds[1] is not None:
        was, then, kind = bounds[0], bounds[1], "roofline"
    else:
        return None, "unknown"
    return (was / before.items) / (then / after.items) if then else None, kind


def _point(analysis: Analysis) -> TotalPoint:
    return TotalPoint(
        hardware=analysis.hardware.id,
        precision=analysis.model.precision,
        runtime=analysis.runtime,
        sizes=dict(analysis.model.symbols),
        items=items_of(analysis),
        memory_bytes=analysis.footprint.total_bytes,
        fits=analysis.footprint.fits,
        total=_side(analysis.total),
    )


def _side(measures: Measures) -> Side:
    intensity = measures.arithmetic_intensity
    return Side(
        flops=measures.flops,
        traffic_bytes=measures.traffic_bytes,
        arithmetic_intensity=intensity if intensity < float("inf") else None,
        bound=measures.bound,
        roofline_time_s=measures.roofline_time_s,
        expected_time_s=measures.expected_time_s,
    )


def _by_kind(groups: Iterable[Group]) -> dict[str, Measures]:
    return {group.name: group.measures for group in groups}


def _by_op(rows: Iterable[OpResult]) -> dict[str, Measures]:
    """Rows by name; the second of a name is told apart by its number."""
    found: dict[str, Measures] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        seen[row.name] += 1
        times = seen[row.name]
        found[row.name if times == 1 else f"{row.name} #{times}"] = row.measures
    return found


def _differences(before: dict[str, Measures], after: dict[str, Measures]) -> tuple[Difference, ...]:
    names = dict.fromkeys((*before, *after))
    found = (
        Difference(
            name=name,
            before=_side(before[name]) if name in before else None,
            after=_side(after[name]) if name in after else None,
        )
        for name in names
    )
    return tuple(sorted(found, key=lambda d: -abs(d.change_s)))


def _seconds(side: Side | None) -> float:
    return (side.time_s or 0.0) if side else 0.0
