"""Which formats a runtime takes is one answer, whoever is asked."""

from __future__ import annotations

import re

import pytest

import gambrel
from gambrel.errors import GambrelError, InputError

SERVED = {"input": 512, "output": 64, "max_devices": 1}


def refusal(ask):
    try:
        ask()
    except GambrelError as error:
        return str(error)
    return ""


def refused_plan(device, asked):
    """Why there is no plan: a sentence, or the only refusal."""
    try:
        plan = gambrel.serve_plan("llama-3.1-8b", hardware=device, **SERVED, **asked)
    except GambrelError as error:
        return str(error)
    return "" if plan.best else plan.refused[0].reason


@pytest.mark.parametrize("precision", ["q4_0", "q4_k_m", "awq", "w4a16", "fp8"])
@pytest.mark.parametrize(
    ("device", "runtime"),
    [
        ("tpu-v5e", None),
        ("rtx-4090", None),
        ("h100", "vllm"),
        ("h100", "tensorrt-llm"),
        ("h100", "tensorrt"),
        ("rk3588", None),
    ],
)
def test_plans_refuse_what_an_analysis_refuses(device, runtime, precision):
    asked = {"precision": precision, "runtime": runtime}
    one = refusal(lambda: gambrel.analyze("llama-3.1-8b", device, phase="decode", **asked))
    checked = refusal(
        lambda: gambrel.check(
            "llama-3.1-8b", hardware=device, phase="decode", latency="1s", **asked
        )
    )
    assert bool(one) == bool(checked), (one, checked)
    if one:
        assert refused_plan(device, asked)
    else:
        assert gambrel.serve_plan("llama-3.1-8b", hardware=device, **SERVED, **asked)


def test_a_plan_names_the_engines_in_one_sentence():
    with pytest.raises(InputError, match=r"runs no phases .* choose from .*sglang.*vllm on h100"):
        gambrel.serve_plan("llama-3.1-8b", hardware="h100", runtime="tensorrt", **SERVED)
    several = gambrel.serve_plan(
        "llama-3.1-8b",
        hardware=["h100", "rtx-4090"],
        runtime="tensorrt",
        **SERVED | {"max_devices": 8},
    )
    assert [r.device for r in several.refused] == ["h100-sxm5-80gb", "rtx-4090"]


@pytest.mark.parametrize("precision", ["awq", "gptq", "awq,kv=fp8"])
@pytest.mark.parametrize("device", ["rtx-4090", "rtx-3090", "jetson-orin-nano", "h100"])
def test_checkpoints_of_4_bits_go_to_an_engine_that_reads_them(device, precision):
    found = gambrel.analyze("llama-3.1-8b", device, phase="decode", precision=precision)
    assert found.runtime == "vllm"


@pytest.mark.parametrize("precision", ["fp8", "int8", "fp4", "int4", "w4a16"])
@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile"])
def test_formats_without_kernels_are_of_low_confidence(runtime, precision):
    asked = {"phase": "decode", "runtime": runtime, "batch_size": 2}
    wide = gambrel.analyze("llama-3.1-8b", "rtx-4090", precision="fp16", **asked).expected_time_s
    found = gambrel.analyze("llama-3.1-8b", "rtx-4090", precision=precision, **asked)
    expected = found.expected_time_s
    assert wide.confidence == "medium"
    assert expected.confidence == "low"
    assert "no kernels of its own" in expected.reason
    assert expected.high > wide.high  # where weights are unpacked, 16 bits are what is multiplied


@pytest.mark.parametrize(
    ("device", "precision", "sure"),
    [("h100", "fp8", True), ("a100", "fp8", False), ("a100", "int8", True)],
)
def test_tensorrt_has_kernels_where_the_device_has_a_rate(device, precision, sure):
    found = gambrel.analyze("resnet50", device, runtime="tensorrt", precision=precision)
    assert (found.expected_time_s.confidence != "low") is sure


def test_a_sweep_takes_the_layers_of_the_runtime_of_the_format():
    asked = {"phase": "decode", "precision": "q4_0", "batch_size": 1, "context": 2048}
    one = gambrel.analyze("llama-3.1-8b", "rtx-4090", **asked)
    many = gambrel.sweep("llama-3.1-8b", hardware="rtx-4090", **asked)
    assert float(many.expected_time_s[0]) == pytest.approx(one.expected_time_s.value, rel=1e-9)


def test_an_engine_that_reserves_memory_says_so_and_others_take_all():
    """Mixtral in int4: 23.0 GiB of 24 GiB, of which vLLM takes 21.6."""
    asked = {"precision": "int4", "phase": "decode"}
    served = gambrel.analyze("mixtral-8x7b", "rtx-3090", runtime="vllm", **asked)
    assert any(re.search(r"takes 90.0% of 24 GiB by default", w) for w in served.warnings)
    plain = gambrel.analyze("mixtral-8x7b", "rtx-3090", runtime="llama-cpp", **asked)
    assert plain.footprint.fits
    assert not plain.warnings
    plan = {"hardware": "rtx-3090", "precision": "int4", **SERVED}
    no = gambrel.serve_plan("mixtral-8x7b", runtime="vllm", **plan)
    assert "90.0% of 24 GiB; --utilization" in no.refused[0].reason
    small = plan | {"input": 256, "step_tokens": 512}
    assert gambrel.serve_plan("mixtral-8x7b", runtime="llama-cpp", **small).best


def test_a_compiler_unpacks_weights_as_it_reads_them_for_one_row():
    def asked(batch: int, runtime: str = "torch-compile-graph"):
        return gambrel.analyze(
            "llama-2-7b",
            "a100-sxm4-80gb",
            runtime=runtime,
            precision="w8a16",
            phase="decode",
            batch_size=batch,
            context=105,
        ).total.expected_time_s

    one, several, eager = asked(1), asked(8), asked(1, "pytorch-graph")
    assert "no kernels of its own" not in one.reason
    assert one.confidence == "low"
    assert one.high < 2 * one.value
    assert "no kernels of its own" in several.reason
    assert "no kernels of its own" in eager.reason
