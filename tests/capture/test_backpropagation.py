"""Training steps derived from a forward pass: the same as those that are recorded."""

from importlib.util import find_spec

import pytest

import gambrel
from gambrel.capture.backpropagation import training_step
from gambrel.capture.request import Request
from gambrel.capture.resolve import resolve_model
from gambrel.errors import CaptureError
from gambrel.llm.backward import FREE
from gambrel.workload import Op, Phase, Role, Tensor, Workload
from gambrel.workload.binding import bind


def built_in(name, **asked):
    return resolve_model(name, Request(**asked)).workload


@pytest.mark.skipif(find_spec("timm") is None, reason="needs timm")
@pytest.mark.parametrize("name", ["resnet18", "vit-b-16", "densenet121"])
def test_a_derived_step_is_the_recorded_one(name):
    """Products to the FLOP; bytes, memory and time but for copies that autograd adds."""
    recorded = gambrel.analyze(built_in(name, train=True), "h100", precision="fp32")
    derived = gambrel.analyze(training_step(bind(built_in(name))), "h100", precision="fp32")
    assert derived.flops == recorded.flops
    assert derived.model.parameters == recorded.model.parameters
    assert derived.traffic_bytes == pytest.approx(recorded.traffic_bytes, rel=0.02)
    assert derived.sol_time_s == pytest.approx(recorded.sol_time_s, rel=0.01)
    assert derived.footprint.total_bytes == pytest.approx(recorded.footprint.total_bytes, rel=0.02)
    assert derived.coverage == 1


def test_two_layers_by_hand():
    """y = relu(x·w1)·w2, x [2, 3], w1 [3, 4], w2 [4, 5]: no gradient of x, two of the hidden."""
    tensors = (
        Tensor(shape=(2, 3), dtype="fp32", storage=0, role=Role.INPUT),
        Tensor(shape=(3, 4), dtype="fp32", storage=1, role=Role.WEIGHT, name="w1"),
        Tensor(shape=(2, 4), dtype="fp32", storage=2),
        Tensor(shape=(2, 4), dtype="fp32", storage=3),
        Tensor(shape=(4, 5), dtype="fp32", storage=4, role=Role.WEIGHT, name="w2"),
        Tensor(shape=(2, 5), dtype="fp32", storage=5, role=Role.OUTPUT),
    )
    first, second = {"b": 1, "m": 2, "n": 4, "k": 3}, {"b": 1, "m": 2, "n": 5, "k": 4}
    relu = {"function": "relu"}
    ops = (
        Op(kind="matmul", inputs=(0, 1), outputs=(2,), sizes=first),
        Op(kind="elementwise", inputs=(2,), outputs=(3,), sizes={"elements": 8}, attrs=relu),
        Op(kind="matmul", inputs=(3, 4), outputs=(5,), sizes=second),
    )
    forward = Workload(name="mlp", dtype="fp32", tensors=tensors, ops=ops, outputs=(5,))
    step = training_step(forward)
    assert step.training
    backward = [op for op in step.ops if op.phase is Phase.BACKWARD]
    assert [(op.kind, op.sizes) for op in backward[1:]] == [
        ("matmul", {"b": 1, "m": 2, "n": 4, "k": 5}),  # of the hidden layer
        ("matmul", {"b": 1, "m": 4, "n": 5, "k": 2}),  # of w2
        ("elementwise_backward", {"elements": 8}),
        ("matmul", {"b": 1, "m": 3, "n": 4, "k": 2}),  # of w1
    ]
    updates = [op.sizes["elements"] for op in step.ops if op.phase is Phase.OPTIMIZER]
    assert sorted(updates) == [12, 20]
    # 2·(2·4·3 + 2·5·4) forward, 2·(2·4·5 + 4·5·2 + 3·4·2) backward.
    assert gambrel.analyze(step, "h100").flops == 128 + 208


@pytest.mark.parametrize(
    "name", ["bert-base", "unet", "yolo11n", "sd15-unet", "whisper-tiny-encoder"]
)
def test_networks_of_the_zoo_without_code_train(name):
    """Backward is about twice forward, and every op of it has a formula."""
    forward, step = gambrel.analyze(name, "h100"), gambrel.analyze(name, "h100", train=True)
    assert step.model.training
    assert 2.9 < step.flops / forward.flops < 3.3
    assert step.coverage == 1
    assert any("loss is the sum of the outputs" in said for said in step.assumptions)


def test_what_cannot_be_trained_names_what_can():
    assert "wkv7_scan" not in FREE
    with pytest.raises(CaptureError, match=r"gradients of wkv7_scan are not known .*resnet50"):
        gambrel.analyze("rwkv7-0.4b", "h100", train=True)
    with pytest.raises(CaptureError, match="gambrel train-plan llama-3-8b --hardware h100 --seq"):
        gambrel.analyze("llama-3-8b", "h100", train=True)
    assert gambrel.train_plan("llama-3-8b", "h100", seq=4096).step_s > 0
