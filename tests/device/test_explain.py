"""Sentences about the pitfalls of a device."""

from gambrel.device import catalog
from gambrel.device.catalog import load
from gambrel.device.explain import explain, explain_sparsity


def test_every_sparse_peak_is_explained_with_both_ridges():
    assert (
        "matrix fp16: 989.4 TFLOP/s dense (used); 1.979 PFLOP/s with structured sparsity; "
        "ridge point 295 dense, 590.7 sparse, FLOP/byte."
    ) in explain(load("h100-sxm5-80gb"))


def test_without_a_bandwidth_there_is_no_ridge():
    (sentence,) = explain_sparsity(load("cerebras-wse-3"))
    assert sentence.startswith("matrix fp16: 16 PFLOP/s dense (used); 125 PFLOP/s with")


def test_the_accumulator_is_explained():
    assert (
        "matrix fp16: 165.2 TFLOP/s with fp32 accumulation (used); 330.3 TFLOP/s with fp16 "
        "accumulation."
    ) in explain(load("rtx-4090"))


def test_the_often_quoted_figures_are_told_apart():
    text = {name: " ".join(load(name).notes) for name in catalog.index().vendors}
    assert "1,979" in text["h100-sxm5-80gb"]
    assert "275 TOPS" in text["jetson-agx-orin-64gb"]
    assert "8 GB/s" in text["coral-edge-tpu"]
    assert "153 to 156" not in text["h100-sxm5-80gb"]
    assert "153 to 156" in text["a100-sxm4-80gb"]


def test_a_device_without_sparse_figures_needs_no_such_sentence():
    assert explain_sparsity(load("t4")) == ()


def test_notes_are_sentences():
    for device in catalog.list_devices():
        for sentence in explain(device):
            assert sentence[-1] == ".", (device.id, sentence)


def test_rates_that_were_reached_are_set_beside_the_datasheet():
    assert any(
        text.startswith(
            "npu int8: a published run reached 47.5 TFLOP/s, no roof is published (EasyOCR"
        )
        for text in explain(load("snapdragon-8-gen-3"))
    )
    assert any(
        "reached 20.01 TFLOP/s, the datasheet says 20 TFLOP/s" in text
        for text in explain(load("hailo-10h"))
    )
