"""Pools of their own for prefill and decode: queueing by hand, and laws."""

from __future__ import annotations

import math

import pytest

import gambrel
from gambrel.errors import InputError

ASKED = {"model": "llama-3.1-8b", "hardware": "h100", "input": 4096, "output": 201}


@pytest.fixture(scope="module")
def loaded():
    return gambrel.serve_split(
        **ASKED, ttft="1s", tpot="20ms", rate="20/s", tensor=1, max_devices=32, prices=2.0
    )


def test_both_pools_carry_the_load_and_one_replica_less_does_not(loaded):
    for pool in (loaded.prefill, loaded.decode):
        count = pool.sharding.data
        assert pool.requests_per_s >= 20
        assert pool.requests_per_s / count * (count - 1) < 20
    assert loaded.tokens_per_s == 20 * 201
    assert loaded.cost_per_million == pytest.approx(2 * loaded.devices / 3600 / 4020 * 1e6)


def test_decode_replicas_hold_what_their_steps_allow(loaded):
    # A request stays for 200 steps.
    one = loaded.decode.requests_per_s / loaded.decode.sharding.data
    assert one == pytest.approx(loaded.decode.batch / (200 * loaded.tpot_s))
    assert loaded.tpot_s <= 0.02


def test_the_queue_by_hand(loaded):
    # The rate b / s of a replica and the wait b s / (2 (1 - b)) give back the service time s.
    one = loaded.prefill.requests_per_s / loaded.prefill.sharding.data
    plan = gambrel.serve_plan(**ASKED, tensor=1, concurrency=1).best[0]
    # w = r s s / (2 (1 - r s)): r s s + 2 w r s - 2 w = 0. Two prompts of 4,096 tokens share a
    # step, which takes about as long for each as one alone.
    w, r = loaded.wait_s, one
    service = (-2 * w * r + math.sqrt(4 * w * w * r * r + 8 * w * r)) / (2 * r)
    assert service == pytest.approx(plan.point.prefill_s, rel=0.03)
    # Keys and values: 32 layers x 2 x 8 heads x 128 x 2 bytes x 4,096 tokens over 450 GB/s.
    assert loaded.transfer_s == pytest.approx(32 * 2 * 8 * 128 * 2 * 4096 / 450e9)
    front = 0.008 + 4096 * 4e-6 + 0.026  # no engine is named: that of the usual one
    assert loaded.ttft_s == pytest.approx(1.0)
    alone = plan.point.prefill_s
    assert w + loaded.transfer_s + alone + front == pytest.approx(1.0)


def test_looser_targets_never_need_more_devices(loaded):
    loose = gambrel.serve_split(
        **ASKED, ttft="2s", tpot="40ms", rate="20/s", tensor=1, max_devices=32
    )
    assert loose.devices <= loaded.devices


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tpot": "20ms"}, "give ttft and tpot, both"),
        ({"ttft": "1ms", "tpot": "20ms"}, "no prefill pool meets TTFT 0.001 s: .* at best"),
        ({"ttft": "1s", "tpot": "1ms"}, "no decode pool meets TPOT 0.001 s: .* at best"),
        ({"ttft": "1s", "tpot": "20ms", "output": 1}, "nothing is decoded"),
        (
            {"ttft": "1s", "tpot": "20ms", "rate": "9000/s"},
            "the pools need more than 8 devices",
        ),
    ],
)
def test_questions_that_cannot_be_answered(more, said):
    with pytest.raises(InputError, match=said):
        gambrel.serve_split(**ASKED | more, tensor=1)
