"""An engine run event by event: hand arithmetic with constant step times, and laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.errors import InputError
from gambrel.llm.serving.arrivals import Lengths, burst, poisson
from gambrel.llm.serving.question import Target
from gambrel.llm.serving.replica import Limits, Replica
from gambrel.llm.serving.simulate import closed_loop, outcome, simulate
from gambrel.llm.serving.timer import StepTimes, Tables
from gambrel.llm.serving.timing import Overhead, Prompts, latency
from gambrel.runtimes import FrontEnd


def times(decode_s=0.01, token_s=1e-4, floor_s=0.0, graph_tokens=0):
    """Every decode step takes the same, prompts a time for each token, attention nothing."""
    ends = np.array([1.0, 100_000.0])
    return StepTimes(
        Tables(
            batches=ends,
            contexts=ends,
            decode_s=np.full((2, 2), decode_s),
            tokens=ends,
            linear_s=ends * token_s,
            before=np.array([0.0, 100_000.0]),
            attention_s=np.zeros((2, 2)),
            overhead=Overhead(floor_s=floor_s, graph_tokens=graph_tokens),
            groups=1,
        )
    )


def limits(**more):
    plain = {"cache_bytes": 1e9, "token_bytes": 1.0, "request_bytes": 0.0, "most": 1000}
    return Limits(**{**plain, "step_tokens": 8192, **more})


def ran(requests, engine=None, **more):
    one = Replica(engine or times(), limits(**more))
    for request in requests:
        one.run(request[0])
        one.offer(request)
    one.run()
    return one


def test_one_request_by_hand():
    # 1,000 tokens take 0.1 s, and 49 further tokens 10 ms each; the front end 20 ms.
    one = ran([(5.0, 1000, 50)], frontend=FrontEnd(alone_s=0.02))
    assert one.ttft[0] == pytest.approx(0.12)
    assert one.tpot[0] == pytest.approx(0.01)
    assert one.total[0] == pytest.approx(0.12 + 0.49)


def test_times_in_the_front_end_differ_around_their_mean():
    # 400 requests, each done before the next: what is not the prompt's 10 ms is the front end.
    one = Replica(times(), limits(frontend=FrontEnd(alone_s=0.05)), seed=3)
    for i in range(400):
        one.offer((10.0 * i, 100, 1))
    one.run()
    before = np.array(one.ttft) - 0.01
    assert before.mean() == pytest.approx(0.05, rel=0.15)
    assert before.std() == pytest.approx(0.05, rel=0.2)
    again = ran([(10.0 * i, 100, 1) for i in range(3)], frontend=FrontEnd(alone_s=0.05))
    assert list(again.ttft) == pytest.approx([0.06] * 3)


def test_a_prompt_in_chunks_by_hand():
    # Chunks of 400, 400 and 200 tokens: three steps of 40, 40 and 20 ms, each 30 ms by the floor.
    one = ran([(0.0, 1000, 1)], times(floor_s=0.03), step_tokens=400)
    assert one.ttft[0] == pytest.approx(0.04 + 0.04 + 0.03)
    assert np.isnan(one.tpot[0])


def test_a_second_prompt_delays_the_first_answer_by_hand():
    # The first prompt ends at 0.1 s. The second comes during the step that ends at 0.13 s; its
    # prompt shares a step with one decode: 0.11 s. So 3 + 1 + 5 steps for nine tokens.
    one = ran([(0.0, 1000, 10), (0.125, 1000, 10)])
    assert one.total[0] == pytest.approx(0.1 + 9 * 0.01 + 0.1)
    assert one.ttft[1] == pytest.approx(0.13 + 0.11 - 0.125)


def test_a_full_cache_preempts_the_last_that_came():
    # Two requests of 100 + 50 tokens in a cache of 250: both fit at first (202), and no longer at
    # 252. The second is computed again: 100 + what it had written, when the first is through.
    one = ran([(0.0, 100, 50), (0.0, 100, 50)], cache_bytes=250.0)
    assert one.preemptions == 1
    # The first is never stopped: the two prompts in one step of 20 ms, and 49 tokens.
    assert one.total[0] == pytest.approx(0.02 + 0.49)
    # The second had 25 of its tokens; it computes 125 tokens again in 12.5 ms, which gives one
    # more, and then 24.
    assert one.total[1] == pytest.approx(0.51 + 0.0125 + 0.24)
    assert one.ttft[1] == pytest.approx(0.02)


def test_an_engine_that_reserves_answers_preempts_nobody():
    # The same two requests: the second waits until the first is through (0.01 + 0.49 s).
    one = ran([(0.0, 100, 50), (0.0, 100, 50)], cache_bytes=250.0, reserves=True)
    assert one.preemptions == 0
    assert one.total[0] == pytest.approx(0.01 + 0.49)
    assert one.ttft[1] == pytest.approx(0.50 + 0.01)
    # With room for both ends they run together.
    both = ran([(0.0, 100, 50), (0.0, 100, 50)], cache_bytes=300.0, reserves=True)
    assert both.ttft[1] == pytest.approx(0.02)


def test_a_long_answer_takes_as_long_as_its_steps():
    # Steps grow faster than the context; whole answers are taken in few blocks of steps.
    contexts = np.array([1.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 6400.0])
    curve = np.tile(0.01 + 1e-9 * contexts**2, (2, 1))
    engine = StepTimes(replace(times().tables, contexts=contexts, decode_s=curve))
    one = ran([(0.0, 100, 4000)] * 3, engine)
    prompts = 0.03
    steps = sum(engine.decode(3, 100 + i) for i in range(1, 4000))
    assert one.total[0] == pytest.approx(prompts + steps, rel=1e-3)
    # The line between the first two contexts alone would say a third less.
    first = (engine.decode(3, 200) - engine.decode(3, 100)) / 100
    line = sum(engine.decode(3, 100) + first * i for i in range(1, 4000))
    assert line < 0.7 * steps


def test_a_request_beyond_the_cache_is_refused():
    with pytest.raises(InputError, match="needs 1 KiB of cache, and a replica has"):
        ran([(0.0, 1000, 24)], cache_bytes=1000.0)


def test_a_prefix_cache_takes_its_share():
    assert ran([(0.0, 1000, 2)], cached_share=0.75).ttft[0] == pytest.approx(0.025)


def test_a_burst_is_the_closed_form():
    # The engine takes eight prompts of 1,000 tokens in a step, so that they share their wait.
    requests = burst(Lengths(input_tokens=8192, output_tokens=200), 10, 0)
    run = simulate(times(), limits(step_tokens=8192 + 20), requests)
    prompts = Prompts(each_s=0.8192, alone_s=0.8192)
    form = latency(10, 200, decode_s=0.01, prompts=prompts, arrivals="burst")
    assert run.ttft.mean_s == pytest.approx(form.ttft_s, rel=0.02)
    assert run.tpot.mean_s == pytest.approx(form.tpot_s, rel=0.02)


@pytest.mark.parametrize(("slots", "floor_s"), [(8, 0.0), (32, 0.0), (32, 0.05)])
def test_a_closed_loop_is_near_the_closed_form(slots, floor_s):
    lengths = Lengths(input_tokens=500, output_tokens=300, least=0.8)
    run = closed_loop(times(floor_s=floor_s), limits(), lengths.draw(20 * slots, 0), slots=slots)
    prompts = Prompts(each_s=0.045, alone_s=0.045)
    form = latency(slots, 270, decode_s=0.01, prompts=prompts, overhead=Overhead(floor_s=floor_s))
    assert run.tpot.mean_s == pytest.approx(form.tpot_s, rel=0.08)
    assert run.requests_per_s == pytest.approx(form.requests_per_s, rel=0.08)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=30
    ),
    st.integers(400, 2000),
    st.integers(1, 40),
    st.integers(50, 500),
)
def test_every_request_is_served_once_and_in_order(requests, cache, most, step_tokens):
    requests.sort()
    one = ran(requests, cache_bytes=float(cache), most=most, step_tokens=step_tokens + most)
    assert sorted(one.came) == sorted(r[0] for r in requests)
    assert sorted(one.outputs) == sorted(r[2] for r in requests)
    # No request is faster than alone, and the work of all is done by the device.
    for came, ttft, total, output in zip(one.came, one.ttft, one.total, one.outputs, strict=True):
        shortest = min(r[1] for r in requests if r[0] == came) * 1e-4
        assert ttft >= shortest * (1 - 1e-9)
        assert total >= ttft + (output - 1) * 0.01 - 1e-9
    line = one.timeline
    tokens = sum(r[2] for r in requests)
    assert line.column("tokens").sum() >= tokens * (1 - 1e-9)
    if not one.preemptions:
        assert line.column("tokens").sum() == pytest.approx(tokens)
    assert line.column("busy_s").sum() <= one.now + 1e-9


def test_more_replicas_are_never_slower():
    lengths = Lengths(input_tokens=500, output_tokens=100, least=0.5)
    runs = [
        simulate(times(), limits(), poisson(lengths, 15, 400, 1), replicas=n) for n in (1, 2, 4)
    ]
    assert runs[0].ttft.p99_s > runs[1].ttft.p99_s > runs[2].ttft.p99_s
    assert runs[0].tpot.p50_s > runs[1].tpot.p50_s > runs[2].tpot.p50_s


def test_goodput_counts_requests_that_meet_both():
    one = ran([(0.0, 1000, 11), (0.0, 1000, 11), (10.0, 1000, 11)])
    # The first two share a prefill step of 0.2 s; the third is alone: 0.1 s.
    run = outcome([one], Target(ttft_s=0.15, tpot_s=0.02))
    assert run.attained == pytest.approx(1 / 3)
    assert run.goodput_per_s == pytest.approx(1 / 10.2)
    assert run.tokens_per_s == pytest.approx(33 / 10.2)


def test_rates_of_random_requests():
    lengths = Lengths(input_tokens=10, output_tokens=20, least=0.5)
    found = list(poisson(lengths, 50.0, 20_000, 3))
    assert found[-1][0] == pytest.approx(400, rel=0.03)
    assert {n for _, n, _ in found} == set(range(5, 11))
    assert found == list(poisson(lengths, 50.0, 20_000, 3))


def test_short_steps_with_prompts_are_replayed_as_graphs():
    # 400 tokens take 40 ms, or 100 ms where every kernel is launched.
    for most, ttft in ((0, 0.1), (399, 0.1), (400, 0.04)):
        one = ran([(0.0, 400, 1)], times(floor_s=0.1, graph_tokens=most))
        assert one.ttft[0] == pytest.approx(ttft)
