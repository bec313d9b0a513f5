"""All batches of one layout: what each gives, and the best that keeps the promise."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from gambrel.llm.serving.question import Promise, Requests
from gambrel.llm.serving.records import Memory, Point, Refusal
from gambrel.llm.serving.steps import Setup, decode_seconds, memory, prompt_times
from gambrel.llm.serving.timing import Latency, latency
from gambrel.units import format_capacity

#: Most requests of one microbatch that are considered: beyond, a step takes whole seconds.
_MOST: Final = 8192
#: Batches for each doubling.
_PER_OCTAVE: Final = 4


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for one layout.

    Attributes:
        setup: The layout.
        points: One a batch, ascending.
        best: The one with most tokens a second that keeps the promise; None without one.
        refusal: Why there is none.
    """

    setup: Setup
    points: tuple[Point, ...] = ()
    best: Point | None = None
    refusal: Refusal | None = None


def evaluate(setup: Setup, requests: Requests, promise: Promise, devices: int) -> Layout:
    """Serves the requests with one layout, at every batch that fits.

    Args:
        setup: The layout of one replica.
        requests: What is served.
        promise: What users are promised.
        devices: Devices that there are; replicas fill them.
    """
    held = memory(setup, requests)
    if held.max_sequences < 1:
        return Layout(setup=setup, refusal=_refuse(setup, _does_not_fit(setup, held, requests)))
    sharding = setup.sharding
    batches, micro = _batches(setup, requests, held)
    prompts = prompt_times(setup, requests)
    found = latency(
        batches.astype(float),
        requests.output_tokens,
        decode_s=decode_seconds(setup, requests.mean_context, [int(b) for b in micro]),
        prompt_s=prompts.each_s,
        prefill_s=prompts.alone_s,
        shared=prompts.shared,
    )
    replicas = _replicas(setup, requests, devices, found)
    points = tuple(
        _point(setup, requests, held, found, int(batch), i, int(replicas[i]))
        for i, batch in enumerate(batches)
    )
    kept = [i for i, p in enumerate(points) if not missed(p, promise)]
    if not kept:
        return Layout(setup=setup, points=points, refusal=_misses(setup, points, promise))
    chosen = max(kept, key=lambda i: _merit(points[i], requests))
    limited = _limit(points, chosen, promise, requests, sharding.devices)
    best = msgspec.structs.replace(points[chosen], limited_by=limited)
    return Layout(setup=setup, points=points, best=best)


def missed(point: Point, promise: Promise) -> tuple[str, ...]:
    """Which of the promised latencies a point does not keep."""
    pairs = (("ttft", point.ttft_s, promise.ttft_s), ("tpot", point.tpot_s, promise.tpot_s))
    return tuple(name for name, value, limit in pairs if limit is not None and value > limit)


def _merit(point: Point, requests: Requests) -> tuple[float, float]:
    """Fewest devices where the load is given, else most tokens of each device."""
    if requests.per_s is not None or requests.concurrency is not None:
        return (-point.devices, -point.tpot_s)
    return (point.tokens_per_s_per_device, -point.tpot_s)


