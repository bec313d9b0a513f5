"""What the batch does: the same question at other batches, and what limits each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from gambrel.analysis.result import Analysis
from gambrel.errors import GambrelError
from gambrel.report.picture import Axis, Chart, Curve, Dot, Key
from gambrel.report.terms import LIMITERS, items, limiter_of
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


def scan(now: Analysis, at: Callable[[int], Analysis]) -> Chart | None:
    """The expected rate over the batch, coloured by what limits it; None where no batch varies.

    Args:
        now: The answer whose place is marked.
        at: The answer at another batch.
    """
    symbols = now.workload.symbols if now.workload else ()
    batch = next((s for s in symbols if s.name == "batch"), None)
    if batch is None or batch.maximum == batch.minimum or place_of(now) is None:
        return None
    most = batch.maximum or _BATCHES[-1]
    steps = [b for b in _BATCHES if batch.minimum <= b <= most and b % batch.multiple_of == 0]
    rows = [(a, place) for a in _answers(steps, now, at) if (place := place_of(a))]
    return _drawn(now, rows) if len(rows) > 1 else None


def _answers(
    steps: Sequence[int], now: Analysis, at: Callable[[int], Analysis]
) -> Iterator[Analysis]:
    """The answers in the order of their batches; a batch without an answer is left out."""
    own = now.model.symbols["batch"]
    for step in sorted({*steps, own}):
        try:
            yield now if step == own else at(step)
        except GambrelError:
            continue  # e.g. a batch that the runtime does not take


def _drawn(now: Analysis, rows: Sequence[tuple[Analysis, _Place]]) -> Chart:
    unit = items(now)[1]
    limits = list(dict.fromkeys(limiter_of(a) or "unknown" for a, _ in rows))
    roofs = [
        (batch, items(a)[0] / a.roofline_time_s) for a, (batch, _) in rows if a.roofline_time_s
    ]
    return Chart(
        title=f"What the batch does: {unit}/s",
        about=" ".join(_parts(rows)),
        x=Axis(title="batch"),
        y=Axis(title=f"{unit}/s", unit=""),
        curves=(
            Curve(name="", points=tuple(place for _, place in rows), color="grey"),
            Curve(name="roofline", points=tuple(roofs), style="dashed", color="ink"),
        ),
        dots=tuple(_dot(a, place, unit) for a, place in rows),
        mark=place_of(now),
        legend=(
            *(Key(text=f"limited by {LIMITERS.get(x, x)}", color=_color(x)) for x in limits),
            Key(text="this page", shape="star", color="star"),
        ),
    )


def _color(limiter: str) -> str:
    return _COLORS.get(limiter, limiter)


def _dot(analysis: Analysis, place: _Place, unit: str) -> Dot:
    limiter = limiter_of(analysis) or "unknown"
    about = (
        f"batch {place[0]:,}: {format_number(place[1], 3)} {unit}/s",
        f"limited by {LIMITERS.get(limiter, limiter)}",
    )
    return Dot(at=place, color=_color(limiter), size=0.3, about=about)


def _parts(rows: Sequence[tuple[Analysis, _Place]]) -> Iterator[str]:
    """A sentence for each range of batches with one limiter: what more of it brings."""
    for limiter, group in groupby(rows, key=lambda row: limiter_of(row[0]) or "unknown"):
        places = [place for _, place in group]
        (first, slow), (last, fast) = places[0], places[-1]
        name = LIMITERS.get(limiter, limiter)
        if first == last:
            yield f"Batch {first:,}: limited by {name}."
            continue
        yield (
            f"Batch {first:,} to {last:,}: limited by {name}; {last / first:.3g} times the batch "
            f"gives {fast / slow:.3g} times the rate."
        )
