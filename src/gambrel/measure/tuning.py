"""A short search for the variant of a loop over memory that is fastest on this machine.

With one thread, one property after another: how many parts of an array are walked side by side,
how far ahead data are asked for, how long a turn is. With all threads, the best of these again.
Variants run in turn on the same threads and data, several times, and only their ratios count: what
else the machine does meets all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from gambrel.measure.loops import Variant, possible
from gambrel.measure.probes import Probe

#: A variant takes the place of another only if it is faster by so much: less is chance.
_BETTER: Final = 1.01

#: Values to try, by property of a variant.
_VALUES: Final[dict[str, tuple[int, ...]]] = {
    "parts": (1, 2, 4, 8),
    "ahead": (0, 512, 1024, 2048),
    "unroll": (8, 16, 32),
}
#: The same where there is little time: whether these two pay at all.
_ROUGH: Final[dict[str, tuple[int, ...]]] = {"parts": (1, 4), "ahead": (0, 512)}

#: Variants that were best with one thread, to be tried with all.
_FINALISTS: Final = 3

#: Runs variants in turn and returns the rate of each over that of the first.
Race = Callable[[Sequence[Variant]], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What a search came to.

    Attributes:
        variant: The fastest.
        tried: Rate of each variant over that of the first one, in the order tried; that of the
            fastest from a comparison of these two alone.
    """

    variant: Variant
    tried: Mapping[Variant, float]


def values(probe: Probe, *, rough: bool = False) -> dict[str, tuple[int, ...]]:
    """What to try for a probe, by property.

    In an L1 nothing has to be fetched, and a store past the caches fetches nothing. Inner caches
    are walked in one piece: a triad in two parts in the L2 of a Xeon (Ice Lake) ran as fast as in
    one in some placements and at 0.77 of it in others, probably because parts lie pages apart.

    Args:
        probe: Of memory.
        rough: Little time: only main memory, and few values.
    """
    if rough and probe.chunks == 1:
        return {}
    left_out: set[str] = set()
    if probe.resource == "L1":
        left_out = {"ahead", "parts"}
    elif probe.resource == "L2":
        left_out = {"parts"}
    elif probe.mix == "write nt":
        left_out = {"ahead"}
    return {k: v for k, v in (_ROUGH if rough else _VALUES).items() if k not in left_out}


def search(mix: str, first: Variant, tries: Mapping[str, Sequence[int]], race: Race) -> Tuned:
    """Takes the best value of each property in turn, the others as they are by then.

    Args:
        mix: Of the loop: not every variant has registers enough.
        first: Where to begin, and what stays if nothing is clearly faster.
        tries: Values by property.
        race: Compares variants.
    """
    best, tried = first, {first: 1.0}
    for name, options in tries.items():
        written = [replace(best, **{name: value}) for value in options]
        others = [v for v in written if v not in tried and possible(mix, v)]
        ran = _raced(best, others, race)
        tried |= {variant: tried[best] * ratio for variant, ratio in ran.items()}
        best = _fastest(best, ran)
    return _confirmed(first, best, tried, race)


def again(first: Variant, before: Tuned, race: Race) -> Tuned:
    """Takes the best of those that a search with one thread put first.

    Args:
        first: What stays if nothing is clearly faster.
        before: What that search came to.
        race: Compares variants, with all threads.
    """
    ranked = sorted(before.tried, key=before.tried.__getitem__, reverse=True)
    others = dict.fromkeys(v for v in (before.variant, *ranked) if v != first)
    ran = _raced(first, list(others)[:_FINALISTS], race)
    return _confirmed(first, _fastest(first, ran), {first: 1.0, **ran}, race)


def _confirmed(first: Variant, best: Variant, tried: Mapping[Variant, float], race: Race) -> Tuned:
    """The first variant again, unless the best of the search beats it once more.

    The highest of several readings is high by chance as well; one more of its own is not.
    """
    if best == first:
        return Tuned(variant=first, tried=tried)
    ratio = race((first, best))[1]
    return Tuned(variant=best if ratio > _BETTER else first, tried={**tried, best: ratio})


def _raced(best: Variant, others: Sequence[Variant], race: Race) -> dict[Variant, float]:
    return dict(zip(others, race((best, *others))[1:], strict=True)) if others else {}


def _fastest(best: Variant, ran: Mapping[Variant, float]) -> Variant:
    challenger = max(ran, key=ran.__getitem__, default=best)
    return challenger if ran.get(challenger, 1.0) > _BETTER else best


def ratios(times: Sequence[Sequence[np.ndarray[Any, Any]]]) -> list[float]:
    """Rate of each variant over that of the first.

    Args:
        times: Seconds of the slices, by lap and variant. The shortest of all laps counts: on a busy
            machine nearly all others were interrupted, with several threads above all.
    """
    shortest = np.array([[float(slices.min()) for slices in lap] for lap in times]).min(axis=0)
    # Every slice does the same work, so that rates are to each other as times the other way round.
    return [float(r) for r in shortest[0] / shortest]
