"""A checkpoint of a built-in model is answered in the format of its weights, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gambrel  # noqa: E402
from gambrel.capture import zoo  # noqa: E402
from gambrel.capture.files.checkpoint import match_checkpoint, weight_shapes  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def weights() -> dict[str, tuple[int, ...]]:
    return weight_shapes(zoo.load("resnet18"))


def _save(path: Path, shapes: dict[str, tuple[int, ...]], dtype: torch.dtype) -> str:
    torch.save({n: torch.zeros(s, dtype=dtype) for n, s in shapes.items()}, path)
    return str(path)


@pytest.mark.parametrize(
    ("dtype", "precision", "width"),
    [(torch.float32, "fp32", 4), (torch.float16, "fp16", 2), (torch.bfloat16, "bf16", 2)],
)
def test_precision_is_that_of_the_file(tmp_path, weights, dtype, precision, width) -> None:
    path = _save(tmp_path / "mine.pth", weights, dtype)
    analysis = gambrel.analyze(path, "a100")
    assert analysis.model.precision == precision
    assert analysis.model.precision_reason == "the model's own"
    # 11,689,512 parameters (torchvision) and 9,600 running statistics
    assert analysis.footprint.weights_bytes == width * (11_689_512 + 9_600)
    assert any(f"stored in {precision}" in n for n in match_checkpoint(path).notes)


def test_another_one_can_be_asked_for(tmp_path, weights) -> None:
    path = _save(tmp_path / "mine.pth", weights, torch.float32)
    asked = gambrel.analyze(path, "a100", precision="fp16")
    built_in = gambrel.analyze("resnet18", "a100", precision="fp16")
    assert asked.model.precision == "fp16"
    assert asked.roofline_time_s == built_in.roofline_time_s
