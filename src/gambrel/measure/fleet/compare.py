"""Which devices of a fleet are not like their peers.

A device is slow where a figure lies more than a tenth below the median of its SKU and outside what
the peers scatter: more than three standard deviations, estimated by the median absolute deviation
(x 1.4826, as of a normal distribution), which up to half of the devices cannot move. A clock is
wrong where the worker's duration lies outside the least and the most that it can have been by the
clock of whoever asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from gambrel.measure.fleet.records import Checkup, FleetLag, FleetReport, Peers, Suspect
from gambrel.units import format_figure, format_percent

#: Share below the median from which a device is worth a look.
RULE: Final = 0.10
#: From the median absolute deviation to a standard deviation, and how many of these are unusual.
_NORMAL: Final = 1.4826
_UNUSUAL: Final = 3.0
#: Share by which no two clocks of computers drift apart, and what both may round away, s.
_CLOCK_SHARE: Final = 0.02
_CLOCK_S: Final = 0.02
#: Wall clocks that are further apart than this break logs and certificates.
_AHEAD_S: Final = 5.0
#: Where nothing below this share could be told as slow, the report says so.
_NOISY: Final = 2 * RULE
#: Fewer peers tell nothing.
_LEAST_PEERS: Final = 3
#: The least share of devices that makes a second group of speeds.
_GROUP: Final = 0.25


def compared(
    checkups: Sequence[Checkup], earlier: Sequence[Checkup] = (), date: str = ""
) -> FleetReport:
    """The comparison of all devices, and with an earlier run.

    Args:
        checkups: Every device.
        earlier: The same fleet at another time.
        date: Of this run.
    """
    bad_clocks = list(_clocks(checkups))
    lying = {(s.worker, s.device) for s in bad_clocks if s.lag_share is None}
    honest = [c for c in checkups if c.figures and (c.worker, c.device) not in lying]
    peers = tuple(_peers(honest))
    slow = list(_slow(honest, peers))
    known = {(s.worker, s.device) for s in slow}
    drifted = [s for s in _drifted(honest, earlier) if (s.worker, s.device) not in known]
    silent = [_suspect(c, "silent", c.problem, "high") for c in checkups if c.problem]
    slow.sort(key=lambda s: -(s.lag_share or 0.0))
    boards = [s for c in checkups if c.board is not None for s in _boards(c)]
    return FleetReport(
        checkups=tuple(checkups),
        peers=peers,
        suspects=(*silent, *bad_clocks, *slow, *boards, *drifted),
        warnings=(*_noise(honest, peers), *_groups(honest, peers), *_nodes(honest, slow)),
        date=date,
    )


def _by_figure(checkups: Sequence[Checkup]) -> dict[tuple[str, str, str], list[float]]:
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for one in checkups:
        for figure in one.figures:
            found[one.sku, figure.name, figure.unit].append(figure.value)
    return found


def _peers(checkups: Sequence[Checkup]) -> Iterator[Peers]:
    for (sku, name, unit), values in _by_figure(checkups).items():
        middle = median(values)
        yield Peers(
            sku=sku,
            figure=name,
            unit=unit,
            devices=len(values),
            median=middle,
            mad_share=median(abs(v - middle) for v in values) * (1 / middle),
            slowest=min(values),
            fastest=max(values),
        )


def _slow(checkups: Sequence[Checkup], peers: Sequence[Peers]) -> Iterator[Suspect]:
    """One suspect a device, by the figure in which it is furthest behind."""
    for one in checkups:
        if one.lag is not None:
            yield _suspect(one, "slow", _always_last(one.lag), "medium", one.lag.share)
            continue
        if one.cleared:
            continue
        behind = [
            (1 - value * (1 / p.median), p)
            for p in peers
            if p.sku == one.sku
            and p.devices >= _LEAST_PEERS
            and (value := one.value(p.figure)) is not None
        ]
        found = [(lag, p) for lag, p in behind if lag > max(RULE, _scatter(p))]
        if not found:
            continue
        lag, p = max(found, key=lambda pair: pair[0])
        others = [q.figure for other, q in found if q is not p and other > RULE]
        confidence = "high" if lag > 2 * max(RULE, _scatter(p)) else "medium"
        yield _suspect(one, "slow", _evidence(one, p, lag, others), confidence, lag)


def _suspect(
    one: Checkup, cause: str, evidence: str, confidence: str, lag_share: float | None = None
) -> Suspect:
    return Suspect(
        worker=one.worker,
        device=one.device,
        cause=cause,
        evidence=evidence,
        confidence=confidence,
        lag_share=lag_share,
    )


def _scatter(peers: Peers) -> float:
    return _UNUSUAL * _NORMAL * peers.mad_share


def is_noisy(peers: Peers) -> bool:
    """Whether a figure scatters so much that one measurement tells little."""
    return peers.devices >= _LEAST_PEERS and _scatter(peers) > _NOISY


def _always_last(lag: FleetLag) -> str:
    return (
        f"{lag.figure} was below that of all {lag.peers} peers measured beside it in each of "
        f"{lag.rounds} rounds, {format_percent(lag.share)} below their median in the middle one."
    )


def _evidence(one: Checkup, p: Peers, lag: float, others: Sequence[str]) -> str:
    text = (
        f"{p.figure} {format_figure(one.value(p.figure), p.unit)} is {format_percent(lag)} below "
        f"the median of {p.devices} devices, {format_figure(p.median, p.unit)}, which scatter by "
        f"{format_percent(p.mad_share)}"
    )
    if others:
        text += f"; slow as well in {', '.join(others)}"
    if one.stolen is not None and one.stolen > RULE:
        text += f"; other processes had its processor for {format_percent(one.stolen)} of the time"
    return f"{text}; while measured {one.board}." if one.board else f"{text}."


def _clocks(checkups: Sequence[Checkup]) -> Iterator[Suspect]:
    for one in checkups:
        if one.claimed_s is not None and one.waited_s is not None:
            most, least = one.waited_s, one.waited_least_s or one.waited_s
            short = one.claimed_s < least * (1 - _CLOCK_SHARE) - _CLOCK_S
            if short or one.claimed_s > most * (1 + _CLOCK_SHARE) + _CLOCK_S:
                said = (
                    f"by its own clock the measurement took {one.claimed_s:.2f} s, by the "
                    f"asker's {'at least' if short else 'at most'} {least if short else most:.2f} "
                    "s: its rates mean nothing."
                )
                yield _suspect(one, "clock", said, "high")
        if one.ahead_s is not None and abs(one.ahead_s) > _AHEAD_S:
            said = f"its wall clock is {one.ahead_s:+.0f} s from the asker's."
            yield _suspect(one, "clock", said, "high", 0.0)


def _boards(one: Checkup) -> Iterator[Suspect]:
    """What the driver says of a board that none in order shows."""
    if one.board is not None and one.board.faults:
        said = f"{', '.join(one.board.faults)}; while measured {one.board}."
        yield _suspect(one, "board", said, "high")


def _noise(checkups: Sequence[Checkup], peers: Sequence[Peers]) -> Iterator[str]:
    """What the figures are too noisy to tell."""
    for p in peers:
        if is_noisy(p):
            least = f" that is less than {format_percent(_scatter(p))} slow"
            yield (
                f"{p.sku}: {p.figure} scatters by {format_percent(p.mad_share)} between devices: "
                f"too noisy to name any{least if _scatter(p) < 1 else ''} by one measurement."
            )
    cleared = sum(c.cleared for c in checkups)
    if cleared:
        yield (
            f"{cleared} devices were slow at first and like their peers when they were measured "
            "again beside them: something else runs on these machines."
        )


def _drifted(checkups: Sequence[Checkup], earlier: Sequence[Checkup]) -> Iterator[Suspect]:
    before = {(c.host, c.worker, c.device): c for c in earlier}
    for one in checkups:
        old = before.get((one.host, one.worker, one.device))
        for figure in one.figures if old is not None else ():
            was = old.value(figure.name) if old is not None else None
            if was and figure.value < (1 - RULE) * was:
                lag = 1 - figure.value * (1 / was)
                said = (
                    f"{figure.name} {format_figure(figure.value, figure.unit)} is "
                    f"{format_percent(lag)} below the earlier run's "
                    f"{format_figure(was, figure.unit)}."
                )
                yield _suspect(one, "drift", said, "medium", lag)
                break


def _groups(checkups: Sequence[Checkup], peers: Sequence[Peers]) -> Iterator[str]:
    """Figures with two groups of speeds, such as two firmwares or two power limits."""
    values = _by_figure(checkups)
    for p in peers:
        own = sorted(values[p.sku, p.figure, p.unit])
        gaps = [(high - low, i) for i, (low, high) in enumerate(pairwise(own), 1)]
        widest, at = max(gaps, default=(0.0, 0))
        fewer = min(at, len(own) - at)
        inside = max(own[at - 1] - own[0], own[-1] - own[at]) if at else 0.0
        if widest > RULE * p.median and fewer >= max(2, _GROUP * len(own)) and inside < widest:
            yield (
                f"{p.sku}: {p.figure} has two groups: {at} devices up to "
                f"{format_figure(own[at - 1], p.unit)} and {len(own) - at} from "
                f"{format_figure(own[at], p.unit)}."
            )


def _nodes(checkups: Sequence[Checkup], slow: Sequence[Suspect]) -> Iterator[str]:
    """Nodes most of whose devices are slow: their cause is common."""
    named = {(s.worker, s.device) for s in slow}
    by_host: dict[str, list[bool]] = defaultdict(list)
    for one in checkups:
        by_host[one.host].append((one.worker, one.device) in named)
    if len(by_host) > 1:
        for host, flags in by_host.items():
            if len(flags) > 1 and sum(flags) * 2 > len(flags):
                slowed = f"{sum(flags)} of its {len(flags)} devices are slow"
                yield f"{host}: {slowed}: look at the node."
