"""A step of a language model in narrow formats takes as long by itself as within a plan."""

import pytest

import gambrel

CASES = [
    ("llama-3.1-8b", "b200-hgx-180gb", "nvfp4", "vllm"),  # scales of activations are given
    ("llama-3.1-8b", "h100-sxm5-80gb", "fp8", "vllm"),
    ("qwen3-8b", "h100-sxm5-80gb", "fp8,block=128", "sglang"),  # scales of blocks
    ("llama-3.1-8b", "h100-sxm5-80gb", "w4a16", "sglang"),
    ("llama-3.1-8b", "h100-sxm5-80gb", "fp8", "tensorrt-llm"),
    ("qwen3-30b-a3b", "h100-sxm5-80gb", "fp8", "vllm"),  # experts
    ("qwen3-30b-a3b", "h100-sxm5-80gb", "fp8", "tensorrt-llm"),
    ("gpt-oss-20b", "b200-hgx-180gb", None, "vllm"),  # activations in 8 bits
    ("gpt-oss-20b", "h100-sxm5-80gb", None, "vllm"),
    ("llama-2-70b", "mi355x", "mxfp4", "sglang"),  # both in four bits
]


@pytest.mark.parametrize(("model", "device", "precision", "runtime"), CASES)
def test_a_step_alone_is_that_of_a_plan(model, device, precision, runtime):
    asked = {"precision": precision, "runtime": runtime}
    plan = gambrel.serve_plan(
        model, device, input=1024, output=64, concurrency=8, max_devices=1, **asked
    )
    # Half of the answer is there on average.
    alone = gambrel.analyze(model, device, phase="decode", batch_size=8, context=1056, **asked)
    step = plan.best[0].decode
    for name in ("expected_time_s", "roofline_time_s", "sol_time_s"):
        assert getattr(alone, name) == getattr(step, name), name
