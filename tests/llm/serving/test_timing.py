"""From step times to latencies: hand arithmetic, and an engine that really runs step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.llm.serving.timing import Overhead, Prompts, latency
from gambrel.runtimes import FrontEnd


def simulate(batch, output, decode_s, prompt_s, ends=60):
    """Runs an engine: each step prefills the prompts that wait and decodes the others.

    Answers have 80 to 100 % of the tokens. Returns (mean TPOT, requests a second) of the requests
    that end after a warm-up.
    """
    draw = np.random.default_rng(1)
    now, waiting = 0.0, list(range(batch))
    running: dict[int, list[float]] = {}  # request → [first token at, tokens, of so many]
    tpots, finished, started = [], 0, None
    while finished < (ends + 4) * batch:
        now += (decode_s if running else 0.0) + len(waiting) * prompt_s
        prompts, waiting = waiting, []
        for request, state in list(running.items()):
            state[1] += 1
            if state[1] == state[2]:
                finished += 1
                if finished == 4 * batch:
                    started = now
                if finished > 4 * batch:
                    tpots.append((now - state[0]) / (state[2] - 1))
                del running[request]
                waiting.append(request)
        for request in prompts:
            running[request] = [now, 1, int(draw.integers(0.8 * output, output + 1))]
    return float(np.mean(tpots)), ends * batch / (now - started)


@pytest.mark.parametrize(
    ("batch", "output"), [(1, 100), (8, 200), (32, 500), (64, 100), (64, 1000)]
)
def test_against_an_engine_that_runs(batch, output):
    decode_s, prompt_s = 0.010, 0.020
    prompts = Prompts(each_s=prompt_s, alone_s=prompt_s)
    mean = round(0.9 * output)
    seen = latency(batch, mean, decode_s=decode_s, prompts=prompts)
    tpot, rate = simulate(batch, output, decode_s, prompt_s)
    assert seen.tpot_s == pytest.approx(tpot, rel=0.06)
    assert seen.requests_per_s == pytest.approx(rate, rel=0.06)


def test_by_hand():
    # 11 requests, answers of 101 tokens, a decode step 10 ms, a prompt 50 ms, one at a time:
    # 100 steps take 1 s, ten prompts of others 0.5 s: 15 ms a token. A life is 1.55 s.
    prompts = Prompts(each_s=0.05, alone_s=0.06)
    seen = latency(11, 101, decode_s=0.01, prompts=prompts)
    assert seen.tpot_s == pytest.approx(0.015)
    assert seen.interference_s == pytest.approx(0.005)
    assert seen.requests_per_s == pytest.approx(11 / 1.55)
    # A step holds a prompt with probability 1 - exp(-11 / 101) = 0.10318 and takes 60 ms then:
    # mean 15.159 ms, mean square 461.1 ms^2, so 15.21 ms pass until the next. 16 % of the first
    # wave's 5 x 50 ms; the prompt's own steps take 70 ms.
    assert seen.ttft_s == pytest.approx(0.07 + 0.01521 + 0.04, rel=1e-3)
    assert seen.queue_s == pytest.approx(seen.ttft_s - 0.06)
    assert seen.burst_ttft_s == pytest.approx(0.07 + 5 * 0.05)


def test_steps_with_prompts_take_the_floor():
    # 101 requests with 101 tokens: a share 1 - exp(-1) = 0.63212 of the steps holds a prompt; a
    # step of 10 ms and 1 ms of prompts takes 10 + 1 / 0.63212 = 11.582 ms, and 20 ms by the floor.
    prompts = Prompts(each_s=0.001, alone_s=0.001)
    slow = Overhead(floor_s=0.02, frontend=FrontEnd(alone_s=0.1))
    seen = latency(101, 101, decode_s=0.01, prompts=prompts, overhead=slow)
    waits = 0.63212 * (20 - 11.582)
    assert seen.tpot_s * 1e3 == pytest.approx(10 + 1 + waits, rel=1e-4)
    assert seen.ttft_s > 0.1 + 0.02
    large = latency(101, 101, decode_s=0.03, prompts=prompts, overhead=slow)
    assert large.tpot_s == pytest.approx(0.031)


def test_a_step_of_a_request_alone_has_its_own_floor():
    prompts = Prompts(each_s=0.001, alone_s=0.001)
    slow = Overhead(floor_s=0.02, alone_floor_s=0.008)
    alone, two = (latency(n, 101, decode_s=0.01, prompts=prompts, overhead=slow) for n in (1, 2))
    assert alone.ttft_s == pytest.approx(0.008)
    assert two.ttft_s > 0.02


def test_a_burst_prefills_first():
    # 11 requests, prompts of 50 ms: half of the ten others come before one's own, half after it.
    prompts, slow = (
        Prompts(each_s=0.05, alone_s=0.05),
        Overhead(floor_s=0.02, frontend=FrontEnd(alone_s=0.1)),
    )
    seen = latency(11, 101, decode_s=0.01, prompts=prompts, overhead=slow, arrivals="burst")
    assert seen.ttft_s == pytest.approx(0.1 + 0.05 + 5 * 0.05)
    assert seen.tpot_s == pytest.approx(0.01 + 5 * 0.05 / 100)
    # The wave ends after the front end, 11 prompts and 100 steps.
    assert seen.requests_per_s == pytest.approx(11 / (0.1 + 11 * 0.05 + 1.0))


def test_answers_of_one_token_have_no_time_per_token():
    seen = latency(4, 1, decode_s=0.01, prompts=Prompts(each_s=0.05, alone_s=0.05))
    assert (seen.tpot_s, seen.interference_s) == (0.0, 0.0)


@given(
    st.integers(1, 500),
    st.integers(2, 2000),
    st.floats(1e-3, 0.1),
    st.floats(1e-4, 1.0),
    st.floats(0, 0.1),
)
def test_no_device_works_more_than_all_the_time(batch, output, decode_s, prompt_s, floor_s):
    prompts, slow = Prompts(each_s=prompt_s, alone_s=prompt_s), Overhead(floor_s=floor_s)
    seen = latency(batch, output, decode_s=decode_s, prompts=prompts, overhead=slow)
    busy = seen.requests_per_s * (prompt_s + (output - 1) * decode_s / batch)
    assert busy <= 1 + 1e-9
    assert seen.tpot_s >= decode_s * (1 - 1e-12)


def test_random_arrivals_wait_for_each_other_and_not_for_a_first_wave():
    prompts = Prompts(each_s=0.05, alone_s=0.05)
    closed = latency(11, 101, decode_s=0.01, prompts=prompts)
    at_random = latency(11, 101, decode_s=0.01, prompts=prompts, arrivals="poisson")
    # Busy with prompts 0.55 / 1.55 of the time = 0.3548: 0.3548 * 0.05 / (2 * 0.6452) = 13.75 ms.
    assert at_random.ttft_s - closed.ttft_s == pytest.approx(0.01375 - 0.04, rel=1e-3)


def test_arrays_equal_numbers():
    batches = np.array([1.0, 8.0, 64.0])
    prompts, slow = Prompts(each_s=0.02, alone_s=0.02), Overhead(floor_s=0.03)
    many = latency(batches, 200, decode_s=batches * 1e-3, prompts=prompts, overhead=slow)
    for i, batch in enumerate(batches):
        one = latency(float(batch), 200, decode_s=batch * 1e-3, prompts=prompts, overhead=slow)
        assert many.tpot_s[i] == pytest.approx(one.tpot_s)
        assert many.queue_s[i] == pytest.approx(one.queue_s)


def test_short_steps_with_prompts_have_no_floor():
    slow = Overhead(floor_s=0.02, graph_tokens=512)
    short, long = (Prompts(each_s=0.001, alone_s=0.001, tokens=n) for n in (500, 501))
    asked = {"decode_s": 0.005, "overhead": slow}
    assert latency(12, 101, prompts=short, **asked).tpot_s == pytest.approx(0.005 + 11e-5)
    assert latency(12, 101, prompts=long, **asked).tpot_s > 0.006
    # A request more in flight is a token more in each step.
    assert latency(13, 101, prompts=short, **asked).tpot_s > 0.006


def test_a_request_alone_meets_no_step_and_no_other_request():
    front = FrontEnd(alone_s=0.008, token_s=1e-5, beside_s=0.03)
    prompts, one = Prompts(each_s=0.05, alone_s=0.05, length=1000), Overhead(frontend=front)
    alone = latency(1, 101, decode_s=0.01, prompts=prompts, overhead=one)
    assert alone.ttft_s == pytest.approx(0.008 + 0.01 + 0.05)
    # Beside another: half of the front end's 30 ms, its decode step, and what runs when it comes.
    two = latency(2, 101, decode_s=0.01, prompts=prompts, overhead=one)
    assert two.ttft_s - alone.ttft_s > 0.015 + 0.01 + 0.005
    assert front.seconds(1000, float("inf")) == pytest.approx(0.048)
