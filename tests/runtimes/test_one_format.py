"""Runtimes that run a language model in one number format: every face means the same by it."""

from __future__ import annotations

import warnings

import pytest

import gambrel

MODEL = "llama-3-8b"
ASKED = {"phase": "decode", "context": 256}


@pytest.mark.parametrize(
    ("device", "runtime", "precision"),
    [("snapdragon-8-elite", "genie", "int4"), ("rk3588-npu", "rkllm", "int8")],
)
def test_the_default_and_its_name_are_one_question(device, runtime, precision):
    default = gambrel.analyze(MODEL, hardware=device, **ASKED)
    assert (default.runtime, default.model.precision) == (runtime, precision)
    bits = precision.removeprefix("int")
    for name in (precision, f"w{bits}a16"):
        named = gambrel.analyze(MODEL, hardware=device, precision=name, **ASKED)
        assert named.expected_time_s == default.expected_time_s
        assert named.total.traffic_bytes == default.total.traffic_bytes
        assert named.model.precision == precision
        reason = "as asked" if name == precision else f"as asked: {name} is {precision} here"
        assert named.model.precision_reason == reason
    swept = gambrel.sweep(MODEL, [device], precision=precision, phase="decode", context=[256])
    assert float(swept.expected_time_s[0]) == pytest.approx(default.expected_time_s.value)


@pytest.mark.parametrize("device", ["snapdragon-8-elite", "rk3588-npu"])
def test_a_served_step_is_that_of_the_analysis(device):
    plan = gambrel.serve_plan(
        MODEL, hardware=device, input=255, output=2, concurrency=1, max_devices=1
    )
    best, alone = plan.best[0], gambrel.analyze(MODEL, hardware=device, **ASKED)
    assert best.point.precision == alone.model.precision
    assert best.decode.expected_time_s.value == pytest.approx(alone.expected_time_s.value, rel=1e-2)


def test_a_format_that_the_engine_lacks_is_refused():
    plan = gambrel.serve_plan(
        MODEL, hardware="snapdragon-8-elite", input=255, output=2, precision="fp8", max_devices=1
    )
    assert not plan.best
    assert plan.refused[0].reason == "Qualcomm Genie does not read fp8; it takes int4."


@pytest.mark.parametrize("device", ["tpu-v6e", "rk3588-npu"])
def test_a_simulation_warns_of_nothing(device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = gambrel.serve_sim(
            MODEL, hardware=device, input=512, output=64, concurrency=2, max_devices=1
        )
    assert found is not None


@pytest.mark.parametrize(("scheme", "precision"), [("w8a16", "int16"), ("w8a8", "int8")])
def test_schemes_of_compilers_of_npus_are_formats_of_networks(scheme, precision):
    device = "snapdragon-8-gen-3"
    named = gambrel.analyze("resnet50", hardware=device, precision=scheme)
    plain = gambrel.analyze("resnet50", hardware=device, precision=precision)
    assert named.model.precision == precision
    assert named.expected_time_s == plain.expected_time_s


def test_a_runtime_fitted_to_networks_alone_is_no_candidate_for_a_language_model():
    found = gambrel.check(MODEL, hardware="hailo-10h", latency="50ms", **ASKED)
    assert found.runtime == "hailo-genai"
    assert found.verdict.value == "FAIL"


@pytest.mark.parametrize("asked", ["int4", "w4a16"])
def test_mlx_stores_embeddings_in_the_bits_of_the_weights(asked):
    """Qwen3 4B in 4 bits on an M3 Pro: 22.4 ms a token (ml-explore/mlx-lm pull request 1569)."""
    where = {"hardware": "m3-pro", "runtime": "mlx", "phase": "decode", "context": 500}
    whole = "w4a16,block=32,embeddings=int4,head=int4"
    found = gambrel.analyze("qwen3-4b", **where, precision=asked)
    spelled = gambrel.analyze("qwen3-4b", **where, precision=whole)
    assert found.total.expected_time_s == spelled.total.expected_time_s
    assert found.total.expected_time_s.value == pytest.approx(22.4e-3, rel=0.1)
    plan = gambrel.serve_plan(
        "qwen3-4b", "m3-pro", runtime="mlx", precision=asked, input=500, output=10, concurrency=1
    )
    assert plan.best[0].point.precision == whole
    # What names its parts itself is as it was.
    own = gambrel.analyze("qwen3-4b", **where, precision="w4a16,head=bf16")
    assert own.total.expected_time_s.value > found.total.expected_time_s.value
