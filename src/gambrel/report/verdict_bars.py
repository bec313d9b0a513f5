"""Verdicts as bars: a figure beside its limit, its peers, its baseline, or the step before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gambrel.report.options import Options
from gambrel.report.picture import Bar, Bars, Picture, color_keys, drawn_bars
from gambrel.report.text import clean, cut

if TYPE_CHECKING:
    from gambrel.advise.check import Check
    from gambrel.advise.gate.records import GateReport
    from gambrel.advise.judge.records import Gap, Judgement, KernelLimits
    from gambrel.advise.recommend import Advice
    from gambrel.advise.verdict import Constraint
    from gambrel.measure.fleet.records import FleetReport
    from gambrel.report.answers import Changes

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
        Bar(name="expected", values=(figure.value,), color="c0", ends=ends),
        Bar(name="limit", values=(c.limit,), color="c1", note=c.verdict.value),
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
    rows = (
        Bar(
            name=one.change,
            values=(one.gain,),
            color=one.bound_after.value if one.bound_after else "",
            ends=(min(one.gain_low, one.gain), one.gain),
        )
        for one in record.recommendations
    )
    about = "Time per item before / after; the line ends at the least gain."
    return drawn_bars("Speedup per item", about, rows, series=("gain",))


def gap(found: Gap, _options: Options) -> tuple[Picture, ...]:
    """A bar for each step from the speed of light to the measured time."""
    rows = (Bar(name=s.name, values=(s.time_s,)) for s in found.steps)
    about = "Each step takes the one above and adds what its name says."
    heading = "From the speed of light to the measured time"
    return drawn_bars(heading, about, rows, unit="s", series=("time",))


def gate(found: GateReport, _options: Options) -> tuple[Picture, ...]:
    """The change of each metric that has both values, what fails in its own colour."""
    rows = (
        Bar(
            name=row.metric,
            values=(row.value / row.baseline,),
            color="c1" if row.state.fails else "c0",
            note=row.state.value,
        )
        for row in found.rows
        if row.value is not None and row.baseline
    )
    heading, about = "Now relative to the baseline", "1 is the baseline."
    legend = color_keys(c1="fails", c0="passes")
    return drawn_bars(heading, about, rows, series=("ratio",), legend=legend)


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
        rows = (
            Bar(
                name=f"{worker} {device}",
                values=(value,),
                color="c1" if (worker, device) in suspects else "c0",
                note=cut(clean(suspects.get((worker, device), "")), _REASON),
            )
            for value, _, worker, device in sorted(values)
        )
        legend = color_keys(c1="differs from its kind", c0="like its kind")
        unit, series = values[0][1], ("rate",)
        yield from drawn_bars(name, "Slowest first.", rows, unit=unit, series=series, legend=legend)


def judgement(found: Judgement, _options: Options) -> tuple[Picture, ...]:
    """The measured time below the limits that it is judged by."""
    measured = Bar(name="measured", values=(found.measured_time_s,), color="c1")
    return _limits(found.limits, (measured,))


def kernel_limits(found: KernelLimits, _options: Options) -> tuple[Picture, ...]:
    """The speed of light, and what the best known library kernel is expected to take."""
    return _limits(found, ())


def _limits(found: KernelLimits, more: tuple[Bar, ...]) -> tuple[Picture, ...]:
    library = found.library_expected
    bars = [
        Bar(name="speed of light", values=(found.sol_time_s,), color="c2"),
        Bar(name="with cold caches", values=(found.cold_time_s,), color="c2"),
        Bar(name="measured ceilings", values=(found.measured_ceiling_time_s,), color="c2"),
    ]
    if library is not None:
        ends = (library.low, library.high)
        bars.append(Bar(name=found.library, values=(library.value,), color="c0", ends=ends))
    rows = [bar for bar in (*bars, *more) if bar.known]
    legend = color_keys(c2="limit", c0="expected of a library kernel", c1="measured")
    heading, about = "Time beside its limits", "Less is better; no run is below the speed of light."
    return drawn_bars(heading, about, rows, unit="s", series=("time",), legend=legend)
