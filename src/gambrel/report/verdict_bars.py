"""Verdicts as bars: a figure beside its limit, its peers, its baseline, or the step before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gambrel.report.options import Options
from gambrel.report.picture import Bar, Bars, Picture
from gambrel.report.text import clean, cut

if TYPE_CHECKING:
    from gambrel.advise.check import Check
    from gambrel.advise.gate.records import GateReport
    from gambrel.advise.judge.records import Gap
    from gambrel.advise.recommend import Advice
    from gambrel.advise.verdict import Constraint
    from gambrel.measure.fleet.records import FleetReport
    from gambrel.report.answers import Changes

#: Bars of one picture.
_MOST: Final = 40
#: Characters of a reason.
_REASON: Final = 60


def check(found: Check, _options: Options) -> tuple[Picture, ...]:
    """What is expected with its range, beside the limit; a picture for each requirement."""
    return tuple(_requirement(c) for c in found.constraints if c.figure.value is not None)


def _requirement(c: Constraint) -> Bars:
    figure = c.figure
    low, high = figure.low, figure.high
    ends = None if low is None or high is None else (low, high)
    unit = "capacity" if c.unit == "byte" else "" if "/" in c.unit else c.unit
    rows = (
        Bar(name="expected", values=(figure.value,), color="memory", ends=ends),
        Bar(name="limit", values=(c.limit,), color="compute", note=c.verdict.value),
    )
    return Bars(
        title=f"{c.metric}{f', {c.unit}' if '/' in c.unit else ''}",
        about=c.reason,
        unit=unit,
        series=("value",),
        rows=rows,
    )


def advice(record: Advice | Changes, _options: Options) -> tuple[Picture, ...]:
    """The gain of each change, from the least to the predicted one."""
    bars = tuple(
        Bar(
            name=one.change,
            values=(one.gain,),
            color=one.bound_after.value if one.bound_after else "",
            ends=(min(one.gain_low, one.gain), one.gain),
        )
        for one in record.recommendations[:_MOST]
    )
    if not bars:
        return ()
    about = "Time per item before / after; the line goes from the least to the predicted gain."
    return (Bars(title="How many times faster", about=about, unit="", series=("gain",), rows=bars),)


def gap(found: Gap, _options: Options) -> tuple[Picture, ...]:
    """A bar for each step from the speed of light to the measured time."""
    bars = tuple(Bar(name=s.name, values=(s.time_s,)) for s in found.steps)
    if not any(bar.known for bar in bars):
        return ()
    about = "Each step takes the one above and adds what its name says."
    heading = "From the speed of light to the measured time"
    return (Bars(title=heading, about=about, unit="s", series=("time",), rows=bars),)


def gate(found: GateReport, _options: Options) -> tuple[Picture, ...]:
    """The change of each metric that has both values, what fails in its own colour."""
    bars = tuple(
        Bar(
            name=row.metric,
            values=(row.value / row.baseline,),
            color="compute" if row.state.fails else "memory",
            note=row.state.value,
        )
        for row in found.rows
        if row.value is not None and row.baseline
    )
    if not bars:
        return ()
    about = "1 is the baseline; orange fails the gate."
    heading = "Now by the baseline"
    return (Bars(title=heading, about=about, unit="", series=("ratio",), rows=bars[:_MOST]),)


def fleet(found: FleetReport, _options: Options) -> tuple[Picture, ...]:
    """Each figure of every device, the slowest first; suspects in their own colour."""
    return tuple(_figures(found))


def _figures(found: FleetReport) -> Iterator[Picture]:
    suspects = {(s.worker, s.device): s.cause for s in found.suspects}
    names = dict.fromkeys(f.name for one in found.checkups for f in one.figures)
    for name in names:
        values = [
            (f.value, f.unit, one.worker, one.device)
            for one in found.checkups
            for f in one.figures
            if f.name == name
        ]
        bars = tuple(
            Bar(
                name=f"{worker} {device}",
                values=(value,),
                color="compute" if (worker, device) in suspects else "memory",
                note=cut(clean(suspects.get((worker, device), "")), _REASON),
            )
            for value, _, worker, device in sorted(values)[:_MOST]
        )
        left = len(values) - len(bars)
        about = "The slowest first; orange is not like its peers."
        about += f" {left:,} faster devices are left out." if left else ""
        yield Bars(title=name, about=about, unit=values[0][1], series=("rate",), rows=bars)
