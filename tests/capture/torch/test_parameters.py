"""Parameters are those of the module, read by an op or not, in whatever views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gambrel
from gambrel.capture.files.pt2 import read_pt2
from gambrel.capture.torch import capture
from gambrel.workload import Workload
from gambrel.workload.parameters import union_length

pytestmark = pytest.mark.torch


class _Attention(nn.Module):
    """Projects q, k and v apart (three views of one weight), and keeps a layer for training."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.auxiliary = nn.Linear(8, 4)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.attention(q, k, v)[0]


# in_proj 24·8 + 24, out_proj 8·8 + 8, auxiliary 4·8 + 4
_COUNT = 192 + 24 + 64 + 8 + 36
_UNREAD = (
    "no op reads 36 of 324 parameters (auxiliary.weight, auxiliary.bias): "
    "they take memory and no time."
)


def _inputs() -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 4, 8) for _ in range(3))


def _count(workload: Workload) -> int:
    return gambrel.analyze(workload, "h100").model.parameters


@pytest.mark.parametrize("options", [{}, {"train": True}, {"execute": True}])
def test_views_and_unread_parameters_count_and_are_in_memory(options: dict[str, Any]) -> None:
    model = _Attention().eval()
    assert sum(p.numel() for p in model.parameters()) == _COUNT
    workload = capture(model, _inputs(), **options)
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.model.parameters == _COUNT
    assert analysis.footprint.weights_bytes == 4 * _COUNT
    assert _UNREAD in workload.assumptions


def test_an_exported_program_says_the_same(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(_Attention().eval(), _inputs()), tmp_path / "a.pt2")
    workload = read_pt2(tmp_path / "a.pt2")
    assert _count(workload) == _COUNT
    assert _UNREAD in workload.assumptions


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_compiled_modules_have_their_parameters() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 4))).eval()
    scripted = torch.jit.script(model)
    assert _count(capture(scripted, torch.randn(2, 8))) == 72 + 36
    assert _count(capture(nn.Sequential(scripted, nn.Linear(4, 2)), torch.randn(2, 8))) == 118


def test_tied_weights_count_once() -> None:
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
    model[1].weight = model[0].weight
    workload = capture(model, torch.zeros(3, dtype=torch.long))
    assert _count(workload) == 40
    assert not workload.assumptions


def test_parameters_that_share_one_flat_memory_count_each() -> None:
    model = nn.Linear(4, 3)
    flat = torch.zeros(15)
    model.weight.data, model.bias.data = flat[:12].view(3, 4), flat[12:]
    analysis = gambrel.analyze(capture(model, torch.randn(2, 4)), "h100")
    assert analysis.model.parameters == 15
    assert analysis.footprint.weights_bytes == 60


def test_union_of_intervals() -> None:
    assert union_length([]) == 0
    assert union_length([(0, 4), (2, 4), (2, 1), (10, 3)]) == 6 + 3
