"""What to change, and by how much it would help: each change is applied and analyzed again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.result import Analysis, Bound
from gambrel.device.roofs import resolve
from gambrel.dtypes import FLOATING, PRECISIONS, width_bytes
from gambrel.errors import GambrelError, InputError
from gambrel.ops import Conventions

#: Below this gain a change is not worth a user's time.
SMALLEST_GAIN = 1.05
_LARGEST_BATCH = 1024


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """A change with its predicted effect on the bound.

    Attributes:
        change: As text, e.g. ``"precision=int8"``.
        about: One sentence: what it is and what it costs.
        time_before_s: Bound time per item (per batch element) now, s.
        time_after_s: The same after the change, s.
        gain: ``time_before_s / time_after_s``.
        latency_after_s: Bound time of the whole batch after the change, s.
        bound_after: The resource that limits then; None for an upper limit that names none.
        memory_after_bytes: Footprint after the change.
        fits_after: Whether that fits the device; None when unknown.
    """

    change: str
    about: str
    time_before_s: float
    time_after_s: float
    gain: float
    latency_after_s: float
    bound_after: Bound | None
    memory_after_bytes: int
    fits_after: bool | None


def recommend(analysis: Analysis) -> tuple[Recommendation, ...]:
    """Changes that lower the bound time per item by at least 5 %, best first.

    Tried are every precision that the device has a dense roof for and that is no wider than the
    present one, larger batches up to where they stop paying, and the limit of perfect fusion.
    Changes that would not fit in memory are left out. An empty result says that the bound cannot
    be lowered by any of these.

    Raises:
        InputError: The analysis carries no workload, or has no bound time.
    """
    if analysis.workload is None or analysis.total.bound_time_s is None:
        raise InputError(
            f"{analysis.model.name}: this analysis has no workload or no bound time to improve on."
        )
    found = [*_precisions(analysis), *_batches(analysis), *_fusion(analysis)]
    useful = [r for r in found if r.gain >= SMALLEST_GAIN and r.fits_after is not False]
    return tuple(sorted(useful, key=lambda r: -r.gain))


def _precisions(analysis: Analysis) -> Iterator[Recommendation]:
    now = analysis.model.precision
    for precision in PRECISIONS:
        roof = resolve(analysis.hardware, "matrix", precision)
        native = roof is not None and roof.dtype == precision
        # Below 8 bits no one runs activations as well as weights; that is another change.
        sensible = 1 <= width_bytes(precision) <= width_bytes(now)
        if precision == now or not sensible or not native:
            continue
        about = "Run the whole model in this format" + (
            "; check the accuracy on your data." if width_bytes(precision) < 2 else "."
        )
        yield from _tried(analysis, f"precision={precision}", about, precision=precision)


def _batches(analysis: Analysis) -> Iterator[Recommendation]:
    """The batch at which doubling stops paying (under 5 % per item) or memory is full."""
    batch = analysis.model.symbols.get("batch")
    best: Recommendation | None = None
    while batch is not None and batch < _LARGEST_BATCH:
        batch *= 2
        tried = next(_tried(analysis, f"batch={batch}", _BATCH_ABOUT, batch=batch), None)
        if tried is None or tried.fits_after is False:
            break
        if best is not None and best.time_after_s < SMALLEST_GAIN * tried.time_after_s:
            break
        best = tried
    if best is not None:
        yield best


_BATCH_ABOUT = "Weights are read once for more items; the latency of each batch grows."


def _fusion(analysis: Analysis) -> Iterator[Recommendation]:
    after = analysis.ideal_bound_time_s
    before = analysis.total.bound_time_s
    if after is None or not after or before is None:
        return
    items = _items(analysis)
    yield Recommendation(
        change="fuse",
        about="Upper limit of fusing ops: intermediates never leave the chip and all resources "
        "overlap. Real compilers reach a part of it.",
        time_before_s=before / items,
        time_after_s=after / items,
        gain=before / after,
        latency_after_s=after,
        bound_after=None,
        memory_after_bytes=analysis.footprint.total_bytes,
        fits_after=analysis.footprint.fits,
    )


def _tried(
    analysis: Analysis, change: str, about: str, precision: str | None = None, **sizes: int
) -> Iterator[Recommendation]:
    """One change, analyzed; nothing when the model does not take it."""
    settings = settings_of(analysis)
    settings = replace(
        settings,
        precision=precision or settings.precision,
        sizes={**(settings.sizes or {}), **sizes},
    )
    if analysis.workload is None:
        return
    try:
        after = analyze(analysis.workload, analysis.hardware, settings)
    except GambrelError:
        return
    before_s, after_s = analysis.total.bound_time_s, after.total.bound_time_s
    if not before_s or not after_s:
        return
    per_before, per_after = before_s / _items(analysis), after_s / _items(after)
    yield Recommendation(
        change=change,
        about=about,
        time_before_s=per_before,
        time_after_s=per_after,
        gain=per_before / per_after,
        latency_after_s=after_s,
        bound_after=after.total.bound,
        memory_after_bytes=after.footprint.total_bytes,
        fits_after=after.footprint.fits,
    )


def settings_of(analysis: Analysis) -> Settings:
    """The settings under which an analysis was made, to repeat it with changes."""
    floating = analysis.model.precision in FLOATING or analysis.model.precision in PRECISIONS
    return Settings(
        precision=analysis.model.precision if floating else None,
        sizes=dict(analysis.model.symbols),
        sparsity=analysis.sparsity,
        engine=analysis.engine or None,
        conventions=Conventions(**analysis.conventions),
    )


def _items(analysis: Analysis) -> int:
    return analysis.model.symbols.get("batch", 1)
