"""Training steps of built-in networks: captured from the library that they come from."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.errors import CaptureError

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _torchvision():
    pytest.importorskip("torch")
    from gambrel.capture.torch import ensure_torchvision

    if not ensure_torchvision():
        pytest.skip("torchvision is not installed")


def step(name, **more):
    return gambrel.analyze(name, "a100", train=True, batch_size=8, **more)


def test_a_classifier_of_torchvision_has_a_training_step():
    """Each convolution has two gradients but the first, whose input needs none: three passes."""
    forward = gambrel.analyze("resnet50", "a100", batch_size=8, precision="fp32")
    found = step("resnet50")
    first = 2 * 8 * 64 * 3 * 7 * 7 * 112 * 112
    assert found.total.matrix_flops == 3 * forward.total.matrix_flops - first
    assert found.model.parameters == forward.model.parameters
    assert found.model.name == "resnet50"
    assert found.footprint.gradients_bytes > 0


def test_it_is_the_step_of_the_same_network_of_timm():
    pytest.importorskip("timm")
    one, other = step("resnet50"), step("timm/resnet50")
    assert one.total.matrix_flops == other.total.matrix_flops
    assert one.expected_time_s.value == pytest.approx(other.expected_time_s.value, rel=0.05)


def test_its_image_may_be_chosen():
    small, large = step("resnet18", image=128), step("resnet18", image=224)
    assert small.model.symbols["image"] == 128
    assert small.total.matrix_flops < large.total.matrix_flops / 2


def test_a_narrow_network_is_trained_in_its_width():
    """Its origin says the width as well; other sides and casts come from the same code."""
    narrow = gambrel.analyze("mobilenet-v2-0.35", "a100", precision="fp32")
    assert step("mobilenet-v2-0.35").model.parameters == narrow.model.parameters
    assert gambrel.analyze("mobilenet-v2-0.35", "a100", image=200).model.symbols["image"] == 200
    mixed = gambrel.analyze("mobilenet-v2-0.35", "a100", autocast="fp16")
    assert mixed.total.matrix_flops == narrow.total.matrix_flops


def test_what_takes_more_than_images_says_what_to_do():
    with pytest.raises(CaptureError, match=r"no classifier of images.* \(file\.py:function\)"):
        step("fcn-resnet50")
    with pytest.raises(CaptureError, match="run 'gambrel train-plan'"):
        gambrel.analyze("gpt2", "a100", train=True)
