"""A default that is named changes nothing: precision, runtime, batch and sizes."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.device.lookup import find
from gambrel.device.roofs import default_precision

MODELS = ("gpt2", "resnet50", "bert-base")
DEVICES = ("rtx-3090", "a100", "jetson-orin-nano", "epyc-9654")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_the_default_precision(model, device):
    own = default_precision(find(device).device)[0]
    plain = gambrel.check(model, hardware=device, latency="10s")
    named = gambrel.check(model, hardware=device, latency="10s", precision=own)
    assert plain.precision == named.precision == own
    assert plain.runtime == named.runtime
    values = [r.constraints[0].figure.value for r in (plain, named)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_the_answer_of_analyze_named_in_full(model, device):
    plain = gambrel.analyze(model, device)
    sizes = dict(plain.model.symbols)
    batch = sizes.pop("batch")
    named = gambrel.analyze(
        model,
        device,
        batch_size=batch,
        precision=plain.model.precision,
        runtime=plain.runtime,
        sizes=sizes,
    )
    assert named.expected_time_s == plain.expected_time_s
    assert named.sol_time_s == plain.sol_time_s
    assert named.footprint.total_bytes == plain.footprint.total_bytes


@pytest.mark.parametrize("runtime", ["llama-cpp", "vllm"])
def test_an_engine_loads_a_checkpoint_of_32_bits_in_16(runtime):
    plain = gambrel.analyze("gpt2", "rtx-3090", runtime=runtime)
    assert plain.model.precision == "fp16"
    assert (
        gambrel.serve_plan("gpt2", hardware="rtx-3090", input=500, output=100)
        .best[0]
        .point.precision
        == "fp16"
    )
    wide = gambrel.analyze("gpt2", "rtx-3090", runtime=runtime, precision="fp32")
    assert wide.expected_time_s.value > 1.5 * plain.expected_time_s.value
