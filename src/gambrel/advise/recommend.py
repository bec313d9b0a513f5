"""What to change, and by how much it would help: each change is applied and analyzed again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from gambrel.advise.changes import (
    CATALOGUE,
    Effort,
    case_of,
    describe_changes,
    effort_of,
    parse_change,
)
from gambrel.advise.explore import Changes, Explorer, kinds_of
from gambrel.advise.fitting import fitting
from gambrel.advise.fleet import Point
from gambrel.advise.shortfall import Below, below
from gambrel.analysis.estimate import Calibration
from gambrel.analysis.measures import Bound
from gambrel.analysis.result import Analysis
from gambrel.collector import without_collector
from gambrel.errors import InputError
from gambrel.units import format_percent, format_si
from gambrel.views import Viewed

#: Below this gain a change is not worth a user's time.
SMALLEST_GAIN = 1.05
#: A model that attains this share of what the device can do is done.
DONE = 0.95
#: Share of the expected time in launch overhead and waiting for the host that is worth a word.
LAUNCH_SHARE = 0.2
#: Changes from which combinations are begun.
_COMBINATIONS = 2


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """One change or a combination, with its predicted effect.

    Attributes:
        change: As text, e.g. ``"precision=int8"``; several are joined by " + ".
        about: What it is and what it costs.
        time_before_s: Time per item (per batch element) now, s.
        time_after_s: The same after the change, s.
        gain: ``time_before_s / time_after_s``.
        latency_after_s: Time of the whole batch after the change, s.
        bound_after: The resource that limits then; None when unknown.
        memory_after_bytes: Footprint after the change.
        fits_after: Whether that fits the device; None when unknown.
        changes: As `Analysis.with_change` takes them.
        time_kind: ``expected``, or ``roofline`` where no expected time is known.
        gain_low: The gain at the least favourable end of both ranges, errors taken as common to
            both; above 1.
        confidence: Of the expected times, the lower one; empty for rooflines.
        effort: What it asks of a user: ``software`` (same weights, same batch), ``batch`` (more
            items at once: more a second, each batch takes longer), ``retrain`` or ``replace``
            (another model or device).
        latency_before_s: Time of the whole batch now, s.
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
    changes: tuple[str, ...] = ()
    time_kind: str = "roofline"
    gain_low: float = 1.0
    confidence: str = ""
    effort: str = "software"
    latency_before_s: float | None = None


