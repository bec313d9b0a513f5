"""Decode steps over batches: more requests never take less time, and never absurdly more."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gambrel
from gambrel.analysis.settings import Settings
from gambrel.device.lookup import find
from gambrel.llm.known import spec_of
from gambrel.llm.serving.question import Requests, ServingEngine
from gambrel.llm.serving.simulate import limits_of
from gambrel.llm.serving.steps import Setup, decode_times, memory
from gambrel.llm.sharding import Sharding
from gambrel.llm.topology import topology_for

BATCHES = [*range(1, 700), 768, 1000, 1024, 1025, 2000, 2048, 4096, 5000, 8192]


def setup(model, device, runtime, precision, tensor):
    spec, found = spec_of(model), find(device).device
    node = topology_for(found)
    return Setup(
        spec=spec,
        device=found,
        placed=node.place(found, tensor, tensor),
        topology=node,
        sharding=Sharding(tensor=tensor),
        precisions=spec.precisions(precision),
        engine=ServingEngine(),
        settings=Settings(runtime=runtime),
        built={},
    )


@pytest.mark.parametrize(
    ("device", "runtime"),
    [
        *product(["h100", "h200", "b200", "a100", "l40s"], ["vllm", "sglang", "tensorrt-llm"]),
        *product(["mi300x"], ["vllm", "sglang"]),
    ],
)
@pytest.mark.parametrize(
    ("model", "precision", "tensor"),
    [
        ("llama-3.1-8b", "fp8", 1),
        ("llama-3.1-70b", "bf16", 8),
        ("qwen3-30b-a3b", "nvfp4", 1),
        ("gpt-oss-120b", None, 8),
        ("deepseek-v3", None, 8),
    ],
)
def test_a_step_never_gets_shorter_as_the_batch_grows(model, device, runtime, precision, tensor):
    found = decode_times(setup(model, device, runtime, precision, tensor), 1024, BATCHES)
    assert (np.diff(found.expected) >= -1e-12 * found.expected[1:]).all()
    assert (np.diff(found.sol) >= 0).all()
    assert (found.sol <= found.expected).all()


@pytest.mark.parametrize("model", ["gpt-oss-120b", "minimax-m2", "qwen3-235b-a22b"])
def test_experts_of_four_bits_keep_their_throughput(model):
    # Scales are stored beside the weights, whose rows stay multiples of 16 bytes.
    found = decode_times(setup(model, "b200", "vllm", "nvfp4", 1), 1024, [128, 192])
    assert 192 / found.expected[1] > 0.9 * 128 / found.expected[0]


def test_sglang_divides_its_memory_between_states_and_cache():
    """Five states a request in 47.4 % of what is left; half of the requests that one pool holds."""
    requests = Requests(input_tokens=8192, output_tokens=1024)
    divided = setup("qwen3.5-35b-a3b", "h200", "sglang", "fp8", 1)
    pooled = setup("qwen3.5-35b-a3b", "h200", "vllm", "fp8", 1)
    found, other = memory(divided, requests), memory(pooled, requests)
    state = 30 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert found.max_sequences == int(found.free_bytes * 0.474 // (5 * state))
    assert found.max_sequences < other.max_sequences / 2
    limits = limits_of(divided)
    assert limits.most == int(limits.cache_bytes / 0.526 * 0.474 // (5 * state))
    assert limits.request_bytes < state


def test_a_model_without_states_has_one_pool():
    requests = Requests(input_tokens=8192, output_tokens=1024)
    divided = setup("qwen3-32b", "h200", "sglang", "fp8", 1)
    pooled = setup("qwen3-32b", "h200", "vllm", "fp8", 1)
    assert memory(divided, requests) == memory(pooled, requests)


@pytest.mark.parametrize(
    ("model", "device", "compute"),
    [
        ("llama-2-70b", "mi355x", "mxfp4"),  # AMD's checkpoints quantize activations too
        ("gpt-oss-120b", "mi355x", "fp8"),
        ("llama-2-70b", "b200", "fp8"),
        ("llama-2-70b", "mi300x", "bf16"),
    ],
)
def test_what_meets_weights_in_mxfp4(model, device, compute):
    found = gambrel.analyze(model, device, phase="decode", precision="mxfp4", runtime="vllm")
    formats = {
        work.dtype
        for op in found.ops
        if op.name.endswith(("gate_up_proj", "down_proj"))
        for work in op.measures.work
        if work.engine == "matrix"
    }
    assert formats == {compute}


def test_four_bits_on_cdna_4_have_their_own_constants():
    fast, slow = (
        decode_times(setup("llama-2-70b", "mi355x", "vllm", precision, 1), 440, [2048]).expected[0]
        for precision in ("fp4", "fp8")
    )
    assert 0.4 < fast / slow < 0.75
