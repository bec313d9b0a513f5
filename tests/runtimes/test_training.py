"""Runtimes that run trained models alone run no training step."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.advise.changes import case_of
from gambrel.analysis.analyze import Settings, analyze
from gambrel.capture import zoo
from gambrel.device.lookup import find
from gambrel.runtimes import candidates, choose, on_device


def test_what_a_training_step_runs_under() -> None:
    a100 = find("a100-sxm4-80gb").device
    trains = {r.id for r in candidates(a100, training=True)}
    assert "pytorch" in trains
    assert not trains & {"tensorrt", "onnxruntime-cuda"}
    assert {"tensorrt", "onnxruntime-cuda"} <= {r.id for r in on_device(a100)}
    jetson = find("jetson-agx-orin-64gb").device
    assert choose(jetson).runtime.id == "tensorrt"
    assert choose(jetson, training=True).runtime.id == "pytorch"
    with pytest.raises(gambrel.InputError, match="TensorRT runs no training steps; choose from"):
        choose(a100, "tensorrt", training=True)


@pytest.mark.torch
def test_no_face_advises_or_takes_one_that_does_not_train() -> None:
    pytest.importorskip("torch")
    from gambrel.capture.torch import ensure_torchvision

    if not ensure_torchvision():
        pytest.skip("torchvision is not installed")
    asked = {"model": "resnet18", "hardware": "a100", "train": True, "batch_size": 8}
    found = gambrel.analyze(**asked)
    assert found.runtime == "pytorch"
    assert not any("tensorrt" in r.change or "onnx" in r.change for r in found.recommend())
    assert not {t.runtime for t in gambrel.check(**asked, latency="1s").tried} & {"tensorrt"}
    for ask in (gambrel.analyze, gambrel.compare, gambrel.check):
        more = {"latency": "1s"} if ask is gambrel.check else {}
        with pytest.raises(gambrel.InputError, match="TensorRT runs no training steps"):
            ask(**asked, **more, runtime="tensorrt")
    with pytest.raises(gambrel.InputError, match="TensorRT runs no training steps"):
        found.with_change("runtime=tensorrt")


def test_inference_is_as_before() -> None:
    found = analyze(zoo.load("resnet18"), find("a100-sxm4-80gb").device, Settings())
    assert "tensorrt" in {r.id for r in candidates(found.hardware)}
    assert case_of(found).runtime.id == "pytorch"
