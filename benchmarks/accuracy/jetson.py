"""TensorRT beyond MLPerf: Jetson modules, and cards on models that no constant was fitted to.

The rows come with the project (benchmarks/data/jetson, cards); no folder is read.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.accuracy import Run, Score
from benchmarks.accuracy.mlperf import Ends, Row, held_out, run

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import gambrel
import jetson_rows

CARDS = Path(__file__).parents[1] / "data/cards/yolo_tensorrt.csv"
PRECISIONS = ("int8", "fp16", "tf32")


def score(_: Path) -> Iterable[Score]:
    """By device and number format."""
    yield from held_out(jetson_rows.rows(), _scores)
    yield Score(
        what="Ultralytics YOLO fp16, TensorRT on A100 and T4",
        runs=list(_cards()),
        held_out="no model fitted",
    )


def _cards() -> Iterable[Run]:
    """By the constants as they are: their rows have no activation of this kind."""
    with CARDS.open(newline="") as file:
        for r in csv.DictReader(file):
            analysis = gambrel.analyze(
                r["model"], r["device"], precision=r["precision"], runtime="tensorrt"
            )
            expected = analysis.expected_time_s
            assert expected is not None
            yield Run(
                name=f"{r['model']} {r['device']}",
                measured=float(r["ms"]) * 1e-3,
                expected=expected.value,
                low=expected.low,
                high=expected.high,
                roofline=analysis.roofline_time_s,
                sol=analysis.sol_time_s,
            )


def _scores(
    name: str, own: Sequence[Row], times: Sequence[float], how: str, ends: Ends
) -> Iterable[Score]:
    del name
    for device in sorted({r.device for r in own}):
        for precision in PRECISIONS:
            pairs = zip(own, times, strict=True)
            chosen = [(r, t) for r, t in pairs if (r.device, r.precision) == (device, precision)]
            if chosen:
                yield Score(
                    what=f"{device} {precision}, TensorRT",
                    runs=[run(r, t, ends) for r, t in chosen],
                    held_out=how,
                    family=f"Jetson modules {precision}, TensorRT",
                    target="25 %",
                )
