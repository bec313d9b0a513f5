"""What the batch does: the same question at other batches, and what limits each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from gambrel.advise.fleet import Point, point_of
from gambrel.analysis.measures import Bound
from gambrel.analysis.result import Analysis
from gambrel.errors import GambrelError
from gambrel.report.builders.analysis import limited_share
from gambrel.report.picture import Axis, Chart, Curve, Dot, Key, Note
from gambrel.report.terms import LIMITERS, items, limiter_of
from gambrel.units import format_number, format_percent, format_si

#: Batches that are asked, up to what the model takes.
_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
#: What limits → colour of its dots.
_COLORS: Final = {"launches": "overhead", "host": "overhead"}
#: What limits → what that means for a larger batch.
_MEANS: Final = {
    "host": "the device waits for the host, so more per run costs hardly more time",
    "launches": "launching kernels takes most of the time, so more per run costs hardly more time",
    "memory": "most of the time goes into moving bytes",
    "compute": "most of the time goes into arithmetic; twice the batch takes about twice as long",
    "network": "most of the time goes into communication",
}
#: Share from which on something decides alone.
_MOSTLY: Final = 0.5
_Place = tuple[int, float]


def place_of(analysis: Analysis) -> _Place | None:
    """Batch and expected rate (items/s); None where either is unknown."""
    batch, expected = analysis.model.symbols.get("batch"), analysis.total.expected_time_s
    if not batch or expected is None or not expected.value:
        return None
    return batch, items(analysis)[0] / expected.value


def why(now: Analysis) -> str:
    """Two sentences: what limits this batch, and where its work stands beside the ridge point."""
    batch, limiter = now.model.symbols.get("batch"), limiter_of(now)
    if batch is None or place_of(now) is None or limiter not in _MEANS:
        return ""
    share = limited_share(now)
    taken = f" ({format_percent(share)} of the time)" if share is not None else ""
    mostly = share is None or share >= _MOSTLY
    means = f": {_MEANS[limiter]}" if mostly else ", the largest of several parts"
    name = f"Batch {batch:,}: limited by {LIMITERS[limiter]}{taken}{means}."
    return " ".join(filter(None, (name, _weights(now), _beside(now))))


def _weights(now: Analysis) -> str:
    """What part of the traffic a larger batch shares; nothing where it is not known."""
    total, weights = now.total, now.footprint.weights_bytes
    if now.model.training or not 0 < weights <= total.traffic_bytes:
        return ""
    part = weights / total.traffic_bytes
    moved = f"A run moves {format_si(total.traffic_bytes, 'B', 3)}, {format_percent(part)} of it"
    if part >= _MOSTLY:
        return (
            f"{moved} weights, which are read once for the whole batch: a larger one shares them."
        )
    return f"{moved} weights, which a larger batch shares; the rest grows with the batch."


def _beside(now: Analysis) -> str:
    total = now.total
    intensity, ridge = total.arithmetic_intensity, total.ridge_point
    if intensity is None or ridge is None or total.bound is None:
        return ""
    return (
        f"It does {format_number(intensity, 3)} FLOP for each byte; from {format_number(ridge, 3)} "
        f"(the ridge point) on arithmetic is the limit: {total.bound.value}-bound by the roofline."
    )


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
        bound: The roofline's verdict.
        intensity: FLOP/byte.
    """

    place: _Place
    roofline: float | None
    limiter: str
    bound: Bound | None
    intensity: float | None


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
            bound=point.bound,
            intensity=point.arithmetic_intensity,
        )


def _drawn(now: Analysis, rows: Sequence[_Row]) -> Chart:
    unit = items(now)[1]
    limits = list(dict.fromkeys(row.limiter for row in rows))
    roofs = [(row.place[0], row.roofline) for row in rows if row.roofline]
    return Chart(
        title=f"What the batch does: {unit}/s",
        about=" ".join((*_parts(rows), *_ridge(rows, now.total.ridge_point))),
        x=Axis(title="batch"),
        y=Axis(title=f"{unit}/s", unit=""),
        curves=(
            Curve(name="", points=tuple(row.place for row in rows), color="grey"),
            Curve(name="roofline", points=tuple(roofs), style="dashed", color="ink"),
            *_wall(rows, roofs),
        ),
        notes=tuple(
            Note(at=(float(batch), rate), text=f"ridge crossed at batch {batch:,}", faint=True)
            for batch, rate in _crossing(rows)
        ),
        dots=tuple(_dot(row, unit) for row in rows),
        mark=place_of(now),
        legend=(
            *(Key(text=f"limited by {LIMITERS.get(x, x)}", color=_color(x)) for x in limits),
            Key(text="this page", shape="star", color="star"),
        ),
    )


def _crossing(rows: Sequence[_Row]) -> Sequence[_Place]:
    """The first batch that the roofline calls compute-bound, where smaller ones are not."""
    bounds = [row.bound for row in rows]
    at = next((i for i, bound in enumerate(bounds) if bound is Bound.COMPUTE), 0)
    return (rows[at].place,) if at and bounds[at - 1] is not None else ()


def _wall(rows: Sequence[_Row], roofs: Sequence[tuple[float, float]]) -> Iterator[Curve]:
    """An upright line where the ridge is crossed."""
    heights = [rate for _, rate in (*(row.place for row in rows), *roofs)]
    for batch, _ in _crossing(rows):
        ends = ((float(batch), min(heights)), (float(batch), max(heights)))
        about = "from here on the roofline is the compute roof"
        yield Curve(name="", points=ends, style="faint", color="ink", about=about)


def _ridge(rows: Sequence[_Row], ridge: float | None) -> Iterator[str]:
    """Where the ridge point is crossed, or that it is not."""
    first, last = rows[0], rows[-1]
    ends = first.intensity, last.intensity
    if None in ends or ridge is None:
        return
    low, high = (format_number(end, 3) for end in ends)
    moved = f"The intensity goes from {low} to {high} FLOP/byte; the ridge point is at"
    for batch, _ in _crossing(rows):
        yield f"{moved} {format_number(ridge, 3)}: from batch {batch:,} on compute-bound."
        return
    if first.bound is last.bound is not None:
        yield f"{moved} {format_number(ridge, 3)}: {last.bound.value}-bound at every batch."


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
