"""Designs as a picture: time against area (or energy), the front among all points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gambrel.engine.tables import PointTable, length, plain, take
from gambrel.report.builders.sweep import of_model
from gambrel.report.options import Options
from gambrel.report.picture import Axis, Chart, Curve, Dot, Key

if TYPE_CHECKING:
    from gambrel.advise.design.record import DesignStudy
    from gambrel.report.picture import Picture

#: What stands below: the first that varies.
_BELOW: Final = (("area_mm2", "area, mm²"), ("energy_per_item_j", "energy per item, J"),
                 ("peak_flop_per_s", "peak, FLOP/s"))  # fmt: skip
#: Dots drawn: more hide each other.
_MOST: Final = 2000


def pictures(record: object, _options: Options) -> tuple[Picture, ...]:
    """Time over area, one dot a design, the front as a line; none of a single design."""
    found: DesignStudy = record  # type: ignore[assignment]
    front = found.sweep.front
    table = found.sweep.table if length(found.sweep.table) else front
    if table is None or length(table) < 2:
        return ()
    table = of_model(table, found.sweep.models[-1])
    below = next((b for b in _BELOW if _is_known(table, b[0])), None)
    if below is None or length(table) < 2:
        return ()
    column, title = below
    line = of_model(front, found.sweep.models[-1]) if front is not None else table
    shown = take(table, slice(None, None, max(1, length(table) // _MOST)))
    return (
        Chart(
            title=f"{found.name}: time against {title.partition(',')[0]}",
            about=f"Each dot is a design under {found.sweep.models[-1]}; the line joins the "
            "designs that no other beats in both. The ring is the design that the report looks at.",
            x=Axis(title=title, unit=""),
            y=Axis(title="time, s", unit="s"),
            curves=(Curve(name="front", points=_front(line, column), color=0),),
            dots=tuple(_dots(found, shown, column)),
            mark=None,
            legend=(Key(text="design"), Key(text="looked at", hollow=True, color="star")),
        ),
    )


def _is_known(table: PointTable, name: str) -> bool:
    values = np.asarray(table[name], dtype=float)
    return bool(np.isfinite(values).all()) and len(np.unique(values)) > 1


def _front(table: PointTable, column: str) -> tuple[tuple[float, float], ...]:
    """The points that none beats in both, by rising x."""
    pairs = sorted(zip(plain(table[column]), plain(table["array_time_s"]), strict=True))
    best, kept = math.inf, []
    for x, y in pairs:
        if y < best:
            kept.append((float(x), float(y)))
            best = y
    return tuple(kept)


def _dots(found: DesignStudy, table: PointTable, column: str) -> list[Dot]:
    names = [n for n in found.chosen if n in table]
    values = {n: plain(table[n]) for n in names}
    times, places = plain(table["array_time_s"]), plain(table[column])
    made = []
    for i, (x, y) in enumerate(zip(places, times, strict=True)):
        own: dict[str, Any] = {n: values[n][i] for n in names}
        looked_at = all(found.chosen[n] == own[n] for n in names)
        about = tuple(f"{n} {v:g}" if isinstance(v, float) else f"{n} {v}" for n, v in own.items())
        made.append(
            Dot(
                at=(float(x), float(y)),
                color="star" if looked_at else "grey",
                hollow=looked_at,
                size=0.6 if looked_at else 0.0,
                about=about,
            )
        )
    return made
