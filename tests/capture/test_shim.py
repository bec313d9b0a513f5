"""torchvision is made importable, or left alone."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from gambrel.capture.torch import shim

pytestmark = pytest.mark.torch

needs_torchvision = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("torchvision") is None, reason="needs torchvision"
)


def printed(program: str) -> str:
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@needs_torchvision
def test_torchvision_imports_and_its_operators_have_shapes() -> None:
    program = """
from gambrel.capture.torch.shim import ensure_torchvision
assert ensure_torchvision() and ensure_torchvision()
import torch, torchvision
torchvision.models.get_model("resnet18", weights=None)
features, boxes = torch.empty(1, 3, 8, 8, device="meta"), torch.empty(5, 5, device="meta")
print(*torchvision.ops.roi_align(features, boxes, 2).shape)
print(hasattr(torch.ops.torchvision, "nms"), hasattr(torch.ops.torchvision, "deform_conv2d"))
"""
    assert printed(program) == "5 3 2 2\nTrue True\n"


@needs_torchvision
def test_it_comes_before_transformers() -> None:
    program = """
from gambrel.capture.torch.shim import ensure_torchvision
ensure_torchvision()
from transformers import GPT2LMHeadModel
print(GPT2LMHeadModel.main_input_name)
"""
    if find_spec("transformers") is None:
        pytest.skip("needs transformers")
    assert printed(program) == "input_ids\n"


def test_without_torchvision_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.setattr(shim, "find_spec", lambda name: None if name == "torchvision" else name)
    before = set(sys.modules)
    assert shim.ensure_torchvision() is False
    assert set(sys.modules) == before
