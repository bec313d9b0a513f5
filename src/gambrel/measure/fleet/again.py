"""A second look at what seems slow: measured again beside some of its peers before it is named.

What is slow for a reason of its own stays slow. What only had a bad moment, because something else
ran on its machine, is then like the peers that are measured in the same minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from statistics import median
from typing import Final, TypeAlias

import msgspec

from gambrel.measure.fleet.compare import RULE, compared
from gambrel.measure.fleet.records import Checkup, FleetFigure

#: Worker and device.
Key: TypeAlias = tuple[str, str]
#: How often a suspect is measured again, and how many peers of its kind stand beside it.
_TIMES: Final = 2
_PEERS: Final = 3


def key_of(one: Checkup) -> Key:
    """What identifies a device in a run."""
    return one.worker, one.device


def confirmed(
    checkups: Sequence[Checkup], measure: Callable[[list[Checkup]], dict[Key, Checkup]]
) -> list[Checkup]:
    """The checkups, with those cleared that were slow by chance.

    Args:
        checkups: Every device, measured once.
        measure: Measures some devices again, in the order given.
    """
    found = list(checkups)
    for _ in range(_TIMES):
        named = {(s.worker, s.device) for s in compared(found).suspects if s.cause == "slow"}
        slow = [one for one in found if key_of(one) in named]
        if not slow:
            break
        peers = [peer for sku in {one.sku for one in slow} for peer in _beside(sku, found, named)]
        mixed = [one for pair in zip_longest(slow, peers) for one in pair if one is not None]
        said = measure(mixed)
        beside = [said[key_of(peer)] for peer in peers if key_of(peer) in said]
        found = [
            _judged(one, said[key], beside)
            if (key := key_of(one)) in named and key in said
            else one
            for one in found
        ]
    return found


def _beside(sku: str, every: Sequence[Checkup], named: set[Key]) -> list[Checkup]:
    """The devices of a kind that lie nearest to its median."""
    kind = [c for c in every if c.sku == sku and c.figures]
    peers = [c for c in kind if not c.cleared and key_of(c) not in named]
    if not peers:
        return []
    name = peers[0].figures[0].name
    middle = median([c.value(name) or 0.0 for c in peers])
    return sorted(peers, key=lambda c: abs((c.value(name) or 0.0) - middle))[:_PEERS]


def _judged(first: Checkup, second: Checkup, beside: Sequence[Checkup]) -> Checkup:
    """A suspect after it was measured again."""
    if second.problem:
        return second
    for figure in second.figures:
        peers = [v for c in beside if c.sku == first.sku and (v := c.value(figure.name))]
        if not peers or figure.value < (1 - RULE) * median(peers):
            return first
    best = tuple(max(f, g, key=lambda v: v.value) for f, g in _same(first, second))
    return msgspec.structs.replace(first, figures=best, cleared=True)


def _same(first: Checkup, second: Checkup) -> Iterator[tuple[FleetFigure, FleetFigure]]:
    """The figures of the first with those of the second, which lacks what pairs measured."""
    again = {f.name: f for f in second.figures}
    return ((f, again.get(f.name, f)) for f in first.figures)
