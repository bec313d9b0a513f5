"""All batches of one layout: what each gives, and the best that meets the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from gambrel.llm.serving.question import Requests, Target
from gambrel.llm.serving.records import OperatingPoint, Refusal, ServingMemory
from gambrel.llm.serving.steps import (
    Setup,
    decode_step,
    decode_times,
    memory,
    prompt_step,
    prompt_times,
)
from gambrel.llm.serving.timing import Latency, Prompts, latency
from gambrel.units import format_capacity, format_percent, format_si

Ints: TypeAlias = NDArray[np.int64]

#: Most requests of one microbatch that are considered: beyond, a step takes whole seconds.
_MOST: Final = 8192
#: Share of the best rate that is enough where the memory's capacity is unknown.
_NEAR: Final = 0.9
#: Most devices of a plan.
MOST_DEVICES: Final = 1 << 16
#: Batches for each doubling.
_PER_OCTAVE: Final = 4
#: Latencies of a point.
_SEEN: Final = ("tpot_s", "interference_s", "ttft_s", "prefill_s", "queue_s", "burst_ttft_s")
#: Further batches between the last that meets the target and the first that does not.
_BETWEEN: Final = 15


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for one layout.

    Attributes:
        setup: The layout.
        points: One a batch, ascending.
        best: The one with most tokens per second that meets the target; None without one.
        refusal: Why there is none.
    """

    setup: Setup
    points: tuple[OperatingPoint, ...] = ()
    best: OperatingPoint | None = None
    refusal: Refusal | None = None


def evaluate(
    setup: Setup,
    requests: Requests,
    target: Target,
    devices: int,
) -> Layout:
    """Serves the requests with one layout, at every batch that fits.

    Args:
        setup: The layout of one replica.
        requests: What is served.
        target: Latencies to be met (SLO).
        devices: Devices that there are; replicas fill them.
    """
    held = memory(setup, requests)
    if held.limit < 1:
        return Layout(setup=setup, refusal=refuse(setup, _does_not_fit(setup, held, requests)))
    prompts, sol_s = prompt_times(setup, requests)
    server = _Server(
        setup=setup,
        requests=requests,
        held=held,
        prompts=prompts,
        prompt_sol_s=_known(sol_s),
        devices=devices,
    )
    points = server.points(_micro(setup, requests, held))
    if not points:
        reason = f"the load needs more than {MOST_DEVICES:,} replicas."
        return Layout(setup=setup, refusal=refuse(setup, reason))
    points = _refined(server, points, target, requests)
    kept = [i for i, p in enumerate(points) if not missed(p, target)]
    if not kept:
        return Layout(setup=setup, points=points, refusal=_misses(server, points, target))
    chosen = _best(points, kept, requests, held)
    limited = _limit(points, chosen, target, requests, setup.engine.max_requests)
    if held.capacity_bytes is None and limited in ("memory", "throughput"):
        limited = "capacity"
    best = msgspec.structs.replace(points[chosen], batch_limit=limited)
    return Layout(setup=setup, points=points, best=best)


