"""Tokens that are exchanged between experts are whole bytes for any number of sequences."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.llm.exchange import reached
from gambrel.llm.sharding import Sharding


def test_devices_that_a_token_reaches():
    # Two experts of four devices: 1 + 3/4. Eight of eight devices: 8 (1 - (7/8)^8).
    assert reached(2, 4) == pytest.approx(1.75)
    assert reached(8, 8) == pytest.approx(8 * (1 - (7 / 8) ** 8))


@pytest.mark.parametrize("precision", ["fp8,kv=fp8", "nvfp4,kv=fp8"])
def test_one_request_per_group_of_attention(precision):
    device = "b200" if "nvfp4" in precision else "h200"
    plan = gambrel.serve_plan(
        "deepseek-v3",
        device,
        input=1024,
        output=128,
        precision=precision,
        concurrency=8,
        sharding=Sharding(tensor=8, expert=8, attention_data=8),
    )
    assert plan.best[0].point.batch == 8
