"""16-bit models of the zoo under PyTorch against what timm publishes for consumer GPUs."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

import gambrel

ROWS = Path(__file__).parents[3] / "benchmarks/data/timm/rows.csv"
#: As timm names it → as the zoo does; no model with layer norms, which are measured in fp32.
ZOO = {
    "resnet18": "resnet18",
    "resnet34": "resnet34",
    "resnet50": "resnet50",
    "densenet121": "densenet121",
    "mobilenetv2_100": "mobilenet-v2",
    "efficientnet_b0": "efficientnet-b0",
    "inception_v3": "inception-v3",
    "mnasnet_100": "mnasnet-1.0",
    "mobilenetv3_large_100": "mobilenet-v3-large",
    "regnetx_032": "regnet-x-3.2gf",
}
RUNTIMES = {"eager": "pytorch", "compiled": "torch-compile"}


def published(runtime: str) -> list[dict[str, str]]:
    with ROWS.open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["model"] in ZOO and r["layout"] == "nchw"]
    return [r for r in rows if r["runtime"] == runtime]


@pytest.mark.parametrize(("runtime", "most"), [("eager", 0.10), ("compiled", 0.20)])
def test_expected_times_hold(runtime, most):
    errors, inside = [], []
    for row in published(runtime):
        batch = int(row["batch"])
        found = gambrel.analyze(
            ZOO[row["model"]],
            row["device"],
            runtime=RUNTIMES[runtime],
            precision="fp16",
            batch_size=batch,
        )
        measured = batch / float(row["images_per_s"])
        expected = found.expected_time_s
        assert expected is not None
        assert found.sol_time_s < measured
        errors.append(abs(expected.value / measured - 1))
        inside.append(expected.low <= measured <= expected.high)
    assert len(errors) >= 10
    assert statistics.mean(errors) < most
    assert statistics.mean(inside) >= 0.8
