"""From the times of single steps to what users see: one closed form, on numbers or arrays.

Every replica keeps B requests in flight: when one ends, the next begins. A device alternates
between steps that decode (one token for each) and steps that also prefill prompts. In the time
between two tokens of an answer, other requests are prefilled: the answer waits.

Over the life of one answer of n tokens every other request is prefilled once (answers differ in
length, so that prompts come one by one); its decoding takes

    D = (n - 1) (t_decode + E) + (B - 1) t_prompt,    TPOT = D / (n - 1)

with ``t_prompt`` the time that one prompt adds. This is the work of the device counted once: B
prompts and n - 1 decode steps in a life.

A share ``q = 1 - exp(-B c / n)`` of the steps holds one of the c chunks of a prompt. Engines replay
decode steps as graphs; in a step with prompt tokens the host launches every kernel, and the step
takes ``floor`` at least. ``E = q max(0, floor - its time on the device)``.

A prompt waits for the step that runs when it comes (half of the mean square over the mean of a
step), takes its own steps beside the decodes of others, and passes the engine's front end once; a
request alone meets no step and no decode. In a closed loop the first B
requests come together; published means are over several requests for each slot, so that a share
of the wait of that first wave is in them.

In a burst all B requests come together and have equal lengths: the engine prefills one prompt after
another and then decodes all of them. A request waits for half of the others' prompts before its
first token and for the other half after it; no decode step holds a prompt.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from gambrel.ops.base import minimum
from gambrel.roofline import maximum
from gambrel.runtimes import FrontEnd

Numbers: TypeAlias = Any


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """What users of one replica see; numbers or arrays over batches.

    Attributes:
        decode_s: A decode step, for all requests in flight.
        interference_s: What prefill of other requests adds to a token, on average.
        tpot_s: Time per output token after the first: (total - TTFT) / (output - 1).
        prefill_s: A prompt alone.
        queue_s: What it waits besides: front end, other prompts, and the step that is running.
        ttft_s: Time to first token: prefill + queue.
        burst_ttft_s: The mean, if all requests in flight arrive at the same moment.
        requests_per_s: Of one replica.
    """

    decode_s: Numbers
    interference_s: Numbers
    tpot_s: Numbers
    prefill_s: Numbers
    queue_s: Numbers
    ttft_s: Numbers
    burst_ttft_s: Numbers
    requests_per_s: Numbers


class Prompts(msgspec.Struct, frozen=True, kw_only=True):
    """How prompts enter the steps of one replica.

    Attributes:
        each_s: What one adds to the time of the device.
        alone_s: One alone, from start to first token.
        chunks: Steps that one takes.
        groups: Parts of the replica that prefill different prompts at once.
        swap_s: Until the cached part of one is back from the host's memory, beside other steps.
        tokens: New tokens of one chunk.
        length: Tokens of one, cached ones included.
    """

    each_s: float
    alone_s: float
    chunks: int = 1
    groups: int = 1
    swap_s: float = 0.0
    tokens: int = 0
    length: int = 0


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine adds.

    Attributes:
        floor_s: Least time of a step with prompt tokens.
        alone_floor_s: The same without requests that decode beside them; None: as much.
        graph_tokens: A step of no more tokens is replayed as graphs and has no such least time.
        frontend: Of a request, outside of the steps.
    """

    floor_s: float = 0.0
    alone_floor_s: float | None = None
    graph_tokens: int = 0
    frontend: FrontEnd = FrontEnd()

    @property
    def alone(self) -> float:
        """Least time of a step with prompts and no other request."""
        return self.floor_s if self.alone_floor_s is None else self.alone_floor_s

    def floor(self, tokens: Numbers, beside: Numbers = 1.0) -> Numbers:
        """Least time of a step with so many tokens, those of prompts among them.

        Args:
            tokens: In the step.
            beside: Share of such steps that have requests that decode beside the prompts.
        """
        least = self.alone + (self.floor_s - self.alone) * beside
        return np.where(tokens > self.graph_tokens, least, 0.0)


_NONE: Final = Overhead()
#: Share of the first wave's wait in the mean of a closed loop, fitted to served runs (0.16 to 0.18
#: for each of three engines): about six requests for each slot.
FIRST_WAVE: Final = 0.16


