"""The table of docs/edge.md: today's figures, within a quarter of what is published."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

import gambrel

PAGE = Path(__file__).parents[1] / "docs" / "edge.md"
#: Said in its own table to be poor: networks near the size of the chip.
FAR = {"hailo-8l": 0.35}
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.endswith(("| AI Hub |", "| Model Zoo |", "| trtexec |", "| Ultralytics |"))
]


def test_all_classes_are_there():
    assert {row[5] for row in ROWS} == {"AI Hub", "Model Zoo", "trtexec", "Ultralytics"}


@pytest.mark.parametrize(
    ("device", "precision", "batch", "published", "expected", "source"),
    ROWS,
    ids=lambda cell: cell,
)
def test_yolov8n(device, precision, batch, published, expected, source):
    found = gambrel.analyze("yolov8n", device, precision=precision, batch_size=int(batch))
    estimate = found.expected_time_s
    assert estimate.value * 1e3 == pytest.approx(float(expected), abs=0.006)
    assert estimate.value * 1e3 == pytest.approx(float(published), rel=FAR.get(device, 0.25))
    assert estimate.low * 1e3 <= float(published) <= estimate.high * 1e3


def test_a_module_that_was_kept_back():
    """Jetson AGX Xavier, a generation older than those fitted: nine models timed by Nota."""
    table = PAGE.parents[1] / "benchmarks" / "data" / "jetson" / "tensorrt.csv"
    with table.open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["device"] == "jetson-agx-xavier-32gb"]
    errors = []
    for row in rows:
        found = gambrel.analyze(row["model"], row["device"], precision=row["precision"])
        estimate, measured = found.expected_time_s, float(row["ms"]) * 1e-3
        assert estimate.low <= measured <= estimate.high
        errors.append(abs(estimate.value / measured - 1))
    assert len(errors) == 9
    assert statistics.fmean(errors) < 0.15
