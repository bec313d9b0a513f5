"""Prefill and decode on devices of their own: two pools, the cache handed on.

A prompt waits for its turn in the prefill pool, is computed, and its keys and values cross the link
to the decode pool, whose steps hold no prompts and are replayed as graphs. So

    TTFT = front end + wait + prefill + transfer,    TPOT = decode step

A replica of the prefill pool is one server with a constant service time s and random arrivals: at
a share b of its rate a prompt waits b s / (2 (1 - b)) (Pollaczek-Khinchine). The TTFT that is left
for waiting gives the share, the TPOT the largest batch, and both the number of replicas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from gambrel import roofline
from gambrel.errors import InputError
from gambrel.llm.kv import kv_cache
from gambrel.llm.serving.question import Requests, Target
from gambrel.llm.serving.split_records import ServingPool, SplitPlan
from gambrel.llm.serving.steps import Setup, decode_times, memory, prompt_times

#: Layouts of each pool that are combined, the best by requests per second of a device.
_KEPT: Final = 4
#: Batches for each doubling.
_PER_OCTAVE: Final = 8
_MOST: Final = 4096


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """One layout of a pool and what a replica of it does."""

    setup: Setup
    requests_per_s: float
    batch: int
    latency_s: float
    wait_s: float = 0.0
    transfer_s: float = 0.0

    @property
    def devices(self) -> int:
        return self.setup.sharding.devices

    def pool(self, replicas: int) -> ServingPool:
        return ServingPool(
            device=self.setup.device.id,
            sharding=msgspec.structs.replace(self.setup.sharding, data=replicas),
            batch=self.batch,
            requests_per_s=self.requests_per_s * replicas,
        )


def split(
    prefill: Sequence[Setup],
    decode: Sequence[Setup],
    requests: Requests,
    target: Target,
    *,
    max_devices: int,
) -> SplitPlan:
    """The best pools: the fewest devices for a load, else most requests per second of a device.

    Args:
        prefill: Layouts of the prefill pool; of one kind of device or several.
        decode: Layouts of the decode pool.
        requests: What is served; at a rate, or as many as can be.
        target: TTFT and TPOT, both.
        max_devices: Most devices, both pools.

    Raises:
        InputError: A target is missing; or nothing meets them, with the nearest.
    """
    if target.ttft_s is None or target.tpot_s is None:
        raise InputError("separate pools are sized by targets: give ttft and tpot, both.")
    first = [_prefill(s, requests, target.ttft_s) for s in prefill]
    later = [_decode(s, requests, target.tpot_s) for s in decode]
    ahead, behind = _best(first), _best(later)
    if not ahead:
        raise InputError(f"no prefill pool meets TTFT {target.ttft_s:g} s: {_nearest(first)}.")
    if not behind:
        raise InputError(f"no decode pool meets TPOT {target.tpot_s:g} s: {_nearest(later)}.")
    found = [
        plan
        for p in ahead
        for d in behind
        for plan in _counts(p, d, requests, max_devices)
    ]  # fmt: skip
    if not found:
        raise InputError(
            f"the pools need more than {max_devices} devices: a prefill replica takes "
            f"{ahead[0].devices}, a decode replica {behind[0].devices}."
        )
    if requests.per_s is not None:
        return min(found, key=lambda plan: (plan.devices, plan.tpot_s))
    return max(found, key=lambda plan: (plan.requests_per_s / plan.devices, -plan.devices))


def transfer_s(setup: Setup, requests: Requests) -> float:
    """Seconds in which a prompt's keys and values cross to the other pool.

    Each device of a replica sends its share: over the link of the node where both pools may lie in
    one, over its part of the network where the topology gives one.

    Raises:
        InputError: The device has no link to peers and no network is given.
    """
    share = kv_cache(
        setup.spec,
        setup.precisions,
        batch_size=1,
        context=requests.input_tokens,
        sharding=setup.sharding,
    ).logical_bytes
    node = setup.topology
    rate = node.network_byte_per_s
    if rate is None:
        links = [x.byte_per_s_per_direction for x in node.place(setup.device, 2).links]
        known = [r for r in links if r is not None]
        if not known:
            raise InputError(
                f"{setup.device.id} has no link to peers; give the network: --topology."
            )
        rate = max(known)
    return float(roofline.seconds(share, rate)) + node.network_latency_s


def _prefill(setup: Setup, requests: Requests, ttft_s: float) -> _Side:
    """A replica of the prefill pool, as busy as the TTFT allows; not at all where it is missed."""
    if memory(setup, requests).limit < 1:
        return _Side(setup=setup, requests_per_s=0.0, batch=0, latency_s=math.inf)
    prompts, _ = prompt_times(setup, requests)
    each = max(prompts.each_s, 1e-9)
    alone = max(prompts.alone_s, float(setup.overhead.floor(prompts.tokens)))
    each = max(
        each, setup.overhead.floor_s / max(1, setup.engine.step_tokens // requests.new_tokens)
    )
    crossing = transfer_s(setup, requests)
    front = float(setup.overhead.frontend.seconds(requests.input_tokens, math.inf))
    base = front + prompts.swap_s + alone + crossing
    left = ttft_s - base
    # Wait w at share b of the rate 1 / s: w = b s / (2 (1 - b)), so that b = 2 w / (s + 2 w).
    busy = 2 * left / (each + 2 * left) if left > 0 else 0.0
    return _Side(
        setup=setup,
        requests_per_s=busy / each,
        batch=1,
        latency_s=base + max(left, 0.0),
        wait_s=max(left, 0.0),
        transfer_s=crossing,
    )


def _decode(setup: Setup, requests: Requests, tpot_s: float) -> _Side:
    """One replica of the decode pool with the largest batch that meets the TPOT."""
    groups, stages = setup.sharding.attention_data, setup.stages
    most = min(memory(setup, requests).limit // stages, _MOST)
    if most < 1:
        return _Side(setup=setup, requests_per_s=0.0, batch=0, latency_s=math.inf)
    octaves = math.ceil(math.log2(most) * _PER_OCTAVE) if most > 1 else 0
    micro = np.unique(np.minimum(np.rint(2.0 ** (np.arange(octaves + 1) / _PER_OCTAVE)), most))
    batches = [int(b) for b in micro]
    steps = decode_times(setup, requests.mean_context, batches).expected
    met = np.flatnonzero(steps <= tpot_s)
    if not met.size:
        return _Side(setup=setup, requests_per_s=0.0, batch=0, latency_s=float(steps[0]))
    i = int(met[-1])
    batch = batches[i] * stages * groups
    life = float(steps[i]) * max(requests.output_tokens - 1, 1)
    return _Side(
        setup=setup,
        requests_per_s=float(roofline.rate(batch, life)),
        batch=batch,
        latency_s=float(steps[i]),
    )


def _best(sides: Iterable[_Side]) -> list[_Side]:
    able = [s for s in sides if s.requests_per_s > 0]
    able.sort(key=lambda s: -s.requests_per_s / s.devices)
    small = sorted(able, key=lambda s: s.devices)[:1]
    return [*able[:_KEPT], *(s for s in small if s not in able[:_KEPT])]


def _nearest(sides: Sequence[_Side]) -> str:
    one = min(sides, key=lambda s: s.latency_s)
    if math.isinf(one.latency_s):
        return "the model fits no layout"
    return f"{one.latency_s:.3g} s with {one.setup.sharding} of {one.setup.device.id} at best"


def _counts(
    first: _Side, later: _Side, requests: Requests, max_devices: int
) -> Iterable[SplitPlan]:
    """Replicas of both pools: for the load, or every number of the first with what balances it."""
    if requests.per_s is not None:
        p = math.ceil(roofline.ratio(requests.per_s, first.requests_per_s))
        d = math.ceil(roofline.ratio(requests.per_s, later.requests_per_s))
        pairs = [(p, d)]
    else:
        ratio = roofline.ratio(first.requests_per_s, later.requests_per_s)
        pairs = [
            (p, max(1, d))
            for p in range(1, max_devices // first.devices + 1)
            for d in (math.floor(p * ratio), math.ceil(p * ratio))
        ]
    for p, d in pairs:
        if p * first.devices + d * later.devices <= max_devices:
            yield _plan(first, later, p, d, requests)


def _plan(first: _Side, later: _Side, p: int, d: int, requests: Requests) -> SplitPlan:
    able = min(p * first.requests_per_s, d * later.requests_per_s)
    served = able if requests.per_s is None else requests.per_s
    return SplitPlan(
        model=first.setup.spec.name,
        precision=first.setup.precisions.name,
        runtime=later.setup.settings.runtime or "",
        mean_of=later.setup.mean_of,
        requests=requests,
        prefill=first.pool(p),
        decode=later.pool(d),
        ttft_s=first.latency_s,
        wait_s=first.wait_s,
        transfer_s=first.transfer_s,
        tpot_s=later.latency_s,
        requests_per_s=served,
        tokens_per_s=served * requests.output_tokens,
    )
