"""From step times to latencies: hand arithmetic, and an engine that really runs step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.llm.serving.timing import latency


def simulate(batch, output, decode_s, prompt_s, shared, ends=60):
    """Runs an engine: each step prefills up to ``shared`` waiting prompts and decodes the others.

    Returns (mean TPOT, requests a second) of the requests that end after a warm-up.
    """
    now, waiting = 0.0, list(range(batch))
    running: dict[int, list[float]] = {}  # request → [first token at, tokens]
    tpots, finished, started = [], 0, None
    while finished < (ends + 2) * batch:
        prompts, waiting = waiting[:shared], waiting[shared:]
        now += (decode_s if running else 0.0) + len(prompts) * prompt_s
        for request, state in list(running.items()):
            state[1] += 1
            if state[1] == output:
                finished += 1
                if finished == 2 * batch:
                    started = now
                if finished > 2 * batch:
                    tpots.append((now - state[0]) / (output - 1))
                del running[request]
                waiting.append(request)
        for request in prompts:
            running[request] = [now, 1]
    return float(np.mean(tpots)), ends * batch / (now - started)


@pytest.mark.parametrize(
    ("batch", "output", "shared"),
    [(1, 100, 1), (8, 200, 1), (8, 200, 8), (32, 500, 4), (64, 100, 8), (64, 1000, 1)],
)
def test_against_an_engine_that_runs(batch, output, shared):
    decode_s, prompt_s = 0.010, 0.020
    found = latency(
        batch, output, decode_s=decode_s, prompt_s=prompt_s, prefill_s=prompt_s, shared=shared
    )
    tpot, rate = simulate(batch, output, decode_s, prompt_s, shared)
    assert found.tpot_s == pytest.approx(tpot, rel=0.06)
    assert found.requests_per_s == pytest.approx(rate, rel=0.06)


def test_by_hand():
    # 11 requests, answers of 101 tokens, a decode step 10 ms, a prompt 50 ms, one at a time:
    # 100 steps take 1 s, ten prompts of others 0.5 s: 15 ms a token. A life is 1.55 s.
    found = latency(11, 101, decode_s=0.01, prompt_s=0.05, prefill_s=0.06, shared=1)
    assert found.tpot_s == pytest.approx(0.015)
    assert found.interference_s == pytest.approx(0.005)
    assert found.requests_per_s == pytest.approx(11 / 1.55)
    # Busy with prompts 0.55 / 1.55 of the time = 0.3548: they wait 0.3548 * 0.05 / (2 * 0.6452)
    # = 13.75 ms for each other and 0.6452 * 5 ms = 3.226 ms for a decode step.
    assert found.queue_s == pytest.approx(0.013750 + 0.003226, rel=1e-4)
    assert found.ttft_s == pytest.approx(0.06 + found.queue_s)
    assert found.burst_ttft_s == pytest.approx(0.06 + 5 * 0.05)


def test_answers_of_one_token_have_no_time_per_token():
    found = latency(4, 1, decode_s=0.01, prompt_s=0.05, prefill_s=0.05, shared=1)
    assert (found.tpot_s, found.interference_s) == (0.0, 0.0)


@given(
    st.integers(1, 500),
    st.integers(2, 2000),
    st.floats(1e-3, 0.1),
    st.floats(1e-4, 1.0),
    st.integers(1, 64),
)
def test_no_device_works_more_than_all_the_time(batch, output, decode_s, prompt_s, shared):
    found = latency(
        batch, output, decode_s=decode_s, prompt_s=prompt_s, prefill_s=prompt_s, shared=shared
    )
    busy = found.requests_per_s * (prompt_s + (output - 1) * decode_s / batch)
    assert busy <= 1 + 1e-9
    assert found.tpot_s >= decode_s * (1 - 1e-12)


def test_arrays_equal_numbers():
    batches = np.array([1.0, 8.0, 64.0])
    many = latency(batches, 200, decode_s=batches * 1e-3, prompt_s=0.02, prefill_s=0.02, shared=4)
    for i, batch in enumerate(batches):
        one = latency(
            float(batch), 200, decode_s=batch * 1e-3, prompt_s=0.02, prefill_s=0.02, shared=4
        )
        assert many.tpot_s[i] == pytest.approx(one.tpot_s)
        assert many.queue_s[i] == pytest.approx(one.queue_s)