def _batches(
    setup: Setup, requests: Requests, held: Memory
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Requests in flight of a replica, and of one microbatch on one device."""
    stages, groups = setup.stages, setup.sharding.attention_data
    most = min(max(1, held.max_sequences // stages), _MOST)
    octaves = int(np.ceil(np.log2(most) * _PER_OCTAVE)) if most > 1 else 0
    micro = np.unique(
        np.minimum(np.rint(2.0 ** (np.arange(octaves + 1) / _PER_OCTAVE)).astype(np.int64), most)
    )
    if requests.concurrency is not None:
        micro = np.unique(np.append(micro[micro * stages * groups < requests.concurrency], most))
        wanted = -(-requests.concurrency // (stages * groups))
        micro = np.unique(np.minimum(np.append(micro, wanted), most))
    batch = np.minimum(micro * stages, held.max_sequences) * groups
    return batch, micro


def _replicas(
    setup: Setup, requests: Requests, devices: int, found: Latency
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Replicas that the load needs; all that there is room for where no load is given."""
    most = devices // setup.sharding.devices
    rates = np.asarray(found.requests_per_s, dtype=float)
    if requests.per_s is not None:
        return np.ceil(requests.per_s / rates)
    return np.full(rates.shape, float(most))


def _point(
    setup: Setup,
    requests: Requests,
    held: Memory,
    found: Latency,
    batch: int,
    i: int,
    replicas: int,
) -> Point:
    def at(values: object) -> float:
        array = np.asarray(values, dtype=float)
        return float(array[i] if array.ndim else array)

    if requests.concurrency is not None:
        replicas = -(-requests.concurrency // batch)
    served = at(found.requests_per_s) * replicas
    if requests.per_s is not None:
        served = min(served, requests.per_s)
    return Point(
        device=setup.device.id,
        precision=setup.precisions.name,
        sharding=msgspec.structs.replace(setup.sharding, data=max(1, replicas)),
        batch=batch,
        tpot_s=at(found.tpot_s),
        interference_s=at(found.interference_s),
        ttft_s=at(found.ttft_s),
        prefill_s=at(found.prefill_s),
        queue_s=at(found.queue_s),
        burst_ttft_s=at(found.burst_ttft_s),
        requests_per_s=served,
        tokens_per_s=served * requests.output_tokens,
        memory=held,
    )


def _limit(
    points: tuple[Point, ...], chosen: int, promise: Promise, requests: Requests, _size: int
) -> str:
    """What stands in the way of the next larger batch."""
    if requests.concurrency is not None and points[chosen].batch >= requests.concurrency:
        return "concurrency"
    if chosen + 1 == len(points):
        return "memory"
    failing = missed(points[chosen + 1], promise)
    return failing[0] if failing else "throughput"


def _refuse(setup: Setup, reason: str, share: float = float("inf")) -> Refusal:
    return Refusal(
        device=setup.device.id,
        precision=setup.precisions.name,
        sharding=setup.sharding,
        reason=reason,
        missed=share,
    )


def _does_not_fit(setup: Setup, held: Memory, requests: Requests) -> str:
    usable = format_capacity(held.usable_bytes)
    if held.free_bytes <= 0:
        needed = held.weights_bytes + held.activations_bytes
        return (
            f"does not fit: weights {format_capacity(held.weights_bytes)} and activations "
            f"{format_capacity(held.activations_bytes)} need {format_capacity(needed)} of "
            f"{usable} usable on each {setup.device.id}."
        )
    tokens = int(held.free_bytes / held.sequence_bytes * requests.longest)
    return (
        f"does not fit: one request of {requests.longest:,} tokens reserves "
        f"{format_capacity(held.sequence_bytes)} of cache and {format_capacity(held.free_bytes)} "
        f"are left of {usable} usable on each {setup.device.id}; input + output of about "
        f"{tokens:,} tokens fits."
    )


def _misses(setup: Setup, points: tuple[Point, ...], promise: Promise) -> Refusal:
    def excess(point: Point) -> float:
        pairs = ((point.ttft_s, promise.ttft_s), (point.tpot_s, promise.tpot_s))
        return max(value / limit for value, limit in pairs if limit is not None) - 1

    nearest = min(points, key=excess)
    parts = {
        "ttft": f"TTFT {nearest.ttft_s * 1e3:,.4g} ms > {(promise.ttft_s or 0) * 1e3:,.4g} ms",
        "tpot": f"TPOT {nearest.tpot_s * 1e3:,.4g} ms > {(promise.tpot_s or 0) * 1e3:,.4g} ms",
    }
    failing = " and ".join(parts[name] for name in missed(nearest, promise))
    return _refuse(setup, f"{failing} at its best batch of {nearest.batch}.", share=excess(nearest))
