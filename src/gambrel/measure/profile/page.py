"""A profile as a page that opens offline: the chart, the whole, modules and ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gambrel.measure.profile import text
from gambrel.measure.profile.modules import ModulePoint
from gambrel.measure.profile.points import RooflinePoint
from gambrel.measure.profile.record import Profile
from gambrel.report import plain_page as html
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Modules shown: those with most time.
_MOST = 200


def page(profile: Profile, figure: go.Figure) -> str:
    """The page of a profile.

    Args:
        profile: What was measured.
        figure: Its chart.
    """
    heading = f"{profile.model.name} on {profile.hardware.name}, measured"
    chart = figure.to_html(full_html=False, include_plotlyjs=True)
    notes = [*text.doubts(profile.totals), *(f"{p.name}: {p.reason}" for p in _remarkable(profile))]
    ops = sorted(profile.ops, key=lambda p: -(p.time_s or 0.0))
    largest = sorted(profile.modules, key=lambda m: -(m.time_s or 0.0))[:_MOST]
    modules = [m for m in profile.modules if m in largest]
    return html.page(
        heading,
        [
            chart,
            *map(html.paragraph, text.whole(profile.ops, profile.totals)),
            html.table("Modules", _MODULES, map(_module, modules)),
            html.table("Kernels" if profile.stack != "eager" else "Ops", _OPS, map(_op, ops)),
            html.listed("Far from the roof", notes),
        ],
        scripts=True,
    )


_MODULES = ("module", "ops", "FLOP", "bytes", "measured", "share", "expected", "bound", "of roof")
_OPS = (
    "op",
    "kind",
    "FLOP",
    "bytes",
    "FLOP/byte",
    "FLOP/s",
    "measured",
    "spread",
    "expected",
    "bound time",
    "bound",
    "of roof",
)


def _remarkable(profile: Profile) -> list[RooflinePoint]:
    found = [p for p in profile.ops if p.reason]
    return sorted(found, key=lambda p: -(p.time_s or 0.0))[:50]


def _module(m: ModulePoint) -> tuple[str, ...]:
    return (
        m.name,
        str(m.ops),
        format_si(m.flops, ""),
        format_si(m.traffic_bytes, ""),
        format_si(m.time_s, "s"),
        format_percent(m.share),
        format_si(m.expected_time_s, "s"),
        format_si(m.bound_time_s, "s"),
        format_percent(m.utilization),
    )


def _op(p: RooflinePoint) -> tuple[str, ...]:
    return (
        p.name,
        p.type,
        format_si(p.flops, ""),
        format_si(p.traffic_bytes, ""),
        format_number(p.arithmetic_intensity, 3),
        format_si(p.achieved_flop_per_s, ""),
        format_si(p.time_s, "s"),
        format_percent(p.spread),
        format_si(p.expected_time_s, "s"),
        format_si(p.bound_time_s, "s"),
        p.bound,
        format_percent(p.utilization),
    )
