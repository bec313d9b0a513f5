"""A second look at what seems slow: measured again beside some of its peers before it is named.

What is slow for a reason of its own stays slow. What only had a bad moment, because something else
ran on its machine, is then like the peers that are measured in the same minutes.

Where figures scatter so much that one measurement tells nothing, the slowest devices are measured
in rounds with the same peers. However noisy the machines are, a device like the others is the last
of four as often as each of them, so in six rounds out of six once in 4,096 times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import Final, TypeAlias

import msgspec

from gambrel.measure.fleet.compare import RULE, compared, is_noisy
from gambrel.measure.fleet.records import Checkup, FleetFigure, FleetLag, Peers

#: Worker and device.
Key: TypeAlias = tuple[str, str]
#: Measures some devices again, in the order given.
Measure: TypeAlias = Callable[[list[Checkup]], dict[Key, Checkup]]
#: How often a suspect is measured again, and how many peers of its kind stand beside it.
_TIMES: Final = 2
_PEERS: Final = 3
#: Rounds in all of which a device must be the last, and how many devices of a kind are tried.
_ROUNDS: Final = 6
_TRIED: Final = 4


def key_of(one: Checkup) -> Key:
    """What identifies a device in a run."""
    return one.worker, one.device


def confirmed(checkups: Sequence[Checkup], measure: Measure) -> list[Checkup]:
    """The checkups, with those cleared that were slow by chance, and marked that always lag.

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
    lags = _lags(found, measure)
    return [
        msgspec.structs.replace(one, lag=lags[key]) if (key := key_of(one)) in lags else one
        for one in found
    ]


def _lags(every: Sequence[Checkup], measure: Measure) -> dict[Key, FleetLag]:
    """Devices that are the last of their rounds, in figures too noisy for one measurement."""
    report = compared(every)
    named = {(s.worker, s.device) for s in report.suspects}
    tried: dict[Key, list[tuple[str, list[float]]]] = {}
    for p in filter(is_noisy, report.peers):
        for key in _slowest(p, every, named):
            tried.setdefault(key, []).append((p.figure, []))
    by_key = {key_of(one): one for one in every}
    beside = {
        sku: _beside(sku, every, named | set(tried)) for sku in {by_key[key].sku for key in tried}
    }
    for key in [key for key in tried if len(beside[by_key[key].sku]) < _PEERS]:
        del tried[key]
    for turn in range(_ROUNDS):
        skus = {by_key[key].sku for key in tried}
        peers = [peer for sku in sorted(skus) for peer in beside[sku]]
        order = [*map(by_key.__getitem__, tried), *peers]
        said = measure([*order[turn:], *order[:turn]]) if tried else {}
        for key in list(tried):
            tried[key] = list(_still_last(by_key[key], tried[key], beside, said))
            if not tried[key]:
                del tried[key]
    return {key: lag for key, some in tried.items() if (lag := _widest(some)) is not None}


def _slowest(p: Peers, every: Sequence[Checkup], named: set[Key]) -> list[Key]:
    """The devices that may be slow in a figure, and are not named yet."""
    kind = [c for c in every if c.sku == p.sku and key_of(c) not in named]
    values = [(value, key_of(c)) for c in kind if (value := c.value(p.figure)) is not None]
    return [key for value, key in sorted(values) if value < (1 - RULE) * p.median][:_TRIED]


def _still_last(
    one: Checkup,
    figures: Sequence[tuple[str, list[float]]],
    beside: Mapping[str, Sequence[Checkup]],
    said: Mapping[Key, Checkup],
) -> Iterator[tuple[str, list[float]]]:
    """The figures in which a device was slower than each of its peers, with how far it was."""
    for name, lags in figures:
        own = said[key_of(one)].value(name) if key_of(one) in said else None
        peers = [said[k].value(name) for c in beside[one.sku] if (k := key_of(c)) in said]
        known = [value for value in peers if value is not None]
        if own is not None and len(known) == _PEERS and own < min(known):
            yield name, [*lags, 1 - own * (1 / median(known))]


def _widest(figures: Sequence[tuple[str, list[float]]]) -> FleetLag | None:
    """The figure in which a device is furthest behind; None where that is no tenth."""
    found = [
        FleetLag(figure=name, share=median(lags), rounds=len(lags), peers=_PEERS)
        for name, lags in figures
    ]
    furthest = max(found, key=lambda lag: lag.share)
    return furthest if furthest.share > RULE else None


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
