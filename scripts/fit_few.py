"""Fits classes of devices of which few runs are published to these (`analysis/estimate/shares.py`).

    python scripts/fit_few.py [--write]

Rows are those of benchmarks/data/few. Of each class (`CLASSES`) what is attained of the peaks is
fitted: in products, on a matrix engine, in convolutions. The share of the bandwidth and the time of
a launch are taken from elsewhere, as the class says. Errors are those of a device left out.
``--write`` replaces the classes in src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

import constants_file
import gambrel
from calibration_solver import least_squares
from fit_radeon import network
from gambrel.analysis.estimate.constants import Shares, packaged
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.catalog import load
from gambrel.ops import Conventions
from gambrel.runtimes import matches

ROWS: Final = Path(__file__).parents[1] / "benchmarks/data/few/rows.csv"
SOURCE: Final = "public reports, each named in benchmarks/data/few/README.md (figures only)"
STIFF: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Class:
    """One class of devices under a runtime.

    Attributes:
        name: For the reader.
        runtime: Id.
        match: Patterns of its devices.
        first: What is fitted, before the fit.
        memory: Share of the bandwidth.
        start_s: Time of a launch.
        ends: Of measured over expected.
    """

    name: str
    runtime: str
    match: tuple[str, ...]
    first: dict[str, float]
    memory: float
    start_s: float
    ends: tuple[float, float]


CLASSES: Final = (
    # Memory: sums over 512 MB and concatenations to as much on M1 Max, M2 Max, M2 Ultra and M3 Max,
    # 0.85 to 0.92 of the bandwidth (github.com/TristanBilot/mlx-benchmark @ccaeaf95, column mps).
    # A launch: 25 to 110 µs on an M1 Max (github.com/pytorch/pytorch/issues/82707, 2022); the one
    # row of a single image says 125, with what its script does around the passes. Before PyTorch
    # 2.3 a linear layer on an M1 or M2 took three times what a product takes.
    Class(
        name="eager PyTorch, Apple GPUs",
        runtime="pytorch",
        match=("apple",),
        first={"compute": 0.75, "convolution": 0.33},
        memory=0.87,
        start_s=60e-6,
        ends=(0.6, 2.0),
    ),
    # Memory: copies of hundreds of megabytes on an A770 (chsasank/device-benchmarks @06f4d7e2). A
    # launch is an assumption; no row shows it.
    Class(
        name="eager PyTorch, Intel Arc",
        runtime="pytorch",
        match=("xe-hpg", "xe2-hpg", "xe-hpc", "xe-lpg"),
        first={"compute": 0.8, "matrix": 0.6, "convolution": 0.5},
        memory=0.8,
        start_s=30e-6,
        ends=(0.55, 2.0),
    ),
    # Memory and a launch: what serving engines attain on TPUs (`fit_accelerators.py`); no row here
    # shows a small batch.
    Class(
        name="XLA, TPUs",
        runtime="xla",
        match=("tpu-v",),
        first={"compute": 0.5, "convolution": 0.5},
        memory=0.72,
        start_s=11.6e-6,
        ends=(0.55, 2.0),
    ),
)


class Row(NamedTuple):
    """One published run."""

    runtime: str
    device: str
    model: str
    phase: str
    precision: str
    bench: Workbench
    seconds: float


def rows() -> list[Row]:
    """All of them."""
    with ROWS.open(newline="") as file:
        return [
            Row(
                r["runtime"],
                r["device"],
                r["model"],
                r["phase"],
                r["precision"],
                captured(r["model"], r["phase"], int(r["batch"])),
                float(r["seconds"]),
            )
            for r in csv.DictReader(file)
        ]


def rows_of(one: Class, data: Sequence[Row]) -> list[Row]:
    """Those of a class."""
    return [r for r in data if r.runtime == one.runtime and matches(one.match, load(r.device))]


@cache
def captured(model: str, phase: str, batch: int) -> Workbench:
    """A square product, a pipeline of the zoo, or a network of torchvision."""
    if model.startswith("matmul"):
        side = model.partition("=")[2]
        return Workbench(gambrel.load_model(f"{model},n={side},k={side}"), {}, Conventions())
    if model == "stable-diffusion-xl":  # as MLPerf asks
        workload = gambrel.load_model(model, sizes={"steps": 20})
        return Workbench(workload, workload.resolve_symbols({"batch": batch}), Conventions())
    workload = network(model, batch, train=phase == "train")
    return Workbench(workload, {}, Conventions())


def shares_of(one: Class, values: dict[str, float], error: float | None, count: int) -> Shares:
    """The class by what is fitted."""
    of = {k: float(f"{v:.3g}") for k, v in values.items()}
    return Shares(
        runtime=one.runtime,
        match=one.match,
        memory=one.memory,
        compute_stored=of["compute"],
        unpack=0.0,
        start_s=one.start_s,
        low=one.ends[0],
        high=one.ends[1],
        confidence="low",
        rows=count,
        error=error,
        why=f"shares of the roofs that public runs attain ({one.name})",
        source=SOURCE,
        **of,
    )


def ratios(one: Class, data: Sequence[Row], values: dict[str, float]) -> Any:
    """Expected over measured."""
    base = packaged()
    own = shares_of(one, values, None, len(data))
    kept = tuple(s for s in base.shares if (s.runtime, s.match) != (one.runtime, one.match))
    calibration = msgspec.structs.replace(base, shares=(own, *kept))
    found = []
    for row in data:
        settings = Settings(precision=row.precision, runtime=one.runtime, calibration=calibration)
        total = answered(row.bench, Machine(load(row.device), settings), settings).expected.total
        assert total is not None
        found.append(total.value / row.seconds)
    return np.array(found)


def fit(one: Class, data: Sequence[Row]) -> dict[str, float]:
    """What fits them best."""
    first = np.log(list(one.first.values()))

    def values(z: Any) -> dict[str, float]:
        return {k: min(1.0, float(v)) for k, v in zip(one.first, np.exp(z), strict=True)}

    def residual(z: Any) -> Any:
        return np.concatenate([np.log(ratios(one, data, values(z))), STIFF * (z - first)])

    return values(least_squares(residual, first))


def left_out(one: Class, data: Sequence[Row]) -> list[tuple[Row, float]]:
    """Each row of a class with what it is expected to take by the other devices."""
    found = []
    for device in dict.fromkeys(r.device for r in data):
        test = [r for r in data if r.device == device]
        off = ratios(one, test, fit(one, [r for r in data if r.device != device]))
        found += [(r, float(x) * r.seconds) for r, x in zip(test, off, strict=True)]
    return found


def main() -> None:
    """Prints errors; writes the classes where asked."""
    everything = rows()
    fresh = []
    for one in CLASSES:
        data = rows_of(one, everything)
        values = fit(one, data)
        error = float(np.mean([abs(s / r.seconds - 1) for r, s in left_out(one, data)]))
        said = {k: float(f"{v:.3g}") for k, v in values.items()}
        print(f"{one.name}: {said}, device left out: {error:.1%}")
        for row, ratio in zip(data, ratios(one, data, values), strict=True):
            print(f"  {row.device:<14} {row.model:<20} {row.seconds:8.4f} s  {ratio:.2f}")
        own = msgspec.to_builtins(shares_of(one, values, round(error, 3), len(data)))
        fresh.append({k: v for k, v in own.items() if v is not None})
    if "--write" in sys.argv[1:]:
        content = constants_file.read()
        replaced = {(c.runtime, c.match) for c in CLASSES}
        kept = [s for s in content["shares"] if (s["runtime"], tuple(s["match"])) not in replaced]
        content["shares"] = kept + fresh
        constants_file.write(content)


if __name__ == "__main__":
    main()
