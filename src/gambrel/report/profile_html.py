"""A profile as the page of an analysis with measured points in it: one file, offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gambrel.analysis.result import Analysis
from gambrel.errors import InputError
from gambrel.report.answers import Profiled
from gambrel.report.builders import figures_of
from gambrel.report.builders.profile import facts
from gambrel.report.html import headline, render_over
from gambrel.report.options import Options
from gambrel.report.profile_chart import chart_of_profile
from gambrel.units import format_percent, format_si

if TYPE_CHECKING:
    from gambrel.measure.profile.modules import ModulePoint
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
        "cards": [*map(card, facts(profile.ops, profile.totals)), *_computed(analysis)],
        "chart": chart,
        "more": {
            "tables": [_modules(profile)],
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


def _modules(profile: Profile) -> dict[str, Any]:
    largest = sorted(profile.modules, key=lambda m: -(m.time_s or 0.0))[:_MOST]
    return {
        "heading": "Modules",
        "header": _MODULES,
        "rows": [_module(m) for m in profile.modules if m in largest],
    }


_MODULES = (
    "module",
    "ops",
    "FLOP",
    "bytes",
    "measured",
    "share",
    "expected",
    "roofline",
    "of roof",
)


def _remarks(profile: Profile) -> list[str]:
    found = [p for p in profile.ops if p.reason]
    found.sort(key=lambda p: -(p.time_s or 0.0))
    return [f"{p.name}: {p.reason}" for p in found[:_REMARKS]]


def _module(m: ModulePoint) -> tuple[str, ...]:
    return (
        m.name,
        str(m.ops),
        format_si(m.flops, ""),
        format_si(m.traffic_bytes, ""),
        format_si(m.time_s, "s"),
        format_percent(m.share),
        format_si(m.expected_time_s, "s"),
        format_si(m.roofline_time_s, "s"),
        format_percent(m.utilization),
    )
