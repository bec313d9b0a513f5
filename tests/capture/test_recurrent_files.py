"""Recurrent layers in files and compiled modules: one op, as in the live module."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gambrel  # noqa: E402
from gambrel.capture.files.pt2 import read_pt2  # noqa: E402
from gambrel.capture.files.trusted import capture_trusted  # noqa: E402
from gambrel.capture.torch import capture  # noqa: E402
from gambrel.errors import CaptureError  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # of torch, about what compiling leaves out
]


class _Net(torch.nn.Module):
    def __init__(self, cell: str) -> None:
        super().__init__()
        self.cells = getattr(torch.nn, cell)(16, 32, 2, bidirectional=True)
        self.head = torch.nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0])


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("compiler", ["script", "trace"])
def test_compiled_modules(cell: str, compiler: str, tmp_path: Path) -> None:
    model, x = _Net(cell).eval(), torch.randn(7, 2, 16)
    compiled = torch.jit.script(model) if compiler == "script" else torch.jit.trace(model, x)
    compiled.save(str(tmp_path / "net.pt"))
    live = gambrel.analyze(capture(model, x), "h100")
    for workload in (
        capture(compiled, x),
        capture_trusted(tmp_path / "net.pt", given=x),
    ):
        assert [op.kind for op in workload.ops].count("recurrent") == 1
        analysis = gambrel.analyze(workload, "h100")
        assert analysis.flops == live.flops
        # Scripts make the first states of an LSTM as one tensor of zeros.
        assert analysis.traffic_bytes == pytest.approx(live.traffic_bytes, rel=0.02)
        assert analysis.model.parameters == live.model.parameters
    assert not next(compiled.parameters()).is_meta  # the user's module is as it was


def test_a_compiled_module_without_one_forward_says_what_to_do() -> None:
    with pytest.raises(CaptureError, match="wrap it in a module"):
        capture(torch.jit.script(torch.nn.LSTM(4, 4)), torch.randn(3, 1, 4))


def test_a_decomposed_export_says_that_its_steps_read_the_weights_again(tmp_path: Path) -> None:
    program = torch.export.export(_Net("LSTM").eval(), (torch.randn(12, 2, 16),))
    torch.export.save(program, tmp_path / "whole.pt2")
    torch.export.save(program.run_decompositions(), tmp_path / "steps.pt2")
    assert not read_pt2(tmp_path / "whole.pt2").assumptions
    (said,) = read_pt2(tmp_path / "steps.pt2").assumptions
    assert "cells: a recurrent layer is spelled out in 12 steps" in said
    assert "without run_decompositions()" in said