class Advice(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """What to do about a model on a device.

    Attributes:
        recommendations: Changes and combinations, as `recommend` orders them.
        attained: Share of the time that remains with perfect fusion and overlap in this format, at
            this batch, on this device; None without an expected time.
        stop: Why to stop optimizing; empty when there is something to do.
        below: Ops that stay far below their roof, with the cause.
        hints: What may help and cannot be predicted, in sentences.
    """

    recommendations: tuple[Recommendation, ...]
    attained: float | None
    stop: str
    below: tuple[Below, ...]
    hints: tuple[str, ...] = ()


@without_collector()
def recommend(
    analysis: Analysis, calibration: Calibration | None = None
) -> tuple[Recommendation, ...]:
    """Changes that make an item at least 5 % faster, and combinations of them.

    What makes every run faster comes first, then larger batches, then what needs retraining, then
    another model or device. Within each, gains of expected times come before gains that only the
    roofline shows (where one side has no expected time), the largest first. Left out is what does
    not fit in memory, what device and runtime do not take, and a gain within its own uncertainty.
    An empty result says that none of the catalogue's changes helps, or that ops run on the host,
    whose time is not known.

    Args:
        analysis: As it stands.
        calibration: Constants of the expected time; None for those that come with gambrel.

    Raises:
        InputError: The analysis carries no workload, or neither an expected nor a roofline time.
    """
    return () if analysis.on_host else _ranked(_explorer(analysis, calibration))


def has_time(analysis: Analysis) -> bool:
    """Whether a time is known that a change may shorten."""
    return analysis.expected_time_s is not None or analysis.roofline_time_s is not None


def _explorer(analysis: Analysis, calibration: Calibration | None) -> Explorer:
    if analysis.workload is None or not has_time(analysis):
        raise InputError(
            f"{analysis.model.name}: this analysis has no workload or no time to improve on."
        )
    return Explorer(case_of(analysis, calibration))


def _ranked(explorer: Explorer) -> tuple[Recommendation, ...]:
    start = explorer.start
    singles = [r for name in CATALOGUE for r in _of_kind(explorer, start, name)]
    singles.sort(key=_worth, reverse=True)
    software = [r for r in singles if r.effort == _effort(Effort.SOFTWARE)]
    combined = _combinations(explorer, start, software)
    best = max((*software, *combined), key=_worth, default=None)
    more = list(_batch(explorer, start, best.changes)) if best else []
    order = [_effort(effort) for effort in Effort]
    found = (*singles, *combined, *more)
    ranked = sorted(found, key=_worth, reverse=True)
    return tuple(sorted(ranked, key=lambda r: order.index(r.effort)))


def _worth(one: Recommendation) -> tuple[bool, float]:
    """Gains of expected times before gains that only the roofline shows, the largest first."""
    return one.time_kind == "expected", one.gain


def _effort(effort: Effort) -> str:
    return effort.name.lower()


@without_collector()
def advise(analysis: Analysis, calibration: Calibration | None = None) -> Advice:
    """Recommendations, whether to stop, and what lies far below its roof.

    Raises:
        InputError: As `recommend`.
    """
    if analysis.on_host:
        unknown = f"No gain can be computed: the time is not known of {analysis.on_host}."
        return Advice(recommendations=(), attained=None, stop="", below=(), hints=(unknown,))
    explorer = _explorer(analysis, calibration)
    found = _ranked(explorer)
    attained = attained_share(analysis)
    stop = ""
    if attained is not None and attained >= DONE:
        stop = (
            f"It attains {format_percent(attained)} of what {analysis.hardware.id} can do in "
            f"{analysis.model.precision} at this size: stop optimizing the software."
        )
    return Advice(
        recommendations=found,
        attained=attained,
        stop=stop,
        below=() if stop else below(analysis),
        hints=(
            *([f"Gains leave out {analysis.left_out}."] if analysis.left_out else []),
            *fitting(explorer),
            *_without_gain(explorer),
            *(() if stop else _hints(analysis)),
        ),
    )


def attained_share(analysis: Analysis) -> float | None:
    """Least possible time over expected time; None when either is unknown."""
    least, expected = analysis.sol_time_s, analysis.expected_time_s
    if least is None or expected is None or not expected.value:
        return None
    return min(1.0, least / expected.value)


def _hints(analysis: Analysis) -> tuple[str, ...]:
    expected = analysis.expected_time_s
    if expected is None or not expected.value or not analysis.launches:
        return ()
    share = expected.launches_share + expected.host_share
    if share < LAUNCH_SHARE:
        return ()
    each = format_si(expected.value / analysis.launches, "s", 3)
    return (
        f"Launch overhead and waiting for the host take {format_percent(share)} of the expected "
        f"time: {analysis.launches:,} kernels, one every {each}.",
    )


def _without_gain(explorer: Explorer) -> tuple[str, ...]:
    """Changes of software that were tried and are not recommended, so that none has to ask."""
    start = explorer.start
    names = [name for name, kind in CATALOGUE.items() if kind.effort is Effort.SOFTWARE]
    tried = [
        f"{text} ({gain:.2f}×)"
        for name in names
        for text in explorer.proposals(name)
        if (point := explorer.tried((text,))) is not None
        and point.fits is not False
        and (gain := _gain(start, point))
        and not (name == "precision" and f"{gain:.2f}" == "1.00")  # another 16-bit format
        and not list(_useful(start, (text,), point))
    ]
    if not tried:
        return ()
    return (f"Tried, no gain of 5 % beyond its uncertainty: {', '.join(tried)}.",)


def _of_kind(explorer: Explorer, start: Point, name: str) -> Iterator[Recommendation]:
    if name == "batch":
        yield from _batch(explorer, start, ())
        return
    found = (
        one
        for text in explorer.proposals(name)
        for one in _useful(start, (text,), explorer.tried((text,)))
    )
    if CATALOGUE[name].effort is Effort.REPLACE:
        yield from sorted(found, key=_worth, reverse=True)[:1]
    else:
        yield from found


def _batch(explorer: Explorer, start: Point, given: Changes) -> Iterator[Recommendation]:
    """The batch at which doubling stops paying (under 5 % per item) or memory is full.

    Args:
        explorer: Of the case.
        start: The case as it stands.
        given: Changes that are made as well.
    """
    first = explorer.tried(given) if given else start
    if first is None:
        return
    path = [("", first)]
    for text in explorer.proposals("batch"):
        point = explorer.tried((*given, text))
        if point is None or point.fits is False or _gain(path[-1][1], point) < SMALLEST_GAIN:
            break
        path.append((text, point))
    if len(path) > 1:
        for found in _useful(start, (*given, path[-1][0]), path[-1][1]):
            yield msgspec.structs.replace(found, about=found.about + _turn(path))


def _turn(path: list[tuple[str, Point]]) -> str:
    """The batch at which another resource begins to limit."""
    for (_, a), (text, b) in pairwise(path):
        if a.bound is not b.bound and b.bound is not None:
            return f" From {text} on it is {b.bound.value}-bound."
    return ""


def _combinations(
    explorer: Explorer, start: Point, singles: list[Recommendation]
) -> list[Recommendation]:
    """Greedy: from each of the best changes, add the next best kinds while they help by 5 %.

    One that gains no more than a change in it alone is none.
    """
    alone = {text: one.gain for one in singles for text in one.changes}
    found: dict[frozenset[str], Recommendation] = {}
    for first in singles[:_COMBINATIONS]:
        best, changes = first, first.changes
        for other in singles:
            if kinds_of(other.changes) & kinds_of(changes):
                continue
            longer = (*changes, *other.changes)
            tried = next(_useful(start, longer, explorer.tried(longer)), None)
            if tried is None or tried.time_kind != best.time_kind:
                continue
            if tried.gain >= SMALLEST_GAIN * best.gain:
                best, changes = tried, longer
        if len(changes) > 1 and best.gain >= SMALLEST_GAIN * max(map(alone.__getitem__, changes)):
            found.setdefault(kinds_of(changes), best)
    return list(found.values())


def _useful(start: Point, changes: Changes, after: Point | None) -> Iterator[Recommendation]:
    """The recommendation, if the change helps beyond its own uncertainty and fits."""
    if after is None or after.fits is False:
        return
    kind, before_s, after_s = _times(start, after)
    if not before_s or not after_s:
        return
    per_before, per_after = before_s / start.facts.items, after_s / after.facts.items
    moved = any(parse_change(text)[0] == "hardware" for text in changes)
    gain, low = per_before / per_after, _least_gain(start, after, kind, moved)
    if gain < SMALLEST_GAIN or low <= 1:
        return
    yield Recommendation(
        change=" + ".join(changes),
        about=describe_changes(changes),
        time_before_s=per_before,
        time_after_s=per_after,
        gain=gain,
        latency_after_s=after_s,
        bound_after=after.bound,
        memory_after_bytes=after.facts.memory_bytes,
        fits_after=after.fits,
        changes=changes,
        time_kind=kind,
        gain_low=low,
        confidence=_confidence(start, after) if kind == "expected" else "",
        effort=_effort(effort_of(changes)),
        latency_before_s=before_s,
    )


def _times(start: Point, after: Point) -> tuple[str, float | None, float | None]:
    """Times of the whole batch, of the same kind on both sides."""
    was, then = start.facts.expected, after.facts.expected
    if was is not None:  # what leads to an unknown time is no advice
        return "expected", was.value, then.value if then is not None else None
    return "roofline", start.facts.roofline_s, after.facts.roofline_s


def _gain(start: Point, after: Point) -> float:
    _, before_s, after_s = _times(start, after)
    if not before_s or not after_s:
        return 0.0
    return (before_s / start.facts.items) / (after_s / after.facts.items)


def _least_gain(start: Point, after: Point, kind: str, moved: bool) -> float:
    """The least gain over the range.

    On one device, what makes one time longer than expected makes the other longer too: low ends are
    compared with low ends, high with high. Errors on two devices have nothing in common.
    """
    was, then = start.facts.expected, after.facts.expected
    if kind == "roofline" or was is None or then is None:
        return _gain(start, after)
    items = after.facts.items / start.facts.items
    ends = [(was.low, then.low), (was.value, then.value), (was.high, then.high)]
    if moved:
        ends = [(was.low, then.high)]
    return min(items * a / b for a, b in ends if b)


_LEVELS = ("", "high", "medium", "low")


def _confidence(start: Point, after: Point) -> str:
    both = [p.facts.expected.confidence for p in (start, after) if p.facts.expected is not None]
    return max(both, key=_LEVELS.index)
