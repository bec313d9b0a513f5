"""Requests over time on devices that are given, or on the fewest that meet a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from gambrel.errors import InputError
from gambrel.llm.serving.outcomes import Attempt, Outcome
from gambrel.llm.serving.question import Target
from gambrel.llm.serving.replica import Limits, Request
from gambrel.llm.serving.simulate import closed_loop, limits_of, simulate
from gambrel.llm.serving.steps import Setup
from gambrel.llm.serving.timer import StepTimes, tables

#: Requests of a search for the fewest devices; the answer is run with all of them.
TRIED: Final = 3000


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that can be asked for again and again.

    Attributes:
        about: What they are, in words.
        open: A new run over all of them, in order of time; None for a closed loop.
        lengths: A new run over tokens in and out; of a closed loop.
        slots: Requests in flight of a closed loop.
    """

    about: str
    open: Callable[[], Iterator[Request]] | None = None
    lengths: Callable[[], Iterator[tuple[int, int]]] | None = None
    slots: int = 0


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One layout, timed.

    Attributes:
        setup: The layout.
        times: Of its steps.
        limits: What a replica holds.
    """

    setup: Setup
    times: StepTimes
    limits: Limits

    def run(self, load: Load, replicas: int, target: Target, most: int | None = None) -> Outcome:
        """Serves a load, or the first ``most`` requests of it."""
        times, limits = self.times, self.limits
        if load.open is not None:
            requests = islice(load.open(), most)
            return simulate(times, limits, requests, replicas=replicas, target=target)
        assert load.lengths is not None  # a load is one of both
        return closed_loop(
            *(times, limits, islice(load.lengths(), most)),
            slots=load.slots,
            replicas=replicas,
            target=target,
        )


def server(setup: Setup, *, cached_share: float = 0.0) -> Server:
    """A layout with the tables of its steps.

    Raises:
        InputError: The model does not fit.
    """
    limits = limits_of(setup, cached_share=cached_share)
    return Server(setup=setup, times=StepTimes(tables(setup)), limits=limits)


def meets(outcome: Outcome, target: Target, percentile: int) -> bool:
    """Whether latencies at a percentile are within the target."""
    ttft, tpot = outcome.reached(percentile)
    pairs = ((ttft, target.ttft_s), (tpot, target.tpot_s))
    return all(limit is None or value <= limit for value, limit in pairs)


def fewest(
    servers: Sequence[Server], load: Load, target: Target, percentile: int, max_devices: int
) -> tuple[Server | None, int, tuple[Attempt, ...]]:
    """The layout and replicas that meet a target with the fewest devices.

    More replicas never make latencies longer, so that the fewest are found by halving.

    Args:
        servers: Layouts, any order.
        load: The requests.
        target: To be met.
        percentile: At which it is.
        max_devices: Most devices.

    Returns:
        The best, None where nothing meets the target; its replicas; every layout at its fewest, or
        at its most where these do not meet the target.
    """
    tried: list[Attempt] = []
    best: Server | None = None
    best_replicas, bound = 0, max_devices
    for one in sorted(servers, key=lambda s: s.setup.sharding.devices):
        size = one.setup.sharding.devices
        most = (bound if best is None else bound - 1) // size
        if not most:
            continue
        attempts = _halved(one, load, target, percentile, most)
        tried.append(attempts)
        if attempts.met:
            best, best_replicas = one, attempts.sharding.data
            bound = best_replicas * size
    return best, best_replicas, tuple(tried)


def _halved(one: Server, load: Load, target: Target, percentile: int, most: int) -> Attempt:
    """The fewest replicas of one layout, or what its most give."""

    def attempt(replicas: int) -> Attempt:
        outcome = one.run(load, replicas, target, TRIED)
        ttft, tpot = outcome.reached(percentile)
        return Attempt(
            sharding=msgspec.structs.replace(one.setup.sharding, data=replicas),
            ttft_s=ttft,
            tpot_s=tpot,
            met=meets(outcome, target, percentile),
        )

    try:
        found = attempt(most)
        low, high = 1, most
        while found.met and low < high:
            middle = (low + high) // 2
            tried = attempt(middle)
            if tried.met:
                found, high = tried, middle
            else:
                low = middle + 1
    except InputError as error:
        return Attempt(sharding=one.setup.sharding, reason=str(error))
    return found