def latency(
    batch: Numbers,
    output_tokens: int,
    *,
    decode_s: Numbers,
    prompts: Prompts,
    overhead: Overhead = _NONE,
    arrivals: str = "closed",
) -> Latency:
    """The latencies of one replica with ``batch`` requests in flight.

    Args:
        batch: Requests in flight.
        output_tokens: Of an answer.
        decode_s: Time until each of them has one more token.
        prompts: How prompts enter the steps.
        overhead: What the engine adds.
        arrivals: ``"closed"``: a request that ends is replaced at once; ``"burst"``: all come
            together and have equal lengths; ``"poisson"``: they come at random; ``"offline"``: as
            closed, since all wait from the start.
    """
    if arrivals == "burst":
        return _burst(batch, output_tokens, decode_s, prompts, overhead)
    later, each = max(output_tokens - 1, 0), prompts.each_s
    # Those in flight when a request comes: the others, or at random as many as on average.
    others = batch if arrivals == "poisson" else maximum(batch - 1, 0)
    stepping = -np.expm1(-others) if arrivals == "poisson" else minimum(others, 1)
    front = overhead.frontend.seconds(prompts.length, others)
    tokens = prompts.tokens + batch / prompts.groups
    floor, least = overhead.floor(tokens), overhead.floor(tokens, stepping)
    chunk = each * prompts.groups / prompts.chunks
    q = 1 - np.exp(-batch / prompts.groups * prompts.chunks / output_tokens)
    mixed = decode_s + batch * each / output_tokens / q
    waited = later * q * maximum(floor - mixed, 0.0) + maximum(batch - 1, 0) * each
    decoding = later * decode_s + (waited if later else 0.0)
    life = front + prompts.swap_s + each + decoding
    first = maximum(prompts.alone_s + prompts.chunks * decode_s * stepping, least)
    longer = maximum(decode_s + chunk, floor)
    # The mean of a step over random moments counts long steps by their length.
    mean, square = ((1 - q) * decode_s**k + q * longer**k for k in (1, 2))
    wave = maximum(batch / prompts.groups - 1, 0) / 2 * each * prompts.groups
    if arrivals in ("closed", "offline"):
        queued = FIRST_WAVE * wave
    else:
        # One server with a constant service time and random arrivals (Pollaczek-Khinchine): half
        # the busy share over the idle one, in service times.
        busy = minimum(batch / life * each, 0.999)
        queued = busy * each / (2 * (1 - busy))
    started = front + first + prompts.swap_s
    ttft_s = started + stepping * square / (2 * mean) + queued
    return Latency(
        decode_s=decode_s,
        interference_s=waited / later if later else 0.0 * decode_s,
        tpot_s=decoding / later if later else 0.0 * decode_s,
        prefill_s=prompts.alone_s,
        queue_s=ttft_s - prompts.alone_s,
        ttft_s=ttft_s,
        burst_ttft_s=started + wave,
        requests_per_s=batch / life,
    )


def _burst(
    batch: Numbers, output_tokens: int, decode_s: Numbers, prompts: Prompts, overhead: Overhead
) -> Latency:
    """All requests at once: prompts first, then every step decodes all of them."""
    later, each, groups = max(output_tokens - 1, 0), prompts.each_s, prompts.groups
    wave = maximum(batch / groups - 1, 0) / 2 * each * groups
    first = maximum(prompts.alone_s, overhead.floor(prompts.tokens * batch / groups))
    front = overhead.frontend.seconds(prompts.length, maximum(batch - 1, 0))
    ttft_s = front + first + prompts.swap_s + wave
    waited = wave if later else 0.0 * wave
    return Latency(
        decode_s=decode_s,
        interference_s=waited / max(later, 1),
        tpot_s=decode_s + waited / later if later else 0.0 * decode_s,
        prefill_s=prompts.alone_s,
        queue_s=ttft_s - prompts.alone_s,
        ttft_s=ttft_s,
        burst_ttft_s=ttft_s,
        requests_per_s=batch / (ttft_s + wave + later * decode_s),
    )
