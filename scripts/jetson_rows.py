"""Measured runs under TensorRT on Jetson modules, as their owners publish them.

    benchmarks/data/jetson/tensorrt.csv

Figures alone, each with its source. Two kinds of stopwatch: ``gpu`` is the time between events on
the GPU (trtexec, NetsPresso), ``call`` that around a call from Python (Ultralytics), which adds the
call. Ultralytics' fp32 is TF32: TensorRT's builder allows it unless told otherwise.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections import defaultdict
from pathlib import Path

from mlperf_rows import Row

TABLE = Path(__file__).parents[1] / "benchmarks/data/jetson/tensorrt.csv"
#: Without tensor cores the kernels are others; AGX Xavier is kept back for a test.
OLDER = ("jetson-nano", "jetson-tx2", "jetson-agx-xavier")
#: Sizes of one architecture are left out together.
_SIZE = re.compile(r"(?<=\d)[nsmlx]$|-(small|large|[tsml]\d?)$|(?<=resnet)\d+$")


def rows(table: Path = TABLE) -> list[Row]:
    """All of the table, equal runs by their median."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with table.open(newline="") as file:
        for r in csv.DictReader(file):
            if not r["device"].startswith(OLDER):
                key = (r["model"], r["device"], r["precision"], r["batch"], r["timed"])
                found[key].append(float(r["ms"]) * 1e-3)
    return [
        Row(
            model=model, device=device, runtime="tensorrt", precision=precision,
            scenario="SingleStream", version=timed, seconds=statistics.median(v), rows=len(v),
            group=_SIZE.sub("", model), batches=(int(batch),), called=timed == "call",
        )
        for (model, device, precision, batch, timed), v in sorted(found.items())
    ]  # fmt: skip
