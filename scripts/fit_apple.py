"""Fits what eager PyTorch attains on Apple's GPUs (Metal) to public runs.

    python scripts/fit_apple.py [--write]

Rows are those of benchmarks/data/apple: square products, ResNet-50's forward passes and training
steps. Two figures are fitted: the shares of the peak in products and in convolutions. The share of
the bandwidth is that of sums and concatenations (`MEMORY`), a launch is an assumption (`START_S`).
Errors are those of a device left out. Versions differ: before PyTorch 2.3 a linear layer on an M1
or M2 took three times what a product takes. ``--write`` replaces the class in
src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

import constants_file
from calibration_solver import least_squares
from gambrel.analysis.estimate.constants import Shares, packaged
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.catalog import load
from gambrel.ops import Conventions

ROWS: Final = Path(__file__).parents[1] / "benchmarks/data/apple/rows.csv"
#: Sums over 512 MB and concatenations to as much on M1 Max, M2 Max, M2 Ultra and M3 Max: 0.85 to
#: 0.92 of the bandwidth (github.com/TristanBilot/mlx-benchmark @ccaeaf95, column mps).
MEMORY: Final = 0.87
#: An op takes the host 25 to 110 µs on an M1 Max (github.com/pytorch/pytorch/issues/82707, 2022);
#: the one row of a single image says 125, with what its script does around the passes.
START_S: Final = 60e-6
FIRST: Final = {"compute": 0.75, "convolution": 0.33}
STIFF: Final = 0.1
RANGE: Final = (0.6, 2.0)
MATCH: Final = ("apple",)


class Row(NamedTuple):
    """One published run."""

    device: str
    model: str
    precision: str
    bench: Workbench
    seconds: float


def rows() -> list[Row]:
    """All of them."""
    with ROWS.open(newline="") as file:
        return [
            Row(
                r["device"],
                r["model"],
                r["precision"],
                captured(r["model"], r["phase"], int(r["batch"])),
                float(r["seconds"]),
            )
            for r in csv.DictReader(file)
        ]


@cache
def captured(model: str, phase: str, batch: int) -> Workbench:
    """A square product, or ResNet-50; training is on the 101 classes of Food-101."""
    import torch

    import gambrel
    from gambrel.capture.torch import ensure_torchvision

    if model.startswith("matmul"):
        side = model.partition("=")[2]
        return Workbench(gambrel.load_model(f"{model},n={side},k={side}"), {}, Conventions())
    ensure_torchvision()
    import torchvision

    trains = phase == "train"
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        module = torchvision.models.resnet50(num_classes=101 if trains else 1000).train(trains)
        images = torch.empty(batch, 3, 224, 224)
        return Workbench(gambrel.load_model(module, inputs=images, train=trains), {}, Conventions())


def class_of(values: dict[str, float], error: float | None, count: int) -> Shares:
    """The class by what is fitted."""
    of = {k: float(f"{v:.3g}") for k, v in values.items()}
    return Shares(
        runtime="pytorch",
        match=MATCH,
        memory=MEMORY,
        compute=of["compute"],
        compute_stored=of["compute"],
        unpack=0.0,
        start_s=START_S,
        convolution=of["convolution"],
        low=RANGE[0],
        high=RANGE[1],
        confidence="low",
        rows=count,
        error=error,
        why="shares of the roofs that eager PyTorch attains on Apple GPUs",
        source="public reports, each named in benchmarks/data/apple/README.md (figures only)",
    )


def ratios(data: Sequence[Row], values: dict[str, float]) -> Any:
    """Expected over measured."""
    base = packaged()
    own = class_of(values, None, len(data))
    kept = tuple(s for s in base.shares if not is_own(s.runtime, s.match))
    calibration = msgspec.structs.replace(base, shares=(own, *kept))
    found = []
    for row in data:
        settings = Settings(precision=row.precision, runtime="pytorch", calibration=calibration)
        total = answered(row.bench, Machine(load(row.device), settings), settings).expected.total
        assert total is not None
        found.append(total.value / row.seconds)
    return np.array(found)


def is_own(runtime: str, match: Sequence[str]) -> bool:
    """Whether a class is the one that is fitted here."""
    return (runtime, tuple(match)) == ("pytorch", MATCH)


def fit(data: Sequence[Row]) -> dict[str, float]:
    """What fits them best."""
    first = np.log(list(FIRST.values()))

    def values(z: Any) -> dict[str, float]:
        return dict(zip(FIRST, np.exp(z), strict=True))

    def residual(z: Any) -> Any:
        return np.concatenate([np.log(ratios(data, values(z))), STIFF * (z - first)])

    found = values(least_squares(residual, first))
    return {k: float(v) for k, v in found.items()}


def left_out(data: Sequence[Row]) -> list[tuple[Row, float]]:
    """Each row with what it is expected to take by the other devices."""
    found = []
    for device in dict.fromkeys(r.device for r in data):
        test = [r for r in data if r.device == device]
        off = ratios(test, fit([r for r in data if r.device != device]))
        found += [(r, float(x) * r.seconds) for r, x in zip(test, off, strict=True)]
    return found


def main() -> None:
    """Prints errors; writes the class where asked."""
    data = rows()
    values = fit(data)
    error = float(np.mean([abs(s / r.seconds - 1) for r, s in left_out(data)]))
    print({k: float(f"{v:.3g}") for k, v in values.items()}, f"device left out: {error:.1%}")
    for row, ratio in zip(data, ratios(data, values), strict=True):
        print(f"  {row.device:<9} {row.model:<16} {row.seconds:8.4f} s  {ratio:.2f}")
    if "--write" in sys.argv[1:]:
        content = constants_file.read()
        own = class_of(values, round(error, 3), len(data))
        one = {k: v for k, v in msgspec.to_builtins(own).items() if v is not None}
        kept = [s for s in content["shares"] if not is_own(s["runtime"], s["match"])]
        content["shares"] = [*kept, one]
        constants_file.write(content)


if __name__ == "__main__":
    main()
