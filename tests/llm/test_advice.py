"""Advice on checkpoints with number formats part by part, with their options."""

from __future__ import annotations

import pytest

import gambrel

MODELS = ("deepseek-v3", "gpt-oss-20b", "minimax-m2")
DEVICES = ("h100", "h200", "b200", "a100", "mi300x", "jetson-orin-agx", "tpu-v5e")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_every_device_gets_advice(model, device):
    found = gambrel.analyze(model, device, phase="decode", batch_size=4)
    assert found.model.precision == found.workload.precisions
    proposed = [one.change for one in found.recommend()]
    assert not any(change.startswith("precision=") for change in proposed)


@pytest.mark.parametrize("model", MODELS)
def test_every_limit_gets_a_verdict(model):
    assert gambrel.check(model, "h200", phase="decode", memory="100GB").verdict
    assert gambrel.check(model, "h200", phase="decode", latency="1us").verdict == "FAIL"
