"""Tables of step times against the analysis of the same steps."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gambrel
from gambrel.errors import InputError

MODEL, DEVICE = "llama-3.1-8b", "h100"


@pytest.fixture(scope="module")
def timer():
    return gambrel.StepTimer(MODEL, DEVICE, "vllm", longest=32_768)


def planned(batch=1, **sizes):
    """The plan of one device, with the analyses of its steps."""
    return gambrel.serve_plan(MODEL, DEVICE, concurrency=batch, tensor=1, **sizes).best[0]


@pytest.mark.parametrize(("batch", "context"), [(1, 1000), (37, 3000), (256, 777)])
def test_decode_is_the_analysis_and_the_host(timer, batch, context):
    host_s = 1.44e-3 + 1.1e-5 * batch
    found = planned(batch, input=context - 1, output=2)
    assert found.point.batch == batch
    exact = found.decode.expected_time_s.value
    assert timer.decode(batch, context) - host_s == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("length", [600, 1500, 7777])
def test_prefill_is_the_analysis(timer, length):
    exact = planned(input=length, output=2).prefill.expected_time_s.value
    assert timer.chunks(length) == pytest.approx(exact, rel=0.03)


def test_steps_add_up(timer):
    contexts = [500, 1500, 4000]
    prompts = timer.chunks([2000, 3000], [0, 1000])
    assert timer.mixed([2000, 3000], contexts, [0, 1000]) == pytest.approx(
        timer.decode(3, contexts) + prompts
    )
    assert timer.prefill(513) == timer.prefill([513]) == pytest.approx(32 * 0.63e-3)
    assert timer.prefill(1) == timer.prefill([1]) < 16 * 0.63e-3  # replayed as graphs
    # Attention grows evenly with the context: a step is that of the mean.
    assert timer.decode(3, contexts) == pytest.approx(timer.decode(3, 2000), rel=1e-3)
    # Two prompts in one step take less than one after the other, more than one of them.
    assert timer.chunks(3000) < timer.chunks([3000, 3000]) <= 2.001 * timer.chunks(3000)


def test_many_steps_at_once(timer):
    batches, contexts = np.array([1, 8, 300]), np.array([100, 5000, 900])
    one = [timer.decode(int(b), float(c)) for b, c in zip(batches, contexts, strict=True)]
    assert timer.decodes(batches, contexts) == pytest.approx(one)
    assert timer.prefills([100, 3000], [0, 512]) == pytest.approx(
        [timer.prefill(100, 0), timer.prefill(3000, 512)]
    )


def test_a_pickled_timer_is_the_same(timer):
    again = pickle.loads(pickle.dumps(timer))
    assert again.mixed([512], [100, 200]) == timer.mixed([512], [100, 200])
    assert (
        repr(again)
        == repr(timer)
        == "StepTimer(llama-3.1-8b on 1 x h100-sxm5-80gb, 1 device, vllm)"
    )


def test_more_devices_are_faster():
    split = gambrel.StepTimer(MODEL, DEVICE, "vllm", {"tensor": 4}, longest=8192)
    alone = gambrel.StepTimer(MODEL, DEVICE, "vllm", longest=8192)
    assert split.chunks(4096) < alone.chunks(4096)
    assert split.decode(64, 2000) < alone.decode(64, 2000)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: t.decode(0, 10), "at least 1 request"),
        (lambda t: t.decode(2, [10]), "1 of them for 2 requests"),
        (lambda t: t.decode(1, 40_000), "40000 tokens; the table holds requests of 1 to 32,768"),
        (lambda t: t.prefill(0), "0 tokens"),
        (lambda t: t.prefill([]), "at least one chunk"),
        (lambda t: t.prefill([10], [40_000]), "40010 tokens"),
        (lambda t: t.prefill([10, 10], [1, 2, 3]), "3 of them for 2 lengths"),
    ],
)
def test_steps_that_cannot_be(timer, call, said):
    with pytest.raises(InputError, match=said):
        call(timer)


def test_without_an_engine_every_answer_is_the_mean_of_the_same_engines():
    unnamed = gambrel.StepTimer(MODEL, DEVICE, longest=32_768)
    named = [
        gambrel.StepTimer(MODEL, DEVICE, engine, longest=32_768)
        for engine in ("vllm", "sglang", "tensorrt-llm")
    ]
    each = [t.decode(64, 4096) for t in named]
    assert unnamed.decode(64, 4096) == pytest.approx(np.mean(each), rel=1e-3)
    assert min(each) < 0.995 * unnamed.decode(64, 4096)
    asked = {"input": 4095, "output": 2, "tensor": 1}
    plan = gambrel.serve_plan(MODEL, DEVICE, concurrency=64, **asked).best[0].point
    step = plan.tpot_s - plan.interference_s
    assert unnamed.decode(64, 4096) == pytest.approx(step, rel=0.01)
    run = gambrel.serve_sim(MODEL, DEVICE, concurrency=1, requests=2, replicas=1, **asked)
    apart = gambrel.serve_split(MODEL, DEVICE, ttft="1s", tpot="30ms", **asked)
    names = ("vllm", "sglang", "tensorrt-llm")
    assert unnamed.mean_of == plan.mean_of == run.mean_of == apart.mean_of == names
    assert any("no serving engine is named" in said for said in run.assumptions)
    assert any("no serving engine is named" in said for said in apart.assumptions)
