"""Requests over time through the replicas of one layout: what each of them saw, and goodput."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from gambrel.errors import InputError
from gambrel.llm.kv import KvCache, kv_cache
from gambrel.llm.serving.activity import COLUMNS, ActivityLog
from gambrel.llm.serving.outcomes import Activity, Outcome, Spread
from gambrel.llm.serving.question import Requests, Target
from gambrel.llm.serving.replica import Limits, Replica, Request
from gambrel.llm.serving.steps import Setup, divided, memory, swap_s
from gambrel.llm.serving.timer import StepTimes
from gambrel.units import format_capacity

#: Requests that a replica is told of before it runs.
_AHEAD = 64
#: Tokens of a request by whose cache a token and a request are priced.
_SHORT, _LONG = 1024, 2048


def limits_of(setup: Setup, *, cached_share: float = 0.0) -> Limits:
    """What a replica of a layout can hold.

    Args:
        setup: The layout.
        cached_share: Part of every prompt that a prefix cache holds.

    Raises:
        InputError: Weights and activations leave no room.
    """
    engine = setup.engine
    wide = Requests(input_tokens=engine.step_tokens, output_tokens=1)
    held = memory(setup, wide)
    if held.free_bytes <= 0:
        raise InputError(
            f"{setup.spec.name} does not fit {setup.sharding.devices} x {setup.device.id} "
            f"({setup.sharding}): weights and activations need "
            f"{format_capacity(held.weights_bytes + held.activations_bytes)} of "
            f"{format_capacity(held.usable_bytes)} usable on each."
        )
    caches = [_cache(setup, tokens) for tokens in (_SHORT, _LONG)]
    short, long = (cache.allocated_bytes for cache in caches)
    each = (long - short) / (_LONG - _SHORT)
    groups = setup.sharding.attention_data
    free = held.free_bytes if np.isfinite(held.free_bytes) else 1e15
    states, free = divided(setup, caches[0], free)
    own = max(0.0, short - each * _SHORT) if states is None else 0.0
    seats = engine.step_tokens - 1 if states is None else max(1, states * groups)
    return Limits(
        cache_bytes=free * groups,
        token_bytes=each,
        request_bytes=own + each * engine.policy.page / 2,
        most=min(engine.max_requests or seats, seats, engine.step_tokens - 1),
        step_tokens=engine.step_tokens,
        reserves=setup.service is not None and setup.service.reserves_answers,
        frontend=setup.overhead.frontend,
        cached_share=cached_share,
        stages=setup.stages,
        swap_s=swap_s(setup, _LONG) / _LONG,
    )


def _cache(setup: Setup, tokens: int) -> KvCache:
    return kv_cache(
        setup.spec,
        setup.precisions,
        batch_size=1,
        context=tokens,
        policy=setup.engine.policy,
        sharding=setup.sharding,
    )


def simulate(
    times: StepTimes,
    limits: Limits,
    requests: Iterable[Request],
    *,
    replicas: int = 1,
    target: Target | None = None,
) -> Outcome:
    """Serves requests as they come; they go to the replicas in turn.

    Args:
        times: Of the steps of one replica.
        limits: What it can hold.
        requests: In order of time.
        replicas: All alike.
        target: Latencies that a request is to meet.

    Raises:
        InputError: A request that the cache could not hold alone; no request.
    """
    engines = [Replica(times, limits, seed=i) for i in range(replicas)]
    coming = iter(requests)
    while told := list(islice(coming, _AHEAD * replicas)):
        for i, request in enumerate(told):
            engines[i % replicas].offer(request)
        for engine in engines:
            engine.run(told[-1][0])
    for engine in engines:
        engine.run()
    return outcome(engines, target or Target())


def closed_loop(
    times: StepTimes,
    limits: Limits,
    lengths: Iterator[tuple[int, int]],
    *,
    slots: int,
    replicas: int = 1,
    target: Target | None = None,
) -> Outcome:
    """Keeps ``slots`` requests in flight, all replicas together, until there are no more lengths.

    Args:
        times: Of the steps of one replica.
        limits: What it can hold.
        lengths: Tokens in and out of one request after another.
        slots: Requests in flight.
        replicas: All alike; each has its share of the slots.
        target: Latencies that a request is to meet.
    """
    engines = [Replica(times, limits, lengths, seed=i) for i in range(min(replicas, slots))]
    for i in range(slots):
        pair = next(lengths, None)
        if pair is not None:
            engines[i % len(engines)].offer((0.0, *pair))
    for engine in engines:
        engine.run()
    return outcome(engines, target or Target())


def outcome(engines: Sequence[Replica], target: Target) -> Outcome:
    """What the requests of all replicas saw."""
    served = [engine for engine in engines if engine.came]
    if not served:
        raise InputError("no request was served: give at least one.")
    ttft, tpot = _column(served, "ttft"), _column(served, "tpot")
    count, duration = len(ttft), _duration(served)
    several = ~np.isnan(tpot)
    met = np.ones(count, dtype=bool)
    if target.ttft_s is not None:
        met &= ttft <= target.ttft_s
    if target.tpot_s is not None:
        met &= ~several | (tpot <= target.tpot_s)
    asked = target.ttft_s is not None or target.tpot_s is not None
    activity = _activity(engines)
    busy = sum(float(engine.timeline.column("busy_s").sum()) for engine in engines)
    return Outcome(
        requests=count,
        duration_s=duration,
        ttft=_spread(ttft),
        tpot=_spread(tpot[several]) if several.any() else None,
        total=_spread(_column(served, "total")),
        requests_per_s=count / duration,
        tokens_per_s=sum(sum(engine.outputs) for engine in served) / duration,
        input_tokens_per_s=sum(engine.inputs for engine in engines) / duration,
        attained=float(met.mean()) if asked else None,
        goodput_per_s=float(met.sum()) / duration if asked else None,
        preemptions=sum(engine.preemptions for engine in engines),
        most_waiting=max(engine.most_waiting for engine in engines),
        utilization=min(1.0, busy / (duration * len(engines))),
        activity=activity,
    )


def _duration(engines: Sequence[Replica]) -> float:
    """Seconds from the first arrival to the last token."""
    first = min(min(engine.came) for engine in engines)
    last: float = max(max(map(operator.add, engine.came, engine.total)) for engine in engines)
    return last - first


def _column(engines: Sequence[Replica], name: str) -> NDArray[np.float64]:
    """A latency of the requests of all replicas."""
    return np.concatenate([np.asarray(getattr(engine, name)) for engine in engines])


def _spread(values: NDArray[np.float64]) -> Spread:
    """Of a column that nobody needs after: it is sorted in place."""
    mean = float(values.mean())
    p50, p90, p99 = (float(v) for v in np.percentile(values, (50, 90, 99), overwrite_input=True))
    return Spread(mean_s=mean, p50_s=p50, p90_s=p90, p99_s=p99)


def _activity(engines: Sequence[Replica]) -> Activity:
    """Sums over replicas; the busy share and that of the cache are means."""
    for engine in engines:
        engine.timeline.add_up()
    width = max(engine.timeline.width_s for engine in engines)
    columns: dict[str, NDArray[np.float64]] = {}
    for name in COLUMNS:
        rows = [_widened(engine.timeline, name, width) for engine in engines]
        longest = max(map(len, rows))
        padded = [np.pad(row, (0, longest - len(row))) for row in rows]
        columns[name] = np.sum(padded, axis=0) / width
    count = len(columns["busy_s"])
    return Activity(
        start_s=tuple(float(i * width) for i in range(count)),
        busy_share=_numbers(columns["busy_s"] / len(engines)),
        running=_numbers(columns["running"]),
        waiting=_numbers(columns["waiting"]),
        cache=_numbers(columns["cache"] / len(engines)),
        tokens_per_s=_numbers(columns["tokens"]),
    )


def _widened(timeline: ActivityLog, name: str, width: float) -> NDArray[np.float64]:
    """A column with wider intervals."""
    values = timeline.column(name)
    factor = round(width / timeline.width_s)
    padded = np.pad(values, (0, -len(values) % factor))
    widened: NDArray[np.float64] = padded.reshape(-1, factor).sum(axis=1)
    return widened


def _numbers(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
