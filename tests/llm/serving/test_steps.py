"""Decode steps over batches: more requests never take less time, and never absurdly more."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gambrel.analysis.settings import Settings
from gambrel.device.lookup import find
from gambrel.llm.known import spec_of
from gambrel.llm.serving.question import ServingEngine
from gambrel.llm.serving.steps import Setup, decode_times
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
