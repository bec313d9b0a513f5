"""Narrower formats under the runtimes that take them, and engines that nothing was measured of."""

import pytest
from scripts.sweeps.narrow_formats import narrower

import gambrel


@pytest.mark.parametrize("device", ["h100", "b200", "mi300x"])
@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile"])
def test_fp8_that_is_stored_pays_for_no_quantisation(device, runtime):
    def time(precision):
        found = gambrel.analyze(
            "bert-large", device, batch_size=64, precision=precision, runtime=runtime
        )
        return found.expected_time_s.value

    assert time("fp8") < time("fp16")
    assert time("fp8") == pytest.approx(time("int8"), rel=0.05)  # the same peak and bytes


def test_an_engine_that_serves_language_models_quantises_as_it_goes():
    sizes = {"batch_size": 1, "phase": "prefill", "precision": "fp8"}
    as_it_goes = gambrel.analyze("llama-3.2-1b", "h100", runtime="vllm", **sizes)
    beforehand = gambrel.analyze("llama-3.2-1b", "h100", runtime="pytorch-graph", **sizes)
    products = [
        sum(op.measures.expected_time_s.value for op in found.ops if op.kind == "matmul")
        for found in (as_it_goes, beforehand)
    ]
    assert products[0] > products[1]


@pytest.mark.parametrize("model", ["resnet50", "bert-large"])
def test_no_narrower_format_is_slower(model):
    assert [text for text, _ in narrower(model, ("h100", "l4", "t4")) if text] == []


def test_nothing_is_expected_of_an_accelerator_beside_a_gpu():
    found = gambrel.analyze("resnet50", "jetson-agx-orin", engine="dla", precision="int8")
    assert found.expected_time_s is None
    assert found.limited_by is None
    assert found.roofline_time_s > 0
