"""Decode steps against a far simpler model of the same step, written out.

Three constants a class of op: a start, and shares of peak and bandwidth. They are round numbers
from measured kernels, and of measured serving runs such a sum hits dense models within 15 % and
mixtures within 22 % on average. The fuller model must not wander off from it.
"""

from __future__ import annotations

import pytest

import gambrel
from gambrel.llm.known import spec_of
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import Mixture

#: bf16 peak, bandwidth, link one way.
MACHINES = {
    "h100": (989.4e12, 3.35e12, 450e9),
    "h200": (989.4e12, 4.8e12, 450e9),
    "b200": (2250e12, 7.7e12, 900e9),
}
#: Bytes of a weight, of a cached value, factor on the bf16 peak.
FORMATS = {"bf16": (2, 2, 1), "fp8": (1, 1, 2), "nvfp4": (0.5625, 1, 4)}
#: Measured kernels over 8-bit caches fall short of their bandwidth, which the simple sum ignores:
#: where the cache dominates, it is one of 16 bits.
FORMATS["fp8,kv=bf16"] = (1, 2, 2)


def simple_step(name, machine, precision, tensor, batch, context):
    peak, bandwidth, link = MACHINES[machine]
    width, cached, factor = FORMATS[precision]
    peak *= factor

    def product(n, k):
        flops, moved = 2 * batch * n * k, n * k * width + batch * (n + k) * 2
        return 5e-6 + max(flops / (0.55 * peak), moved / (0.80 * bandwidth))

    def small(values):
        return 2.5e-6 + values * 2 / (0.75 * bandwidth)

    spec, seconds = spec_of(name), 0.0
    hidden = spec.hidden
    for group in spec.layers:
        a, f = group.layer.mixer, group.layer.feed_forward
        heads, kv = a.heads // tensor, max(1, a.kv_heads // tensor)
        one = product((heads + 2 * kv) * a.head_dim, hidden) + product(hidden, heads * a.head_dim)
        seen = min(context, a.window or context)
        one += 6e-6 + batch * seen * 2 * kv * a.head_dim * cached / (0.80 * bandwidth)
        one += 2 * small(4 * batch * hidden)
        if isinstance(f, Mixture):
            touched = f.experts * (1 - (1 - f.top_k / f.experts) ** batch)
            moved = touched * 3 * hidden * f.width / tensor * width
            flops = 2 * batch * f.top_k * 3 * hidden * f.width / tensor
            one += 30e-6 + max(flops / (0.35 * peak), moved / (0.80 * bandwidth))
            one += product(f.experts, hidden)
        else:
            one += product(2 * f.width // tensor, hidden) + product(hidden, f.width // tensor)
            one += small(3 * batch * f.width // tensor)
        if tensor > 1:
            payload = batch * hidden * 2
            one += 2 * ((6 + tensor) * 1e-6 + 2 * (tensor - 1) / tensor * payload / (0.75 * link))
        seconds += group.count * one
    head = spec.vocab // tensor * hidden * 2 / (0.80 * bandwidth)
    return seconds + 5e-6 + head


def planned_step(name, machine, precision, tensor, batch, context, runtime):
    """The decode step of a plan; prompts are so short that the context is that of the answer."""
    found = gambrel.serve_plan(
        name,
        machine,
        input=context - 64,
        output=128,
        precision=precision,
        sharding=Sharding(tensor=tensor),
        concurrency=batch,
        runtime=runtime,
        max_devices=tensor,
        host="1ns",
        layouts=1,
    )
    point = found.best[0].point
    return point.tpot_s - point.interference_s


@pytest.mark.parametrize("runtime", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize(
    ("name", "machine", "precision", "tensor", "batch", "context"),
    [
        ("llama-3.1-8b", "h100", "bf16", 1, 1, 1500),
        ("llama-3.1-8b", "h100", "fp8", 1, 16, 1500),
        ("llama-3.1-8b", "h200", "fp8,kv=bf16", 1, 64, 1500),
        ("llama-3.1-70b", "h100", "fp8", 2, 16, 1500),
        ("llama-3.1-70b", "h100", "fp8", 8, 16, 1500),
        ("llama-3.1-70b", "h200", "fp8", 4, 64, 5000),
        ("llama-3.1-70b", "b200", "fp8", 8, 64, 1500),
        ("llama-3.1-70b", "b200", "nvfp4", 4, 64, 1500),
        ("qwen3-32b", "h100", "fp8", 1, 8, 1500),
        ("qwen3-32b", "h200", "fp8", 4, 32, 5000),
    ],
)
def test_dense(name, machine, precision, tensor, batch, context, runtime):
    simple = simple_step(name, machine, precision, tensor, batch, context)
    found = planned_step(name, machine, precision, tensor, batch, context, runtime)
    assert found == pytest.approx(simple, rel=0.25)


@pytest.mark.parametrize("runtime", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize(
    ("name", "machine", "tensor", "batch"),
    [
        ("qwen3-235b-a22b", "h200", 8, 32),
        ("qwen3-235b-a22b", "b200", 4, 64),
        ("minimax-m2", "h200", 4, 32),
        ("minimax-m2", "b200", 8, 128),
    ],
)
def test_mixtures(name, machine, tensor, batch, runtime):
    simple = simple_step(name, machine, "fp8", tensor, batch, 1500)
    found = planned_step(name, machine, "fp8", tensor, batch, 1500, runtime)
    assert found == pytest.approx(simple, rel=0.35)
