"""What looks wrong in samples, each with its likely causes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from gambrel.analysis.measures import Bound
from gambrel.analysis.samples.records import Known, Sample
from gambrel.units import format_number, format_si

#: Shares above 100 % by less are rounding and clock jitter.
_TOLERANCE: Final = 1.005
#: Intensities may be out of order by this much: counters come from different replay passes.
_ORDER: Final = 1.02
#: The same work with this many times fewer DRAM bytes than another kernel: inputs were in cache.
_WARM: Final = 8.0
#: How the readers say that the tensor pipe worked, but not on tensor operations.
IDLE_PIPE: Final = "the tensor pipe executed instructions but no tensor operations"
_INNER_TO_OUTER: Final = ("L1", "L2", "DRAM")


def above_roof(binding: str, bound: Bound | None, efficiency: float | None) -> tuple[str, ...]:
    """A warning where a sample is faster than its roof allows.

    Args:
        binding: Resource that binds.
        bound: Its class.
        efficiency: Achieved / attainable.
    """
    if efficiency is None or efficiency <= _TOLERANCE:
        return ()
    if bound is Bound.MEMORY:
        causes = (
            "the data stayed in a cache nearer to the cores (the bytes are counted or assumed at "
            f"{binding}, but came from there), or the clock or the bandwidth of this device is "
            "above that of the roof"
        )
    else:
        causes = (
            "the clock was boosted above that of the roof, structured sparsity, a roof of another "
            "number format, or a wrong FLOP factor"
        )
    return (f"{efficiency:.0%} of the {binding} roof, above what it allows. Causes: {causes}.",)


def warnings_of(sample: Sample) -> tuple[str, ...]:
    """Warnings about one sample on its own."""
    return (*_order(sample), *_uncertain(sample), *_idle_pipe(sample), *_clock(sample))


def warnings_together(samples: Sequence[Sample]) -> dict[int, tuple[str, ...]]:
    """Warnings that need other samples to compare with, by position.

    Kernels that do the same work (same FLOP within 1 %) must read the same operands; one that moved
    far fewer DRAM bytes found them in the cache.
    """
    known = sorted(
        (flops / s.count, size / s.count, i)
        for i, s in enumerate(samples)
        if (flops := s.flops) and (size := s.bytes_at("DRAM"))
    )
    found: dict[int, tuple[str, ...]] = {}
    start = 0
    for end in range(1, len(known) + 1):
        if end < len(known) and known[end][0] <= known[start][0] * 1.01:
            continue
        _warm(known[start:end], found)
        start = end
    return found


def _warm(
    alike: Sequence[tuple[float, float, int]],
    found: dict[int, tuple[str, ...]],
) -> None:
    # The least of the others would do as well, but only a typical one is a fair comparison.
    sizes = sorted(size for _, size, _ in alike)
    typical = sizes[len(sizes) // 2]
    for _, size, i in alike:
        if size * _WARM <= typical:
            found[i] = (
                f"warm cache: {format_si(size, 'B')} from DRAM, where other kernels with the same "
                f"work move {format_si(typical, 'B')}; its inputs were still in L2 (collected "
                "with --cache-control none?), so its DRAM intensity says little.",
            )


def _order(sample: Sample) -> tuple[str, ...]:
    """Bytes shrink from the inner level to the outer; intensities must grow in that order."""
    known = [(n, b) for n in _INNER_TO_OUTER if (b := sample.bytes_at(n)) is not None]
    found = []
    for (inner, inside), (outer, outside) in pairwise(known):
        if outside > inside * _ORDER:
            found.append(
                f"out of order: {outer} moves {format_si(outside, 'B')}, more than {inner} with "
                f"{format_si(inside, 'B')}. Causes: a definition that counts reads only, data "
                "that bypass the level, write-backs or prefetches of other kernels."
            )
    return tuple(found)


def _uncertain(sample: Sample) -> tuple[str, ...]:
    if sample.state is not Known.COUNTED:
        return ()
    return tuple(
        f"{w.dtype} {w.work_class} work {format_number(w.flops)} FLOP is left out as suspect: "
        "on this chip the compiler moves constants with HFMA2 instructions, which count as half "
        "arithmetic."
        for w in sample.work
        if w.suspect
    )


def _idle_pipe(sample: Sample) -> tuple[str, ...]:
    """The readers note it by one launch; for a reader of the report it is a warning."""
    return tuple(note for note in sample.notes if note.startswith(IDLE_PIPE))


def _clock(sample: Sample) -> tuple[str, ...]:
    if sample.time_s is not None and sample.time_s <= 0:
        return ("a duration of zero: no rate can be given.",)
    return ()
