"""A profile as the page of an analysis with measured points in it: one file, offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gambrel.analysis.result import Analysis
from gambrel.errors import InputError
from gambrel.report.answers import Profiled
from gambrel.report.builders import figures_of
from gambrel.report.builders.profile import facts, modules_table
from gambrel.report.html import as_data, headline, render_over
from gambrel.report.options import Options
from gambrel.report.profile_chart import chart_of_profile

if TYPE_CHECKING:
    from gambrel.measure.profile.points import RooflinePoint
    from gambrel.measure.profile.record import Profile

#: Modules shown: those with most time.
_MOST = 200
#: Remarks shown.
_REMARKS = 50


def render(record: Profiled, options: Options) -> str:
    """The page of a profile: the page of its analysis with what was measured laid over it.

    Raises:
        InputError: The analysis of the same capture is not there.
    """
    profile, analysis = record.profile, record.analysis
    if analysis is None:
        raise InputError("a page of a profile needs the analysis of the same capture.")
    chart = chart_of_profile(analysis, profile.ops, profile.totals, options.title)
    whole = sum(p.time_s or 0.0 for p in profile.ops)
    over = {
        "measured": True,
        "verdict": "measured",
        "cards": [*map(card, facts(profile)), *_computed(analysis)],
        "chart": chart,
        "more": {
            "tables": [as_data(modules_table(profile.modules, _MOST), "Modules")],
            "about": "Far from the roof",
            "texts": _remarks(profile),
        },
    }
    rows = [_row(p, whole) for p in profile.ops]
    return render_over(analysis, over, rows, options.title or chart.title)


def card(said: tuple[str, str]) -> tuple[str, str, str]:
    """Label, the figure that a line begins with, and the rest of the line."""
    label, line = said
    for mark in (", ", ": ", " ("):
        big, cut, rest = line.partition(mark)
        if cut and len(big) <= _HEADLINE:
            return label, big, mark.strip(", :") + rest
    words = line.split(" ")
    first = 1 if words[0].endswith("%") else 2
    return label, " ".join(words[:first]), " ".join(words[first:])


#: Characters of a headline.
_HEADLINE = 24


def _computed(analysis: Analysis) -> list[tuple[str, str, str]]:
    """What the analysis of the same capture says of the whole."""
    wanted = ("Work", "Traffic", "Intensity", "Roofline", "Expected")
    return [headline(label, said) for label, said in figures_of.facts(analysis) if label in wanted]


def _row(p: RooflinePoint, whole: float) -> dict[str, Any]:
    return {
        "time_s": p.time_s,
        "spread": p.spread,
        "share": p.time_s / whole if p.time_s is not None and whole else None,
        "utilization": p.utilization,
        "flop_per_s": p.achieved_flop_per_s,
        "reason": p.reason,
    }


def _remarks(profile: Profile) -> list[str]:
    found = [p for p in profile.ops if p.reason]
    found.sort(key=lambda p: -(p.time_s or 0.0))
    return [f"{p.name}: {p.reason}" for p in found[:_REMARKS]]
