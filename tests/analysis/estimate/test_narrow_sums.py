"""TensorRT on GeForce cards, which sum products in fp16 twice as fast in fp16 as in fp32."""

import csv
from pathlib import Path

import pytest

import gambrel

DATA = Path(__file__).parents[3] / "benchmarks" / "data" / "cards" / "geforce_tensorrt.csv"
ROWS = list(csv.DictReader(DATA.read_text(encoding="utf-8").splitlines()))


def test_an_engine_is_faster_than_what_pytorch_runs():
    # chengzeyi/stable-fast README: 33.9 ms eager, 24.9 compiled, 24.5 under TensorRT.
    times = {
        runtime: gambrel.analyze(
            "sd15-unet", "rtx-4080", runtime=runtime, precision="fp16", batch_size=2
        )
        for runtime in ("pytorch", "torch-compile", "tensorrt")
    }
    expected = {name: a.expected_time_s.value for name, a in times.items()}
    assert expected["tensorrt"] < expected["torch-compile"] < expected["pytorch"]
    assert times["tensorrt"].sol_time_s == times["pytorch"].sol_time_s
    assert any("summed in fp16" in note for note in times["tensorrt"].assumptions)
    assert not any("summed in fp16" in note for note in times["pytorch"].assumptions)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: " ".join(r.values()))
def test_published_runs_lie_inside(row):
    found = gambrel.analyze(
        row["model"],
        row["device"],
        runtime="tensorrt",
        precision=row["precision"],
        batch_size=int(row["batch"]),
        seq=int(row["seq"]) if row["seq"] else None,
    )
    seconds, expected = float(row["ms"]) * 1e-3, found.expected_time_s
    assert found.sol_time_s < found.roofline_time_s < seconds
    assert expected.low < seconds < expected.high
