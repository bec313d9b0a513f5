"""Times on a Pixel 8 that the paper of MobileNetV4 publishes."""

import csv
from pathlib import Path

import gambrel

ROWS = Path(__file__).parents[3] / "benchmarks/data/tensor/edgetpu.csv"


def test_published_times_are_inside_the_range():
    with ROWS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        expected = gambrel.analyze(row["model"], hardware=row["device"]).expected_time_s
        assert expected.low <= float(row["ms"]) / 1e3 <= expected.high, row
    assert len(rows) == 16


def test_litert_on_a_pixel_is_its_edge_tpu_not_corals():
    assert gambrel.analyze("mobilenet-v2", "pixel-8", runtime="litert").runtime == "litert-edgetpu"
    assert gambrel.analyze("mobilenet-v2", "coral-edge-tpu").runtime == "edgetpu"
