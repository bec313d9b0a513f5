"""Networks of the zoo under PyTorch against published throughput on V100, T4 and A100."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

import gambrel

ROWS = Path(__file__).parents[3] / "benchmarks/data/networks/rows.csv"
ZOO = {
    "resnet50": "resnet50",
    "efficientnet_b0": "efficientnet-b0",
    "efficientnet_b4": "efficientnet-b4",
}


def published(**wanted):
    with ROWS.open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["model"] in ZOO]
    return [r for r in rows if all(r[k] in v for k, v in wanted.items())]


def test_forward_passes_hold():
    errors, inside = [], []
    for row in published(phase=("inference",), precision=("fp32", "tf32")):
        batch = int(row["batch"])
        found = gambrel.analyze(
            ZOO[row["model"]],
            row["device"],
            runtime="pytorch",
            precision=row["precision"],
            batch_size=batch,
        )
        measured, expected = batch / float(row["per_s"]), found.expected_time_s
        assert found.sol_time_s < measured
        errors.append(abs(expected.value / measured - 1))
        inside.append(expected.low <= measured <= expected.high)
    assert len(errors) > 40
    assert statistics.mean(errors) < 0.15
    assert statistics.mean(inside) >= 0.9


@pytest.mark.parametrize("source", ["lambda", "resnet50v1.5"])
def test_training_steps_hold(source):
    """No training step of a convolutional network was fitted."""
    torch = pytest.importorskip("torch")
    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        module = timm.create_model("resnet50").train()
    rows = published(phase=("training",), source=(source,), layout=("nchw",))
    for row in rows:
        batch = int(row["batch"])
        image = torch.empty(batch, 3, 224, 224, device="meta")
        found = gambrel.analyze(
            module,
            row["device"],
            image,
            train=True,
            runtime="pytorch",
            precision=row["precision"],
        )
        measured, expected = batch / float(row["per_s"]), found.expected_time_s
        assert found.sol_time_s < measured
        assert expected.low <= measured <= expected.high
        assert expected.value == pytest.approx(measured, rel=0.25)
        assert expected.high < 4.5 * expected.low
    assert rows
