"""Built-in networks at another side of the image: stored for any, or captured again."""

from importlib.util import find_spec

import pytest

import gambrel
from gambrel.capture import zoo
from gambrel.capture.request import Request
from gambrel.capture.resolve import _again
from gambrel.errors import WorkloadError
from gambrel.workload.binding import bind


@pytest.mark.parametrize(
    ("name", "side"), [("efficientnet-v2-s", 384), ("efficientvit-b1", 224), ("yolo11n", 320)]
)
def test_networks_of_one_structure_take_any_side(name, side):
    """Convolutions grow with the pixels: FLOPs of a side between 0.9 and 1.1 times by area."""
    symbol = next(s for s in zoo.load(name).symbols if s.name == "image")
    own = gambrel.analyze(name, "h100")
    other = gambrel.analyze(name, "h100", image=side)
    assert other.model.symbols["image"] == side
    assert other.flops / own.flops == pytest.approx((side / symbol.default) ** 2, rel=0.1)


code = pytest.mark.skipif(find_spec("timm") is None, reason="needs timm")


@code
@pytest.mark.parametrize("name", ["vit-b-16", "repvgg-a1", "vgg16", "fcn-resnet50"])
def test_code_at_the_stored_side_is_what_is_stored(name):
    stored = zoo.load(name)
    side = next((s.default for s in stored.symbols if s.name == "image"), None)
    side = side or next(t for t in stored.tensors if t.role == "input").shape[-1]
    again = _again(stored, Request(sizes={"image": side, "batch": 1}))
    one, other = (gambrel.analyze(w, "h100", precision="fp16") for w in (bind(stored), again))
    assert (one.flops, one.traffic_bytes) == (other.flops, other.traffic_bytes)


@code
def test_another_side_is_captured_in_the_format_of_the_device():
    own, other = (gambrel.analyze("vit-b-16", "h100", image=side) for side in (None, 384))
    assert other.model.precision == own.model.precision
    # 577 tokens for 197.
    assert other.flops / own.flops == pytest.approx(577 / 197, rel=0.1)
    odd = gambrel.analyze("resnet50", "h100", image=300)
    assert odd.model.symbols["image"] == 300


def test_a_network_of_one_side_names_the_way():
    with pytest.raises(WorkloadError, match=r"has no size 'image'.*\.onnx export at that side"):
        gambrel.analyze("ssd-mobilenet-v1", "h100", image=320)
    with pytest.raises(WorkloadError, match=r"it takes batch x seq\.$"):
        gambrel.analyze("bert-base", "h100", image=320)
