"""Nothing of the user's changes, whatever happens."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from torch import nn

from gambrel.capture.torch import capture
from gambrel.errors import CaptureError

pytestmark = pytest.mark.torch


class Net(nn.Module):
    def __init__(self, fail: bool = False):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.fail = fail
        self.calls = 0
        self.settings = {"seen": 0}

    def forward(self, x):
        self.calls += 1
        self.settings["seen"] += 1
        self.last = self.drop(self.bn(self.conv(x)))
        if self.fail:
            raise ValueError("the model gave up")
        return self.last


def _snapshot(model: nn.Module) -> tuple[object, ...]:
    return (
        copy.deepcopy(model.state_dict()),
        {n: (id(p), p.device, p.requires_grad, p.grad) for n, p in model.named_parameters()},
        [
            (n, m.training, sorted(m.__dict__), len(m._forward_hooks))
            for n, m in model.named_modules()
        ],
        (model.calls, dict(model.settings), hasattr(model, "last")),
        torch.get_rng_state().tolist(),
        random.getstate(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_grad_enabled(),
    )


def _same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    weights = a[0].keys() == b[0].keys() and all(torch.equal(a[0][k], b[0][k]) for k in a[0])
    return weights and a[1:] == b[1:]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("mode", [False, True])
@pytest.mark.parametrize("execute", [False, True])
def test_module_is_as_before(train, mode, execute):
    model = Net().train(mode)
    model.conv.register_forward_hook(lambda module, args, out: out)
    x = torch.randn(2, 3, 8, 8)
    before, kept = _snapshot(model), x.clone()
    assert capture(model, x, train=train, execute=execute).ops
    after = _snapshot(model)
    if train and execute:
        assert model.bn.num_batches_tracked == 0
    assert _same(before, after)
    assert torch.equal(x, kept)
    assert x.grad is None


@pytest.mark.parametrize("train", [False, True])
def test_module_is_as_before_after_an_error(train):
    model, x = Net(fail=True), torch.randn(2, 3, 8, 8)
    before = _snapshot(model)
    original = torch.nn.functional.scaled_dot_product_attention, torch.Tensor.tolist
    with pytest.raises(CaptureError, match="the model gave up"):
        capture(model, x, train=train)
    assert _same(before, _snapshot(model))
    assert original == (torch.nn.functional.scaled_dot_product_attention, torch.Tensor.tolist)
    assert "tolist" not in torch.Tensor.__dict__


def test_a_change_would_be_seen():
    model = Net()
    before = _snapshot(model)
    model(torch.randn(2, 3, 8, 8))
    assert not _same(before, _snapshot(model))


def test_hooks_run_during_capture():
    seen = []
    model = nn.Linear(4, 4)
    model.register_forward_hook(lambda module, args, out: seen.append(tuple(out.shape)))
    capture(model, torch.randn(2, 4))
    assert seen == [(2, 4)]


def test_model_without_any_data():
    model = Net().to("meta").eval()
    w = capture(model, torch.empty(2, 3, 8, 8, device="meta"))
    assert [op.kind for op in w.ops] == ["convolution", "normalization"]


def test_same_model_on_cpu_and_on_meta_gives_the_same_workload():
    x = torch.randn(2, 3, 8, 8)
    real = capture(Net().eval(), x, source=False)
    meta = capture(Net().to("meta").eval(), x.to("meta"), source=False)
    assert real == meta


def test_repeated_captures_are_equal():
    model, x = Net().eval(), torch.randn(2, 3, 8, 8)
    first, second = (capture(model, x) for _ in range(2))
    assert first == second
