"""Bilinear layers: both contractions count, live, exported and in backward."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from gambrel.capture.files.pt2 import read_pt2  # noqa: E402
from gambrel.capture.torch import capture  # noqa: E402
from gambrel.workload import Phase  # noqa: E402
from tests.capture.torch.reading import matrix_flops  # noqa: E402

pytestmark = pytest.mark.torch

# 4 rows, 8 x 8 inputs, 4 outputs: x W is 2·4·4·8·8 = 2,048, times z 2·4·4·8 = 256
_FLOPS = 2048 + 256


def _inputs(gradients: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.randn(4, 8, requires_grad=gradients),
        torch.randn(4, 8, requires_grad=gradients),
    )


def test_live_counts_both_contractions() -> None:
    assert matrix_flops(capture(torch.nn.Bilinear(8, 8, 4), _inputs())) == _FLOPS


def test_unequal_sizes() -> None:
    inputs = torch.randn(3, 5), torch.randn(3, 7)
    # x W over 5: 2·3·2·7·5 = 420; times z over 7: 2·3·2·7 = 84
    assert matrix_flops(capture(torch.nn.Bilinear(5, 7, 2), inputs)) == 420 + 84


def test_an_exported_program_says_the_same(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Bilinear(8, 8, 4), _inputs())
    torch.export.save(program, tmp_path / "b.pt2")
    assert matrix_flops(read_pt2(tmp_path / "b.pt2")) == _FLOPS


def test_backward_is_three_such_products() -> None:
    workload = capture(torch.nn.Bilinear(8, 8, 4), _inputs(gradients=True), train=True)
    # dx: dy W over o is 2·4·8·8·4 = 2,048, times z over j 2·4·8·8 = 512.
    # dz: x W over i 2·4·4·8·8 = 2,048, times dy over o 2·4·4·8 = 256.
    # dW: dy x is 2·4·4·8 = 256, times z over rows 2·4·4·8·8 = 2,048.
    assert matrix_flops(workload, Phase.BACKWARD) == 2560 + 2304 + 2304
