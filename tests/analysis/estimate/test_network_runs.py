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


@pytest.mark.parametrize(
    ("hardware", "published_per_s", "within"),
    [("mi250x", 76.33, 0.15), ("a100-sxm4-80gb", 104.9, 0.15)],
)
def test_decoding_under_torch_compile_holds(hardware, published_per_s, within):
    """gpt-fast's README, Llama 2 7B in bf16, about 200 tokens: no row of it was fitted."""
    found = gambrel.analyze(
        "llama-2-7b",
        hardware,
        phase="decode",
        context=200,
        precision="bf16",
        runtime="torch-compile-graph",
    )
    expected = found.expected_time_s
    assert 1 / expected.value == pytest.approx(published_per_s, rel=within)
    assert expected.low <= 1 / published_per_s <= expected.high


def test_products_in_16_bits_on_amd_are_no_fp32_ones():
    """SemiAnalysis and AMD measured 620 and 708 TFLOP/s of 1,307 on an MI300X."""
    torch = pytest.importorskip("torch")
    side = 8192
    linear = torch.nn.Linear(side, side, bias=False, device="meta", dtype=torch.bfloat16)
    rows = torch.empty(side, side, dtype=torch.bfloat16, device="meta")
    found = gambrel.analyze(
        linear, "mi300x", inputs=(rows,), precision="bf16", runtime="pytorch-graph"
    )
    expected = found.expected_time_s
    assert 600e12 < 2 * side**3 / expected.value < 720e12
    assert expected.confidence == "low"
