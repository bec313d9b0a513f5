"""From the times of single steps to what users see: one closed form, on numbers or arrays.

Every replica keeps B requests in flight: when one ends, the next begins. A device alternates
between steps that decode (one token for each) and steps that prefill prompts. In the time between
two tokens of an answer, other requests are prefilled: the answer waits.

Over the life of one answer of n tokens every other request is prefilled once, but for those whose
prompts share a step with its own; so its decoding takes

    D = (n - 1) t_decode + max(0, B - shared) t_prompt

with ``t_prompt`` the time that one prompt adds, and

    TPOT = D / (n - 1).

This is the work of the device counted once: B prompts and n - 1 decode steps in a life of
``T = shared · t_prompt + D`` seconds.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from gambrel.ops.base import minimum
from gambrel.roofline import maximum

Numbers: TypeAlias = Any


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """What users of one replica see; numbers or arrays over batches.

    Attributes:
        decode_s: A decode step, for all requests in flight.
        interference_s: What prefill of other requests adds to a token, on average.
        tpot_s: Time per output token after the first: (total - TTFT) / (output - 1).
        prefill_s: A prompt alone.
        queue_s: What it waits before: other prompts, and the step that is running.
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


def latency(
    batch: Numbers,
    output_tokens: int,
    *,
    decode_s: Numbers,
    prompt_s: Numbers,
    prefill_s: Numbers,
    shared: Numbers,
) -> Latency:
    """The latencies of one replica with ``batch`` requests in flight.

    Args:
        batch: Requests in flight.
        output_tokens: Of an answer.
        decode_s: Time until each of them has one more token.
        prompt_s: What one prompt adds to the time of the device: the share of the step that
            prefills ``shared`` prompts together.
        prefill_s: A prompt alone, from start to first token.
        shared: Prompts that fit into one prefill step.
    """
    together = minimum(batch, shared)
    waited = maximum(batch - shared, 0) * prompt_s
    later = max(output_tokens - 1, 0)
    decoding = later * decode_s + (waited if later else 0.0)
    life = together * prompt_s + decoding
    requests_per_s = batch / life
    busy = minimum(requests_per_s * prompt_s, 0.999)
    # One server with a constant service time and random arrivals (Pollaczek-Khinchine): half the
    # busy share over the idle one, in service times; and half of the decode step that is running.
    queue = busy * prompt_s / (2 * (1 - busy)) + (1 - busy) * decode_s / 2
    return Latency(
        decode_s=decode_s,
        interference_s=waited / later if later else 0.0 * decode_s,
        tpot_s=decoding / later if later else 0.0 * decode_s,
        prefill_s=prefill_s,
        queue_s=queue,
        ttft_s=prefill_s + queue,
        burst_ttft_s=prefill_s + (batch - 1) / 2 * prompt_s,
        requests_per_s=requests_per_s,
    )
