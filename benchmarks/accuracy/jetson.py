"""Jetson modules under TensorRT: whole models that their owners timed.

The rows come with the project (benchmarks/data/jetson); no folder is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.accuracy import Score
from benchmarks.accuracy.mlperf import Ends, Row, held_out, run

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import jetson_rows

PRECISIONS = ("int8", "fp16", "tf32")


def score(_: Path) -> Iterable[Score]:
    """By device and number format."""
    yield from held_out(jetson_rows.rows(), _scores)


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
