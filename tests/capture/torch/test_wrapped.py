"""Weights that are wrappers of other tensors (torchao), and quantized modules that are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import gambrel
from gambrel.capture.torch import capture
from gambrel.errors import CaptureError

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def test_the_parts_of_a_wrapper_are_captured() -> None:
    model = nn.Linear(8, 4, bias=False)
    wrapped = TwoTensor(torch.randn(4, 8), torch.randn(4, 8))
    model.weight = nn.Parameter(wrapped)
    with torch.no_grad():
        workload = capture(model, torch.randn(2, 8))
    # A TwoTensor does everything twice.
    assert [op.kind for op in workload.ops] == ["matmul", "matmul"]
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.model.parameters == 32
    assert analysis.footprint.weights_bytes == 2 * 32 * 4
    assert type(model.weight.data) is TwoTensor


@pytest.mark.parametrize(
    ("config", "narrow"),
    [("Int8WeightOnlyConfig", "int8"), ("Float8WeightOnlyConfig", "fp8")],
)
def test_torchao(config: str, narrow: str) -> None:
    quantization: Any = pytest.importorskip("torchao.quantization")
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64)).bfloat16().eval()
    count = sum(p.numel() for p in model.parameters())
    quantization.quantize_(model, getattr(quantization, config)())
    workload = capture(model, torch.randn(4, 128, dtype=torch.bfloat16))
    assert {t.dtype for t in workload.tensors if t.name == "0.weight.qdata"} == {narrow}
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.model.parameters == count
    assert analysis.total.matrix_flops == 2 * 4 * (128 * 256 + 256 * 64)
    assert analysis.coverage == 1


def test_dynamically_quantized_modules_say_what_to_do() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 4)), {nn.Linear})
    with pytest.raises(CaptureError, match=r"quantized::linear_dynamic.*--precision int8"):
        capture(model, torch.randn(2, 8))
