"""A described roofline as columns: one entry a dot."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gambrel.report.chart import ChartPoint, RooflineChart
from gambrel.report.page.strings import Strings, number, numbers
from gambrel.report.text import clean

#: Field of a point → name of the column of numbers.
_NUMBERS: Final = {
    "arithmetic_intensity": "x",
    "flop_per_s": "rate",
    "expected_flop_per_s": "expected",
    "low_flop_per_s": "low",
    "high_flop_per_s": "high",
    "attainable_flop_per_s": "roof",
    "size": "size",
    "along": "along",
    "count": "count",
}
_TEXTS: Final = ("name", "kind", "module", "bound", "shape", "margin", "note")


def roofline_data(chart: RooflineChart, strings: Strings) -> dict[str, Any]:
    """The chart as the page draws it."""
    points = [*chart.points, *([chart.total] if chart.total.name else [])]
    return {
        "kind": "roofline",
        "title": clean(chart.title),
        "measured": chart.measured,
        "kind_label": chart.kind_label,
        "x": {"title": chart.x_label, "ends": list(chart.x_range), "unit": chart.x_unit},
        "y": {"title": chart.y_label, "ends": list(chart.y_range), "unit": chart.y_unit},
        "roofs": msgspec.to_builtins(chart.roofs),
        "slopes": msgspec.to_builtins(chart.memory_roofs),
        "ridges": msgspec.to_builtins(chart.ridges),
        "shapes": dict(chart.kinds),
        "points": _columns(points, strings),
        "moves": [[*map(number, (*m.start, *m.end)), m.bound] for m in chart.moves],
        "levels": _levels(chart),
    }


def _columns(points: list[ChartPoint], strings: Strings) -> dict[str, Any]:
    columns: dict[str, Any] = {
        name: numbers(getattr(p, field) for p in points) for field, name in _NUMBERS.items()
    }
    columns = {name: column for name, column in columns.items() if column is not None}
    columns["row"] = [p.index for p in points]
    return columns | {name: strings.all(getattr(p, name) for p in points) for name in _TEXTS}


def _levels(chart: RooflineChart) -> dict[str, Any] | None:
    """The same ops at each memory level."""
    levels = chart.levels
    if levels is None:
        return None
    points = [*levels.points, *([levels.total] if levels.total else [])]
    return {
        "names": list(levels.names),
        "byte_per_s": numbers(levels.byte_per_s),
        "row": [p.index for p in points],
        "rate": numbers(p.flop_per_s for p in points),
        "x": [numbers(p.intensities[i] for p in points) for i in range(len(levels.names))],
    }
