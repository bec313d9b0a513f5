"""Weight-only decoding by kernels that a compiler writes; nothing fitted.

Source: pytorch-labs/gpt-fast, README (2024): tokens per second of one sequence on an A100 of 80 GB.
"""

from __future__ import annotations

import pytest

import gambrel


@pytest.mark.parametrize(
    ("model", "precision", "measured"),
    [("llama-2-7b", "w8a16", 6.43e-3), ("llama-2-7b", "w4a16", 5.08e-3)],
)
def test_they_start_as_other_kernels_do(model: str, precision: str, measured: float) -> None:
    """With the start of TensorRT-LLM's kernels they took 1.2 and 1.35 times as long."""
    found = gambrel.analyze(
        model, "a100-sxm4-80gb", runtime="torch-compile-graph", precision=precision,
        phase="decode", context=105,
    ).expected_time_s  # fmt: skip
    assert found is not None
    assert found.value == pytest.approx(measured, rel=0.1)
    assert found.low < measured < found.high
