"""Measured runs under TensorRT on cards beyond MLPerf, as NVIDIA and Ultralytics publish them.

    benchmarks/data/cards/bert_tensorrt.csv, yolo_tensorrt.csv

Figures alone, each with its source. All are latencies of one call on the GPU.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from mlperf_rows import Row

DEMO, YOLO = "demoBERT", "Ultralytics"
#: Who published → what.
SOURCES = {DEMO: "BERT of NVIDIA's demo", YOLO: "YOLO and RT-DETR"}
FOLDER = Path(__file__).parents[1] / "benchmarks/data/cards"
#: Batches of BERT that constants see: all ten would outweigh every other model.
FITTED = (1, 8, 128)


def rows(folder: Path = FOLDER, *, every: bool = False) -> list[Row]:
    """Of both tables; of BERT the batches that constants see, or ``every`` one."""
    return [r for r in (*_bert(folder), *_yolo(folder)) if every or is_seen(r)]


def is_seen(row: Row) -> bool:
    """Whether constants may see a row."""
    return row.version != DEMO or row.batches[0] in FITTED


def _bert(folder: Path) -> Iterator[Row]:
    with (folder / "bert_tensorrt.csv").open(newline="") as file:
        for r in csv.DictReader(file):
            for precision in ("int8", "fp16"):
                yield Row(
                    model=r["model"],
                    device=r["device"],
                    runtime="tensorrt",
                    precision=precision,
                    scenario="SingleStream",
                    version=DEMO,
                    seconds=float(r[f"{precision}_ms"]) * 1e-3,
                    rows=1,
                    group="bert",
                    batches=(int(r["batch"]),),
                    sizes=(("seq", int(r["seq"])),),
                )


def _yolo(folder: Path) -> Iterator[Row]:
    """All YOLOs are left out together."""
    with (folder / "yolo_tensorrt.csv").open(newline="") as file:
        for r in csv.DictReader(file):
            yield Row(
                model=r["model"],
                device=r["device"],
                runtime="tensorrt",
                precision=r["precision"],
                scenario="SingleStream",
                version=YOLO,
                seconds=float(r["ms"]) * 1e-3,
                rows=1,
                group="yolo" if r["model"].startswith("yolo") else "rt-detr",
                batches=(1,),
            )
