"""Bars of records that are tables: what is worth looking at first."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from gambrel.report.options import Options
from gambrel.report.picture import Bar, Picture, drawn_bars
from gambrel.report.text import clean, cut
from gambrel.units import format_count

if TYPE_CHECKING:
    from gambrel.advise.gate.records import GateMetric, GateRecorded
    from gambrel.advise.judge.records import Problems
    from gambrel.advise.whatif import Difference, TotalPoint, WhatIf
    from gambrel.analysis.samples.diagnosis import Diagnosis
    from gambrel.report.answers import Calibrated

#: Characters of a reason.
_REASON: Final = 60


def calibration(found: Calibrated, _options: Options) -> tuple[Picture, ...]:
    """How far measured times are from what the constants expect, widest class first."""
    rows = sorted(found.classes, key=lambda r: r.low_ratio / r.high_ratio)
    bars = (
        Bar(
            name=row.name,
            values=(row.low_ratio, row.high_ratio),
            note=format_count(row.points, "point"),
        )
        for row in rows
    )
    about = "1 is as expected; the wider a class, the less its constants say."
    return drawn_bars("Measured / expected time", about, bars, series=("lowest", "highest"))


def diagnosis(found: Diagnosis, _options: Options) -> tuple[Picture, ...]:
    """What removing each cause can give back at most, beside the whole."""
    bars = [Bar(name=i.cause, values=(i.saves_s,), color="c1") for i in found.items]
    bars = [bar for bar in bars if bar.known]
    if not bars:
        return ()
    whole = Bar(name="the whole recording", values=(found.whole_s,))
    about = "Causes overlap: what they give back does not add up."
    return drawn_bars("Time that each cause can give back at most", about, (*bars, whole), unit="s")


def problems(found: Problems, _options: Options) -> tuple[Picture, ...]:
    """The speed of light of each problem, the longest first; what has none says why."""
    rows = sorted(found.rows, key=lambda r: -(r.sol_time_s or 0.0))
    several = len({r.hardware for r in rows}) > 1
    bars = (
        Bar(
            name=f"{row.problem}, {row.hardware}" if several else row.problem,
            values=(row.sol_time_s,),
            color=row.bound.value if row.bound else "",
            missing="" if row.sol_time_s else cut(clean(row.error), _REASON) or "no roof is known",
        )
        for row in rows
    )
    return drawn_bars("Speed of light of each problem", "No run is faster.", bars, unit="s")


def baseline(found: GateRecorded, _options: Options) -> tuple[Picture, ...]:
    """How far the samples of each metric are apart, as a share of their median; widest first.

    A change that is smaller than this can be chance. One sample has no spread.
    """
    spreads = [(_spread(m), m) for m in found.baseline.metrics if len(m.samples) > 1]
    known = sorted(((s, m) for s, m in spreads if s is not None), key=lambda pair: -pair[0])
    bars = (
        Bar(name=m.name, values=(100 * s,), note=format_count(len(m.samples), "sample"))
        for s, m in known
    )
    about = "(Largest - smallest sample) / median; a smaller change can be chance."
    return drawn_bars("Spread of the samples", about, bars, unit="%")


def _spread(metric: GateMetric) -> float | None:
    middle = statistics.median(metric.samples)
    return (max(metric.samples) - min(metric.samples)) / abs(middle) if middle else None


def whatif(found: WhatIf, _options: Options) -> tuple[Picture, ...]:
    """The time per item on both sides, then each kind of op."""
    sides = (_side("before", found.before), _side("after", found.after))
    drawn = drawn_bars(
        "Time per item", "Less is better.", sides, unit="s", series=(found.gain_kind,)
    )
    kinds = (_kind(one) for one in found.kinds)
    both = ("after", "before")
    return drawn + drawn_bars("Time by kind of op", "Of the batch.", kinds, unit="s", series=both)


def _side(name: str, point: TotalPoint) -> Bar:
    time, items = point.total.expected_time_s, max(point.items, 1)
    color = point.total.bound or ""
    if time is None:
        at_roof = point.total.roofline_time_s
        return Bar(name=name, values=(at_roof / items if at_roof else None,), color=color)
    ends = (time.low / items, time.high / items)
    return Bar(name=name, values=(time.value / items,), color=color, ends=ends)


def _kind(one: Difference) -> Bar:
    values = tuple(side.time_s if side else None for side in (one.after, one.before))
    bound = one.after.bound if one.after else None
    return Bar(name=one.name, values=values, color=bound or "")
