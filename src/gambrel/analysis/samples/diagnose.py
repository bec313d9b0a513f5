"""What to change about measured kernels, and the seconds that it can give back at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from gambrel.analysis.measures import Bound
from gambrel.analysis.samples.place import Placed, Standing
from gambrel.analysis.samples.records import Known
from gambrel.dtypes import BITS
from gambrel.units import format_percent

#: A kernel at this share of its roof is done: only less work or less traffic helps.
_AT_ROOF: Final = 0.75
#: Of the time of all kernels; less is not worth a user's time.
_LEAST_SHARE: Final = 0.01
_LOW_OCCUPANCY: Final = 0.3
#: Launches this short are mostly start and end: a launch takes some microseconds.
_SHORT_S: Final = 5e-6
_SHORT_SHARE: Final = 0.1


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to change.

    Attributes:
        kernel: Which; empty for the run as a whole.
        cause: What limits it, with the level or the engine.
        change: What to do.
        saves_s: Seconds of the recording that it can give back at most; None when unknown.
        share: That, of the time of all kernels.
    """

    kernel: str
    cause: str
    change: str
    saves_s: float | None
    share: float | None


def recommend(standing: Standing) -> tuple[Suggestion, ...]:
    """What to change, what can give back most first.

    Args:
        standing: Measured kernels.
    """
    whole = standing.total.sample.time_s or sum(k.sample.time_s or 0.0 for k in standing.kernels)
    found = [s for k in standing.kernels for rule in _RULES for s in rule(k, whole)]
    found += _idle(standing)
    found += _short(standing, whole)
    big = [s for s in found if s.share is None or s.share >= _LEAST_SHARE]
    return tuple(sorted(big, key=lambda s: -(s.saves_s or 0.0)))


def _suggest(
    kernel: str, cause: str, change: str, saves_s: float | None, whole_s: float
) -> Suggestion:
    share = saves_s / whole_s if saves_s is not None and whole_s else None
    return Suggestion(kernel=kernel, cause=cause, change=change, saves_s=saves_s, share=share)


def _memory_bound(k: Placed, whole: float) -> list[Suggestion]:
    """At the roof of a memory level: only fewer bytes help."""
    efficiency = k.roofline_efficiency
    if k.bound is not Bound.MEMORY or efficiency is None or efficiency < _AT_ROOF:
        return []
    cause = (
        f"at {format_percent(efficiency)} of {k.binding}: the bytes limit it, not the arithmetic"
    )
    if k.binding == "DRAM":
        change = "fuse it with its neighbours, or store its tensors in a narrower format"
    else:
        change = f"reuse more from nearer than {k.binding}: larger tiles, registers"
    half = (k.sample.time_s or 0.0) / 2
    return [
        _suggest(k.sample.name, cause, f"{change} (half the bytes, half the time)", half, whole)
    ]


def _below_roof(k: Placed, whole: float) -> list[Suggestion]:
    efficiency = k.roofline_efficiency
    if efficiency is None or efficiency >= _AT_ROOF or k.headroom_s is None:
        return []
    cause = f"{format_percent(efficiency)} of the {k.binding} roof"
    if any(f.startswith("uncoalesced") for f in k.findings):
        change = "let neighbouring lanes read neighbouring addresses: access is scattered"
    elif k.sample.recorded.get("occupancy", 1.0) < _LOW_OCCUPANCY:
        change = "more warps at once: fewer registers or less shared memory a block, larger grid"
    elif k.bound is Bound.COMPUTE:
        change = "keep the engine fed: tile sizes that divide the problem, a tuned library kernel"
    else:
        change = "more bytes in flight: wider loads, more blocks, asynchronous copies"
    return [_suggest(k.sample.name, cause, change, k.headroom_s, whole)]


def _wide_format(k: Placed, whole: float) -> list[Suggestion]:
    """Compute-bound on the vector engine in fp32, where the matrix engine would do."""
    work = [w for w in k.sample.work if w.flops and not w.suspect]
    if k.bound is not Bound.COMPUTE or len(work) != 1 or k.sample.state is not Known.COUNTED:
        return []
    w = work[0]
    if w.dtype not in BITS or BITS[w.dtype] <= 16 or (k.roofline_efficiency or 0.0) < _AT_ROOF:
        return []
    cause = f"at {format_percent(k.roofline_efficiency)} of {k.binding}"
    change = "a narrower format on the matrix engine (tf32, bf16) has several times the peak"
    return [_suggest(k.sample.name, cause, change, (k.sample.time_s or 0.0) / 2, whole)]


_RULES: Final[tuple[Callable[[Placed, float], list[Suggestion]], ...]] = (
    _memory_bound,
    _below_roof,
    _wide_format,
)


def _idle(standing: Standing) -> list[Suggestion]:
    """Time in which the device did nothing, or waited for the network."""
    spans = standing.samples.spans
    parts = ("busy", "compute", "copy", "exposed communication", "idle")
    whole = sum(spans.get(n, 0.0) for n in parts)
    found = []
    for name, change in (
        ("idle", "CUDA graphs or torch.compile, larger batches, no synchronization in the loop"),
        ("exposed communication", "overlap collectives with compute, larger buckets"),
    ):
        seconds = spans.get(name, 0.0)
        if seconds:
            cause = f"{name}: {format_percent(seconds / whole)} of the time of the device"
            found.append(_suggest("", cause, change, seconds, whole))
    return found


def _short(standing: Standing, whole: float) -> list[Suggestion]:
    """Very short kernels: their start costs as much as their work."""
    short = [
        k
        for k in standing.kernels
        if k.sample.time_s and k.sample.time_s / k.sample.count < _SHORT_S
    ]
    seconds = sum(k.sample.time_s or 0.0 for k in short)
    launches = sum(k.sample.count for k in short)
    if not whole or seconds < _SHORT_SHARE * whole or launches < 10:
        return []
    share = format_percent(seconds / whole)
    cause = f"{launches:,} launches shorter than 5 us take {share} of the time"
    return [_suggest("", cause, "fuse them, or record them as a CUDA graph", seconds / 2, whole)]