class _Server(msgspec.Struct, frozen=True, kw_only=True):
    """One layout with everything that does not depend on the batch."""

    setup: Setup
    requests: Requests
    held: ServingMemory
    prompts: Prompts
    prompt_sol_s: float | None
    devices: int

    def points(self, micro: Ints) -> tuple[OperatingPoint, ...]:
        """One point for each number of requests of a microbatch on one device, ascending."""
        setup, requests = self.setup, self.requests
        batches = np.minimum(micro * setup.stages, self.held.limit)
        batches = batches * setup.sharding.attention_data
        if setup.engine.max_requests is not None:
            batches = np.minimum(batches, setup.engine.max_requests)
        steps = decode_times(
            setup,
            requests.mean_context,
            [int(b) for b in micro],
            source=requests.source_tokens,
        )
        found = latency(
            batches.astype(float),
            requests.output_tokens,
            decode_s=steps.expected,
            prompts=self.prompts,
            overhead=setup.overhead,
            arrivals=requests.arriving,
        )
        points = (
            self._point(found, int(batch), float(steps.sol[i]), i)
            for i, batch in enumerate(batches)
        )
        return tuple(p for p in points if p is not None)

    def _point(self, found: Latency, batch: int, sol_s: float, i: int) -> OperatingPoint | None:
        """None where the load needs more replicas than any plan has devices."""
        requests = self.requests
        rate = _at(found.requests_per_s, i)
        replicas = self._replicas(batch, rate)
        if replicas > MOST_DEVICES:
            return None
        served = rate * replicas
        if requests.per_s is not None:
            served = min(served, requests.per_s)
        seen: dict[str, Any] = {name: _at(getattr(found, name), i) for name in _SEEN}
        return OperatingPoint(
            device=self.setup.device.id,
            precision=self.setup.precisions.name,
            sharding=msgspec.structs.replace(self.setup.sharding, data=replicas),
            batch=batch,
            runtime=self.setup.settings.runtime or "",
            mean_of=self.setup.mean_of,
            **seen,
            sol_tpot_s=_known(sol_s),
            sol_ttft_s=self.prompt_sol_s,
            requests_per_s=served,
            tokens_per_s=served * requests.output_tokens,
            memory=self.held,
        )

    def _replicas(self, batch: int, requests_per_s: float) -> int:
        """Replicas that the load needs; all that there is room for where no load is given."""
        requests = self.requests
        if requests.concurrency is not None:
            return -(-requests.concurrency // batch)
        if requests.per_s is not None:
            return max(1, math.ceil(requests.per_s / requests_per_s))
        return max(1, self.devices // self.setup.sharding.devices)


def _refined(
    server: _Server, points: tuple[OperatingPoint, ...], target: Target, requests: Requests
) -> tuple[OperatingPoint, ...]:
    """The points with further batches between the best one that meets the target and the next."""
    kept = [i for i, p in enumerate(points) if not missed(p, target)]
    if not kept or requests.concurrency is not None:
        return points
    chosen = max(kept, key=lambda i: _merit(points[i], requests))
    if chosen + 1 == len(points) or not missed(points[chosen + 1], target):
        return points
    per = server.setup.stages * server.setup.sharding.attention_data
    low, high = (-(-points[i].batch // per) for i in (chosen, chosen + 1))
    if high - low < 2:
        return points
    between = np.unique(np.rint(np.linspace(low, high, _BETWEEN + 2)).astype(np.int64))[1:-1]
    return (*points[: chosen + 1], *server.points(between), *points[chosen + 1 :])


def _at(values: object, i: int) -> float:
    array = np.asarray(values, dtype=float)
    return float(array[i] if array.ndim else array)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def missed(point: OperatingPoint, target: Target) -> tuple[str, ...]:
    """Which target latencies a point misses."""
    pairs = (("ttft", point.ttft_s, target.ttft_s), ("tpot", point.tpot_s, target.tpot_s))
    return tuple(name for name, value, limit in pairs if limit is not None and value > limit)


def _merit(point: OperatingPoint, requests: Requests) -> tuple[float, float]:
    """Fewest devices where the load is given, else most tokens of each device."""
    if requests.per_s is not None or requests.concurrency is not None:
        return (-point.devices, -point.tpot_s)
    return (point.tokens_per_s_per_device, -point.tpot_s)


def _best(
    points: tuple[OperatingPoint, ...],
    kept: Sequence[int],
    requests: Requests,
    held: ServingMemory,
) -> int:
    """The best of those that meet the target.

    Where nobody knows how many requests the memory holds, the fewest in flight that come near it.
    """
    best = max(kept, key=lambda i: _merit(points[i], requests))
    loaded = requests.per_s is not None or requests.concurrency is not None
    if held.capacity_bytes is not None or loaded:
        return best
    enough = _NEAR * points[best].tokens_per_s_per_device
    near = (i for i in kept if points[i].tokens_per_s_per_device >= enough)
    return min(near, key=lambda i: points[i].batch)


def _micro(setup: Setup, requests: Requests, held: ServingMemory) -> Ints:
    """Numbers of requests of one microbatch on one device to look at."""
    stages, groups = setup.stages, setup.sharding.attention_data
    most = min(max(1, held.limit // stages), _MOST)
    if setup.engine.max_requests is not None:
        most = min(most, -(-setup.engine.max_requests // (stages * groups)))
    octaves = math.ceil(math.log2(most) * _PER_OCTAVE)
    steps = 2.0 ** (np.arange(octaves + 1) / _PER_OCTAVE)
    micro = np.minimum(np.rint(steps).astype(np.int64), most)
    if requests.concurrency is not None:
        wanted = -(-requests.concurrency // (stages * groups))
        micro = np.minimum(np.append(micro, wanted), min(wanted, most))
    return np.unique(micro)


def _limit(
    points: tuple[OperatingPoint, ...],
    chosen: int,
    target: Target,
    requests: Requests,
    most: int | None,
) -> str:
    """What stands in the way of the next larger batch."""
    if requests.concurrency is not None and points[chosen].batch >= requests.concurrency:
        return "concurrency"
    if chosen + 1 == len(points):
        return "max_requests" if points[chosen].batch == most else "memory"
    failing = missed(points[chosen + 1], target)
    return failing[0] if failing else "throughput"


def refuse(setup: Setup, reason: str, share: float = float("inf"), proof: str = "") -> Refusal:
    """The refusal of a layout; see `Refusal`."""
    return Refusal(
        device=setup.device.id,
        precision=setup.precisions.name,
        sharding=setup.sharding,
        reason=reason,
        missed=share,
        proof=proof,
    )


def _does_not_fit(setup: Setup, held: ServingMemory, requests: Requests) -> str:
    usable = f"{format_capacity(held.usable_bytes)} usable on each {setup.device.id}"
    if setup.utilization < 1 and held.capacity_bytes is not None:
        share, whole = format_percent(setup.utilization), format_capacity(held.capacity_bytes)
        usable += f" ({share} of {whole}; --utilization)"
    if held.free_bytes <= 0:
        needed = held.weights_bytes + held.activations_bytes
        return (
            f"does not fit: weights {format_capacity(held.weights_bytes)} and activations "
            f"{format_capacity(held.activations_bytes)} (steps of up to "
            f"{setup.engine.step_tokens:,} prompt tokens) need {format_capacity(needed)} of "
            f"{usable}."
        )
    tokens = int(held.free_bytes / held.sequence_bytes * requests.longest)
    return (
        f"does not fit: one request of {requests.longest:,} tokens reserves "
        f"{format_capacity(held.sequence_bytes)} of cache and {format_capacity(held.free_bytes)} "
        f"are left of {usable}; input + output of about "
        f"{tokens:,} tokens fits."
    )


def _time(seconds: float) -> str:
    return format_si(seconds, "s")


def _misses(server: _Server, points: tuple[OperatingPoint, ...], target: Target) -> Refusal:
    def excess(point: OperatingPoint) -> float:
        pairs = ((point.ttft_s, target.ttft_s), (point.tpot_s, target.tpot_s))
        return max(value / limit for value, limit in pairs if limit is not None) - 1

    nearest = min(points, key=excess)
    parts = {
        "ttft": f"TTFT {_time(nearest.ttft_s)} > {_time(target.ttft_s or 0.0)}",
        "tpot": f"TPOT {_time(nearest.tpot_s)} > {_time(target.tpot_s or 0.0)}",
    }
    failing = " and ".join(parts[name] for name in missed(nearest, target))
    reason = f"{failing} at its best batch of {nearest.batch}"
    impossible = _impossible(server, points, target)
    return refuse(
        server.setup,
        f"{reason}; {impossible}." if impossible else f"{reason}.",
        share=excess(nearest),
        proof="sol" if impossible else "expected",
    )


def _impossible(server: _Server, points: tuple[OperatingPoint, ...], target: Target) -> str:
    """Why no run could meet the target; empty where one could, or where that is not proved.

    Of a pipeline nothing is proved: with fewer microbatches than stages the stage with most layers
    and the head does not set the pace.
    """
    setup, requests, first = server.setup, server.requests, points[0]
    if setup.stages > 1:
        return ""
    micro = max(1, first.batch // setup.sharding.attention_data)
    for name, limit, sol_s, step in (
        (
            "TPOT",
            target.tpot_s,
            first.sol_tpot_s,
            decode_step(setup, requests.mean_context, micro, requests.source_tokens),
        ),
        ("TTFT", target.ttft_s, first.sol_ttft_s, prompt_step(requests)),
    ):
        if limit is None or sol_s is None or sol_s <= limit:
            continue
        sol = setup.speed_of_light(step)
        if sol.proves and not sol.caveats:
            least = format_si(sol_s, "s", 3)
            return f"no run with this layout has a {name} below {least} (speed of light)"
    return ""
