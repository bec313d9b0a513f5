"""Values that are at hand decide what runs; where chance decides, its mean does, and is printed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gambrel
from gambrel.capture.torch import capture

pytestmark = pytest.mark.torch


class _Gated(nn.Module):
    def __init__(self, gate: float) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.tensor([gate]))
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if (self.gate * 2).sum() > 1:
            x = self.linear(x)
        return x + self.gate


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("gate", "products"), [(1.0, 1), (0.1, 0)])
def test_branch_on_the_value_of_a_parameter(gate: float, products: int, train: bool) -> None:
    workload = capture(_Gated(gate), torch.randn(2, 4), train=train)
    forward = [op for op in workload.ops if op.phase == "forward"]
    assert sum(op.kind == "matmul" for op in forward) == products
    assert not any("control flow" in s for s in workload.assumptions)


def test_the_parameters_of_the_user_are_not_written() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = nn.Parameter(torch.tensor([1.0]), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x * 2 if self.count.item() == 2 else x

    model = InPlace()
    workload = capture(model, torch.randn(2))
    assert [op.name for op in workload.ops] == ["aten.add_", "aten.mul"]
    assert model.count.item() == 1


def test_a_value_made_of_weights_and_inputs_is_assumed_not_computed() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            return y[y > 1e9]  # no real value passes

    workload = capture(Chosen(), torch.randn(2, 4))
    assert workload.tensors[workload.outputs[0]].shape == (8,)
    assert any("every element passes" in s for s in workload.assumptions)


class _Dropped(nn.Module):
    """Drops layers as Wav2Vec2 (torch), and as others do (Python, numpy)."""

    def __init__(self, draw: Any, rate: float) -> None:
        super().__init__()
        self.draw, self.rate = draw, rate
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if self.draw() >= self.rate:
                x = layer(x)
        return x


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand([]),
        lambda: torch.rand(1).item(),
        lambda: torch.empty(1).uniform_(0, 1),
        lambda: random.uniform(0, 1),
        lambda: random.random(),
        lambda: np.random.uniform(0, 1),
    ],
)
@pytest.mark.parametrize(("rate", "layers"), [(0.1, 12), (0.4, 12), (0.9, 0)])
def test_layer_drop_follows_the_mean_and_says_so(draw: Any, rate: float, layers: int) -> None:
    workload = capture(_Dropped(draw, rate), torch.randn(2, 4))
    assert sum(op.kind == "matmul" for op in workload.ops) == layers
    assert any("takes its mean" in s for s in workload.assumptions)


def test_dropout_is_no_decision() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    workload = capture(model, torch.randn(2, 4), train=True)
    assert not any("takes its mean" in s for s in workload.assumptions)


def test_the_generators_are_left_as_they_were() -> None:
    np.random.seed(3)
    random.seed(3)
    expected = (np.random.rand(), random.random())
    np.random.seed(3)
    random.seed(3)
    capture(_Dropped(lambda: np.random.rand() + random.random(), 0.1), torch.randn(2, 4))
    assert (np.random.rand(), random.random()) == expected


def test_numpy_inside_the_model_is_unmodelled() -> None:
    class Numpy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(np.fft.fft(x.numpy()).real.copy()).float() + x

    workload = capture(Numpy(), torch.randn(2, 4))
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.coverage < 1
    assert "numpy" in analysis.unmodelled
    assert any("numpy" in s for s in workload.assumptions)
