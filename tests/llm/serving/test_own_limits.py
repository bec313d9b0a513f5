"""Limits of a step that engines set by themselves, by device."""

from __future__ import annotations

import pytest

import gambrel

_ASKED = {"input": 4000, "output": 100, "precision": "bf16", "max_devices": 1}


def _engine(device: str, runtime: str, **more):
    found = gambrel.serve_plan("llama-3.1-8b", device, runtime=runtime, **_ASKED | more)
    return found.engine


@pytest.mark.parametrize(
    ("runtime", "device", "tokens"),
    [
        ("vllm", "h100", 8192),
        ("vllm", "a100-sxm4-80gb", 2048),
        ("vllm", "l40s", 2048),
        ("sglang", "l4", 2048),
        ("sglang", "l40s", 4096),
        ("sglang", "a100-sxm4-80gb", 8192),
        ("sglang", "b200", 16384),
        ("tensorrt-llm", "l40s", 8192),
    ],
)
def test_tokens_of_a_step_are_those_of_the_engine_on_the_device(runtime, device, tokens):
    """They follow the memory, and in vLLM the name of the card."""
    assert _engine(device, runtime).step_tokens == tokens


def test_what_is_asked_for_comes_first():
    """A limit that was given is kept on every device."""
    assert _engine("a100-sxm4-80gb", "vllm", step_tokens=4096).step_tokens == 4096


def test_a_batch_job_and_a_deployment_have_limits_of_their_own():
    """The class LLM takes more tokens; a command line that says nothing has 256 requests."""
    job = gambrel.serve_sim(
        "llama-3.1-8b", "a100-sxm4-80gb", runtime="vllm", arrivals="offline", requests=8, **_ASKED
    )
    assert any("8,192 tokens per step" in said for said in job.assumptions)
    started = gambrel.serve_sim(
        hardware="a100-sxm4-80gb",
        config="vllm serve meta-llama/Llama-3.2-1B-Instruct",
        input=128,
        output=64,
        requests=400,
        concurrency=400,
    )
    assert 200 < max(started.outcome.activity.running) <= 256
    assert any("2,048 tokens per step" in said for said in started.assumptions)
