"""The table of docs/edge.md: today's figures, within a quarter of what is published."""

from __future__ import annotations

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
