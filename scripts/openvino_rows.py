"""Runs under OpenVINO on processors and GPUs, as Intel and Ultralytics publish them.

    benchmarks/data/openvino/rows.csv, earlier.csv, release_2025.csv and ultralytics.csv

Throughput is that of many requests at once: any batch, so the best of several counts. Latency is
that of one request. A Xeon's throughput is that of two sockets; one request runs on one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from mlperf_rows import SOCKETS, Row

TABLE = Path(__file__).parents[1] / "benchmarks/data/openvino/rows.csv"
#: File → what stands for the release in `Row.version`.
TABLES = {
    TABLE: "OpenVINO 2024.3",
    TABLE.with_name("earlier.csv"): "OpenVINO 2024.1",
    TABLE.with_name("release_2025.csv"): "OpenVINO 2025",
    TABLE.with_name("ultralytics.csv"): "Ultralytics",
}
#: Runs on GPUs under releases before those above, which nothing is fitted to.
OLDER = TABLE.with_name("gpus_unseen.csv")
SIZES = {"bert-base": (("seq", 128),), "bert-large": (("seq", 384),)}
#: Batches that throughput is asked at. A GPU's are its requests at once: in the tables of release
#: 2024.1 throughput times latency is 16 on cards and 4 on integrated GPUs.
BATCHES = (16, 64)
#: Releases of 2025 do not gather requests into batches: throughput times latency is 1.2 to 1.8, on
#: cards as on integrated GPUs, which is what two streams give.
STREAMS = (2,)
_GPUS = ("arc-", "flex", "iris")
_REQUESTS = {"arc-a": (16,), "flex": (16,), "iris": (4,), "arc-1": (4,), "intel-npu": (4,)}
#: Xeons of one socket.
SINGLE = ("xeon-e-", "xeon-w-")
#: Models of which several sizes were measured: they are left out together.
FAMILIES = ("bert", "yolo11", "yolo26", "yolov8")


def rows() -> list[Row]:
    """All of the tables."""
    found = []
    for table, version in TABLES.items():
        with table.open(newline="") as file:
            found += [row for r in csv.DictReader(file) for row in _rows(r, version)]
    return found


def older() -> list[Row]:
    """Runs under earlier releases."""
    with OLDER.open(newline="") as file:
        return [row for r in csv.DictReader(file) for row in _rows(r, r["source"])]


def _rows(r: dict[str, str], version: str) -> Iterator[Row]:
    device = r["device"]
    sockets = SOCKETS if device.startswith("xeon") and not device.startswith(SINGLE) else 1
    for name, text in r.items():
        precision, _, unit = name.partition("_")
        if unit not in ("fps", "ms") or not text:
            continue
        offline = unit == "fps"
        yield Row(
            model=r["model"],
            device=device,
            runtime="openvino",
            precision=precision,
            scenario="Offline" if offline else "SingleStream",
            version=version,
            seconds=sockets / float(text) if offline else float(text) * 1e-3,
            rows=1,
            group=next((f for f in FAMILIES if r["model"].startswith(f)), r["model"]),
            batches=_requests(device, version) if offline else (1,),
            called=version == "Ultralytics",
            sizes=SIZES.get(r["model"], ()),
        )


def _requests(device: str, version: str) -> tuple[int, ...]:
    if version == "OpenVINO 2025" and device.startswith(_GPUS):
        return STREAMS
    return next((b for name, b in _REQUESTS.items() if device.startswith(name)), BATCHES)
