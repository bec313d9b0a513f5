"""Models of timm by name, built from the installed library."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import gambrel
from gambrel.errors import GambrelError

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")


def test_the_same_as_the_built_in_model():
    found = gambrel.analyze("timm/resnet18", "a100", batch_size=2)
    known = gambrel.analyze("resnet18", "a100", batch_size=2)
    assert found.model.name == "timm/resnet18"
    assert found.total.matrix_flops == known.total.matrix_flops
    assert found.model.parameters == known.model.parameters == 11_689_512


def test_image_and_tag():
    asked = gambrel.analyze("timm/vit_tiny_patch16_224", "a100", image=64)
    # 16 patches and the class token, 12 layers of width 192: 12 w^2 of GEMMs a token and attention
    tokens, w = 17, 192
    layers = 12 * (2 * tokens * 12 * w * w + 2 * 2 * tokens * tokens * w)
    patches, head = 2 * 16 * 768 * w, 2 * w * 1000
    assert asked.total.matrix_flops == layers + patches + head
    tagged = gambrel.analyze("timm/convnext_atto.d2_in1k", "a100")
    assert "convnext_atto.d2_in1k" in tagged.model.origin


def test_a_training_step():
    step = gambrel.analyze("timm/resnet18", "a100", train=True)
    assert step.total.flops > 2.9 * gambrel.analyze("timm/resnet18", "a100").total.flops


@pytest.mark.parametrize(
    ("name", "asked", "sentence"),
    [
        ("timm/resnet_eighteen", {}, "unknown model of timm 'resnet_eighteen'; closest: "),
        ("timm/resnet18.nix", {}, "Invalid pretrained tag"),
        ("timm/resnet18", {"phase": "decode"}, "it has one forward pass"),
        ("timm/resnet18", {"seq": 8}, "it has batch, image"),
    ],
)
def test_refusals(name, asked, sentence):
    with pytest.raises(GambrelError, match=sentence) as caught:
        gambrel.analyze(name, "a100", **asked)
    assert "\n" not in str(caught.value)


def test_its_configuration(tmp_path):
    """What timm puts on the hub beside weights of 10 classes."""
    path = tmp_path / "config.json"
    path.write_text('{"architecture": "resnet18", "num_classes": 10, "pretrained_cfg": {}}')
    found = gambrel.analyze(path, "a100")
    assert found.model.parameters == 11_689_512 - 990 * 513
