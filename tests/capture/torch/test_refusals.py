"""What cannot be captured names the op and says what to do; what people train with can."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import gambrel
from gambrel.capture.torch import capture
from gambrel.errors import CaptureError

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class _Model(nn.Module):
    def __init__(self, run: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 5)
        self.run = run

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self, x)


def _nested(model: Any, x: torch.Tensor) -> Any:
    return model.linear(torch.nested.as_nested_tensor([x[:2], x[:3]], layout=torch.jagged))


def _sparse(model: Any, x: torch.Tensor) -> Any:
    return torch.sparse.mm(x.to_sparse(), model.linear.weight.t())


@pytest.mark.parametrize(
    ("run", "said"),
    [(_nested, "nested tensor.*padded tensors"), (_sparse, "aten::_to_sparse.*dense ones")],
)
def test_refusals(run: Any, said: str) -> None:
    with pytest.raises(CaptureError, match=said) as caught:
        capture(_Model(run), torch.randn(10, 8))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("train", [False, True])
def test_ctc_loss_is_captured_and_lowers_the_coverage(train: bool) -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        scores = model.linear(x).log_softmax(-1)
        targets = torch.ones(2, 4, dtype=torch.long)
        lengths = torch.full((2,), 10), torch.full((2,), 4)
        return nn.functional.ctc_loss(scores, targets, *lengths)

    workload = capture(_Model(run), torch.randn(10, 2, 8), train=train)
    analysis = gambrel.analyze(workload, "h100")
    assert "aten._ctc_loss" in analysis.unmodelled
    assert 0 < analysis.coverage < 1
