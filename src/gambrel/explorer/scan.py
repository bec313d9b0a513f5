"""What the batch does: the same question at other batches, and what limits each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from gambrel.advise.fleet import Point, point_of
from gambrel.analysis.result import Analysis
from gambrel.errors import GambrelError
from gambrel.report.picture import Axis, Chart, Curve, Dot, Key
from gambrel.report.terms import LIMITERS, items
from gambrel.units import format_number

#: Batches that are asked, up to what the model takes.
_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
#: What limits → colour of its dots.
_COLORS: Final = {"launches": "overhead", "host": "overhead"}
_Place = tuple[int, float]


def place_of(analysis: Analysis) -> _Place | None:
    """Batch and expected rate (items/s); None where either is unknown."""
    batch, expected = analysis.model.symbols.get("batch"), analysis.total.expected_time_s
    if not batch or expected is None or not expected.value:
        return None
    return batch, items(analysis)[0] / expected.value


def scan(now: Analysis, at: Callable[[int], Point]) -> Chart | None:
    """The expected rate over the batch, coloured by what limits it; None where no batch varies.

    Args:
        now: The answer whose place is marked.
        at: What is expected at another batch.
    """
    symbols = now.workload.symbols if now.workload else ()
    batch = next((s for s in symbols if s.name == "batch"), None)
    if batch is None or batch.maximum == batch.minimum or place_of(now) is None:
        return None
    most = batch.maximum or _BATCHES[-1]
    steps = [b for b in _BATCHES if batch.minimum <= b <= most and b % batch.multiple_of == 0]
    rows = list(_rows(steps, now, at))
    return _drawn(now, rows) if len(rows) > 1 else None


class _Row(NamedTuple):
    """One batch.

    Attributes:
        place: Batch and expected rate.
        roofline: The rate at the roofline; None where it is unknown.
        limiter: A word for what limits it.
    """

    place: _Place
    roofline: float | None
    limiter: str


def _rows(steps: Sequence[int], now: Analysis, at: Callable[[int], Point]) -> Iterator[_Row]:
    """In the order of batches; one without an expected time is left out."""
    own = now.model.symbols["batch"]
    per_batch = items(now)[0] / own
    for batch in sorted({*steps, own}):
        try:
            point = point_of(now) if batch == own else at(batch)
        except GambrelError:
            continue  # e.g. a batch that the runtime does not take
        expected, roofline = point.facts.expected, point.facts.roofline_s
        if expected is None or not expected.value:
            continue
        yield _Row(
            place=(batch, batch * per_batch / expected.value),
            roofline=batch * per_batch / roofline if roofline else None,
            limiter=point.limited_by.value if point.limited_by else "unknown",
        )


def _drawn(now: Analysis, rows: Sequence[_Row]) -> Chart:
    unit = items(now)[1]
    limits = list(dict.fromkeys(row.limiter for row in rows))
    roofs = [(row.place[0], row.roofline) for row in rows if row.roofline]
    return Chart(
        title=f"What the batch does: {unit}/s",
        about=" ".join(_parts(rows)),
        x=Axis(title="batch"),
        y=Axis(title=f"{unit}/s", unit=""),
        curves=(
            Curve(name="", points=tuple(row.place for row in rows), color="grey"),
            Curve(name="roofline", points=tuple(roofs), style="dashed", color="ink"),
        ),
        dots=tuple(_dot(row, unit) for row in rows),
        mark=place_of(now),
        legend=(
            *(Key(text=f"limited by {LIMITERS.get(x, x)}", color=_color(x)) for x in limits),
            Key(text="this page", shape="star", color="star"),
        ),
    )


def _color(limiter: str) -> str:
    return _COLORS.get(limiter, limiter)


def _dot(row: _Row, unit: str) -> Dot:
    batch, rate = row.place
    about = (
        f"batch {batch:,}: {format_number(rate, 3)} {unit}/s",
        f"limited by {LIMITERS.get(row.limiter, row.limiter)}",
    )
    return Dot(at=row.place, color=_color(row.limiter), size=0.3, about=about)


def _parts(rows: Sequence[_Row]) -> Iterator[str]:
    """A sentence for each range of batches with one limiter: what more of it brings."""
    for limiter, group in groupby(rows, key=lambda row: row.limiter):
        places = [row.place for row in group]
        (first, slow), (last, fast) = places[0], places[-1]
        name = LIMITERS.get(limiter, limiter)
        if first == last:
            yield f"Batch {first:,}: limited by {name}."
            continue
        yield (
            f"Batch {first:,} to {last:,}: limited by {name}; {last / first:.3g} times the batch "
            f"gives {fast / slow:.3g} times the rate."
        )
