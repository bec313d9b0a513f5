"""What is recorded on meta tensors is what a real run dispatches."""

from __future__ import annotations

import pytest
import torch

from gambrel.capture.torch import capture
from gambrel.workload import Workload
from gambrel.workload.formats import in_format
from tests.capture.torch import models
from tests.capture.torch.reading import matrix_flops

pytestmark = pytest.mark.torch


def _lines(workload: Workload) -> list[tuple[object, ...]]:
    return [
        (op.name, op.kind, op.sizes, op.attrs, op.module, op.source, op.inputs, op.outputs)
        for op in workload.ops
    ]


def _both(build: models.Build, lib: object, **options: object) -> tuple[Workload, Workload]:
    torch.manual_seed(0)
    model, args, kwargs = build(lib)
    model.eval()
    found = [capture(model, args, kwargs, execute=run, **options) for run in (False, True)]
    return in_format(found[0], found[0].dtype), found[1]


@pytest.mark.parametrize("build", models.TORCHVISION, ids=lambda b: b.__name__)
def test_vision_models(build, torchvision):
    meta, real = _both(build, torchvision)
    assert _lines(meta) == _lines(real)
    assert meta.tensors == real.tensors


@pytest.mark.parametrize("build", models.TRANSFORMERS, ids=lambda b: b.__name__)
def test_language_models(build, transformers):
    meta, real = _both(build, transformers)
    assert _lines(meta) == _lines(real)
    assert meta.tensors == real.tensors


def test_mixture_of_experts(transformers):
    # The library counts tokens in fp32 on a CPU and in int32 elsewhere; all else is the same.
    meta, real = _both(models.mixtral, transformers)
    named = [(op.name, op.kind, op.sizes, op.module) for op in meta.ops]
    assert named == [(op.name, op.kind, op.sizes, op.module) for op in real.ops]
    assert matrix_flops(meta) == matrix_flops(real)


@pytest.mark.parametrize("build", [models.resnet, models.vit], ids=lambda b: b.__name__)
def test_training_step(build, torchvision):
    meta, real = _both(build, torchvision, train=True)
    assert _lines(meta) == _lines(real)
    assert [op.phase for op in meta.ops] == [op.phase for op in real.ops]


def test_a_difference_would_be_seen(torchvision):
    torch.manual_seed(0)
    one = capture(torchvision.models.resnet18(), (torch.randn(1, 3, 64, 64),))
    other = capture(torchvision.models.resnet18(), (torch.randn(1, 3, 96, 96),))
    assert _lines(one) != _lines(other)
