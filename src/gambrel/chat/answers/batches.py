"""Which batch to use: where throughput stops growing, where the bound turns, what fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gambrel.chat.answers.base import Answer
from gambrel.chat.answers.results import result_of
from gambrel.chat.frame import Frame
from gambrel.engine.tables import plain
from gambrel.report.blocks import (
    DataTable,
    count,
    figures,
    rate_text,
    seconds,
    verdict_of_fit,
    words,
)
from gambrel.units import format_si, parse_quantity

if TYPE_CHECKING:
    from gambrel.analysis.sweep.record import Sweep

#: A batch saturates a device when it reaches this share of the best throughput.
SATURATED: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One batch.

    Attributes:
        batch: Its size.
        bound: The roofline's verdict; empty when unknown.
        expected_s: Of the whole batch; None when unknown.
        items_per_s: At the expected time; None when that is unknown.
        fits: Whether it fits the memory; None when unknown.
    """

    batch: int
    bound: str
    expected_s: float | None
    items_per_s: float | None
    fits: bool | None


def answer(frame: Frame) -> Answer:
    """Compares batches of the model on its device.

    Args:
        frame: With one model and one device; a latency limit rules out batches that take longer.
    """
    found: Sweep = result_of(frame)
    points = _points(found)
    limit = dict(frame.limits).get("latency")
    inside = _within(points, parse_quantity(limit, "time") if limit else None)
    said = [_saturation(points, inside, limit), _turn(points), _memory(points)]
    return Answer(
        frame=frame,
        sentence=f"{frame.models[0]} on {frame.hardware[0]}: {' '.join(s for s in said if s)}",
        record=found,
        blocks=(_table(points),),
    )


def _points(found: Sweep) -> tuple[_Point, ...]:
    names = ("batch", "bound", "expected_time_s", "items_per_s", "fits")
    rows = zip(*(plain(found.table[name]) for name in names), strict=True)
    return tuple(
        _Point(batch=batch, bound=bound, expected_s=time, items_per_s=rate, fits=fits)
        for batch, bound, time, rate, fits in rows
    )


def _within(points: Sequence[_Point], limit_s: float | None) -> tuple[_Point, ...]:
    """Batches that may run: those that do not fit, or take too long, are left out."""
    return tuple(
        p
        for p in points
        if p.fits is not False
        and p.expected_s is not None
        and (limit_s is None or p.expected_s <= limit_s)
    )


def _saturation(points: Sequence[_Point], inside: Sequence[_Point], limit: str | None) -> str:
    if not inside:
        if limit and any(p.expected_s is not None for p in points):
            return f"no batch is expected within {limit}."
        return "no expected time is known, so neither is the batch from which a larger one gains."
    best = max(inside, key=lambda p: p.items_per_s or 0.0)
    most = best.items_per_s or 0.0
    enough = next(p for p in inside if (p.items_per_s or 0.0) >= SATURATED * most)
    within = f" within {limit}" if limit else ""
    text = (
        f"batch {enough.batch:,} is expected to reach {rate_text(enough.items_per_s)} items/s in "
        f"{format_si(enough.expected_s, 's')}"
    )
    if enough is best:
        return f"{text}, the most of the batches{within} that were tried."
    return (
        f"{text}; larger ones gain less than {1 - SATURATED:.0%}{within} "
        f"({rate_text(most)} items/s at batch {best.batch:,})."
    )


def _turn(points: Sequence[_Point]) -> str:
    """Where the roofline's verdict changes."""
    known = [p for p in points if p.bound]
    if not known:
        return "The bound is unknown."
    first = known[0]
    turned = next((p for p in known if p.bound != first.bound), None)
    if turned is None:
        return f"The roofline is {first.bound}-bound at every batch up to {known[-1].batch:,}."
    sides = f"{first.bound}- to {turned.bound}-bound"
    return f"The roofline turns from {sides} at batch {turned.batch:,}."


def _memory(points: Sequence[_Point]) -> str:
    over = next((p for p in points if p.fits is False), None)
    return f"Batch {over.batch:,} does NOT fit in the memory." if over else ""


def _table(points: Sequence[_Point]) -> DataTable:
    return DataTable(
        heading="Batches",
        columns=(
            figures("batch", (p.batch for p in points), count),
            words("bound", (p.bound or "unknown" for p in points)),
            figures("expected", (p.expected_s for p in points), seconds),
            figures("items/s", (p.items_per_s for p in points), rate_text),
            words("fits", (verdict_of_fit(p.fits) for p in points)),
        ),
        all=True,
    )
