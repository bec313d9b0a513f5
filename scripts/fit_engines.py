"""Fits the constants of engines on whole classes of devices; prints errors on models left out.

    python scripts/fit_engines.py FOLDER [--write]

FOLDER holds ``truth/mlperf_inference.csv``; runs on cards and Jetson modules come with the project.
One set of constants serves all devices of a class; only energies per FLOP differ, by process.
Errors and ranges come from fits without one model after another, and without one device after
another. ``--write`` replaces the section ``engines`` of
src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import card_rows
import constants_file
import jetson_rows
import openvino_rows
from gambrel.analysis.estimate import packaged
from gambrel.analysis.estimate.engine import machine_of
from gambrel.analysis.estimate.engine_constants import EngineConstants
from gambrel.analysis.estimate.engine_forms import (
    EngineMachine,
    copied_s,
    kernel_times,
    running,
    whole_run,
)
from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.tiled_fit import minimized
from gambrel.device.catalog import load
from gambrel.device.roofs import resolve
from gambrel.runtimes import matches
from mlperf_rows import Row, rows, tables

ROOT = Path(__file__).parents[1]
MLPERF = (
    "mlcommons/inference_results_v3.0 @1948f9b5 and v4.1 @198fc467, Apache-2.0 (figures only), "
    "2026-11-22"
)
CARDS = (
    "NVIDIA/TensorRT demo/BERT/README.md @768d994b and @007c3470, Apache-2.0 (figures only); model "
    "pages of Ultralytics (figures only); see benchmarks/data/cards, 2026-11-24"
)
INTEL = (
    "openvinotoolkit/openvino OV-2024.3-benchmark-data.csv @d4525174 and earlier releases, "
    "Apache-2.0 (figures only); "
    "see benchmarks/data/openvino, 2026-11-26"
)
YOLO = (
    "ultralytics/ultralytics docs/en/integrations/openvino.md (figures only); see "
    "benchmarks/data/openvino, 2026-11-28"
)
#: Weight of a factor of e from the start, which is a guess from the physics of such kernels.
PULL = 0.3
#: Share of the held-out rows beyond each end of a range.
TAIL = 0.02
#: Models from which on a number format has a range of its own.
ENOUGH = 5
#: Of fewer rows in a number format half as many lie beyond each end.
SMALL = 60
#: How much wider a range is where neither the model nor the device was measured. Assumed.
BOTH = 1.15
#: No share is more than whole, and no memory attains all of its bandwidth.
MOST = {
    "compute": 0.95,
    "attention": 0.95,
    "memory": 0.95,
    "cache": 1.0,
    "small": 1.0,
    "wave": 1.0,
    "apart": 1.0,
    "kept": 1.0,
    "matrix": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """A class of devices: where its fit starts, and what is said of it.

    Attributes:
        runtime: Id.
        start: Constants from what is known of such kernels before any of these rows.
        free: Names of those that the rows can tell.
        pull: Weight of a factor of e from the start.
        alike: Whether every device weighs alike, however few of its runs are known.
    """

    runtime: str
    match: tuple[str, ...]
    start: dict[str, float]
    free: tuple[str, ...]
    flop_energy: dict[str, float]
    formats: dict[str, float]
    lanes_per_unit: float
    confidence: str
    why: str
    source: str = MLPERF
    pull: float = PULL
    alike: bool = False


GPU = {
    "compute": 0.8, "attention": 0.3, "gather": 0.8, "small": 0.8, "wave": 0.5, "finish": 4.0,
    "tap": 10.0, "element": 4.0, "memory": 0.85, "cache": 0.5, "kept": 0.7, "launch": 5000.0,
    "step": 60.0, "start_s": 5e-5, "apart": 0.75,
}  # fmt: skip
#: Per FLOP in int8, J: 12 nm, 7 nm, Samsung 8 nm, 4N.
ENERGY = {"Turing": 1.1e-12, "GA100": 0.65e-12, "Ampere": 1.0e-12, "Ada": 0.45e-12}
#: Processes that an architecture shares with one of `ENERGY`.
SAME_PROCESS = {
    "Volta": "Turing",
    "Hopper": "Ada",
    "sm_120": "Ada",
    "Comet Lake": "Coffee Lake",
    "Raptor Lake": "Alder Lake",
    "Tiger Lake": "Alder Lake",
}
#: Of a processor: its tiles are small, its clock is told from its power, a kernel waits for its
#: threads, softmax and what stands by itself take functions in 32 bits. A single row waits for its
#: operand: one load for each product.
CPU = {
    **GPU, "compute": 0.85, "gather": 0.3, "small": 1.0, "wave": 0.5, "tap": 2.5, "element": 20.0,
    "memory": 0.8, "cache": 0.3, "kept": 0.5, "launch": 10000.0, "step": 0.0, "start_s": 1e-5,
    "turbo": 0.9, "sync": 400.0, "fine": 0.8, "finest": 0.9, "single": 0.5,
    "softmax": 300.0,
}  # fmt: skip
#: Per FLOP in fp32 of a processor at 1 GHz, J.
CPU_ENERGY = 7e-12
#: Of an Intel GPU.
XE = {
    **GPU, "compute": 0.4, "element": 20.0, "launch": 10000.0, "softmax": 200.0, "single": 0.5,
}  # fmt: skip
XE_FREE = (
    "compute", "attention", "wave", "finish", "tap", "element", "memory", "kept", "launch", "step",
    "start_s", "softmax",
)  # fmt: skip
#: Of the memory's bandwidth and of the last cache what OpenVINO uses on processors without AMX: the
#: few runs with AMX cannot tell one from the other.
MEMORY = {"memory": 0.8851, "kept": 0.4265}
#: How long threads on Xeons with AMX wait for each other, by OpenVINO's runs: it calls oneDNN, too.
#: MLPerf's runs are of large batches and cannot tell.
THREADS = {"launch": 10160.0, "sync": 365.1}
#: Weight of the start where a class has few rows far from any guess.
FEW = 0.1
CLASSES = (
    Class(  # before all NVIDIA devices: the first that matches counts
        runtime="tensorrt",
        match=("jetson",),
        # A single row has a kernel that reads its weights once; small GPUs feel tiles of 64 rows.
        start={**GPU, "launch": 6000.0, "start_s": 2e-4, "call_s": 3e-4, "single": 0.5},
        free=(*GPU, "call_s"),
        flop_energy={},
        formats={"int8": 1.0, "fp16": 2.0, "tf32": 4.0},
        lanes_per_unit=128,
        confidence="medium",
        why="whole runs under TensorRT on Jetson modules",
        source=(
            "figures published by Ultralytics (docs/en/guides/nvidia-jetson.md), Nota (NetsPresso "
            "Trainer), hokwangchoi and the0807 on GitHub; see benchmarks/data/jetson, 2026-11-22"
        ),
    ),
    Class(
        runtime="tensorrt",
        match=("nvidia",),
        start=GPU,
        free=tuple(GPU),
        flop_energy=ENERGY,
        formats={"int8": 1.0, "fp8": 1.1, "fp16": 2.0},
        lanes_per_unit=128,
        confidence="medium",
        why="whole runs under TensorRT on 15 GPUs: MLPerf Inference, BERT, YOLO",
        source=f"{MLPERF}; {CARDS}",
    ),
    Class(
        runtime="ipex",
        match=("xeon",),
        start={
            **GPU, "compute": 0.5, "gather": 100.0, "small": 1.0, "wave": 0.0, "attention": 0.3,
            **THREADS, "start_s": 0.0, "apart": 0.0,
        },
        free=("compute", "finish"),
        flop_energy={},
        formats={"int8": 1.0},
        lanes_per_unit=32,
        confidence="low",
        why="whole runs of MLPerf Inference on two Xeons, by oneDNN's kernels under PyTorch",
    ),
    Class(
        runtime="openvino",
        match=("amx",),
        start={**CPU, **MEMORY, "matrix": 0.5},
        free=(
            "compute", "attention", "gather", "wave", "finish", "tap", "element",
            "cache", "launch", "sync", "softmax", "matrix",
        ),
        flop_energy={"Rapids": CPU_ENERGY},
        formats={"int8": 1.0, "bf16": 2.0, "fp32": 4.0},
        lanes_per_unit=32,
        confidence="low",
        why="whole runs under OpenVINO on three Xeons with AMX",
        source=INTEL,
    ),
    Class(
        runtime="openvino",
        match=("xeon", "core-i", "core-ultra"),
        start=CPU,
        free=(
            "compute", "attention", "gather", "wave", "finish", "tap", "element", "memory", "kept",
            "cache", "launch", "sync", "softmax",
        ),
        flop_energy=dict.fromkeys(
            (
                "Cascade Lake", "Ice Lake", "Coffee Lake", "Alder Lake", "Meteor Lake",
                "Lunar Lake",
            ),
            CPU_ENERGY,
        ),
        formats={"int8": 1.0, "fp32": 4.0},
        lanes_per_unit=32,
        confidence="medium",
        why="whole runs under OpenVINO on 23 processors of Intel's without AMX",
        source=f"{INTEL}; {YOLO}",
        alike=True,
    ),
    Class(
        runtime="openvino",
        match=("xe-hpg",),
        start={**XE, "launch": 30000.0},
        free=(
            "compute", "attention", "wave", "element", "memory", "kept", "launch", "start_s",
            "softmax",
        ),
        flop_energy={},
        formats={"int8": 1.0, "fp16": 2.0},
        lanes_per_unit=128,
        confidence="low",
        why="whole runs under OpenVINO on two cards with one chip, small kernels twofold apart",
        source=INTEL,
        pull=FEW,
    ),
    Class(
        runtime="openvino",
        match=("xe-lp",),
        start=XE,
        free=XE_FREE,
        flop_energy={},
        formats={"int8": 1.0, "fp16": 2.0},
        lanes_per_unit=128,
        confidence="medium",
        why="whole runs under OpenVINO on three integrated GPUs",
        source=INTEL,
        pull=FEW,
    ),
)  # fmt: skip


class Runs:
    """Measured runs as arrays: every kernel of every batch of every row in one line.

    Args:
        measured: Rows.
        one: Their class.
    """

    def __init__(self, measured: Sequence[Row], one: Class) -> None:
        self.rows = tuple(measured)
        bare = constants_of(one, one.start, one.flop_energy, one.formats)
        columns: dict[str, list[Any]] = {}
        self._machines: list[EngineMachine] = []
        peaks, self._formats, sizes, self._row, self._batch, handed = [], [], [], [], [], []
        for index, row in enumerate(measured):
            device = load(row.device)
            machine, _ = machine_of(device, bare)
            for batch, table in tables(row):
                for name, values in table.columns.items():
                    columns.setdefault(name, []).append(values)
                self._formats += [k.dtype for k in table.kernels]
                peaks += [_peak(device, k.dtype) for k in table.kernels]
                sizes.append(len(table.kernels))
                handed.append(table.handed)
                self._machines.append(machine)
                self._row.append(index)
                self._batch.append(batch if row.scenario == "Offline" else 1)
        self._columns = {name: np.concatenate(parts) for name, parts in columns.items()}
        self._peaks, self._sizes = np.array(peaks), np.array(sizes)
        self._first = np.cumsum([0, *sizes])[:-1]
        self._rows_of = np.array(self._row)
        self._handed, self._images = np.array(handed).T
        self._architectures = [load(measured[i].device).architecture for i in self._row]
        self._called = np.array([r.called for r in measured])
        self.seconds = np.array([r.seconds for r in measured])

    def predicted(self, c: EngineConstants) -> Any:
        """Seconds of each row, at its best batch."""
        flop_j = np.array([c.flop_energy_of(a) for a in self._architectures])
        energies = {f: c.energy_of(f) for f in set(self._formats)}
        machine = self._machine(c, flop_j)
        times = kernel_times(
            c.constants,
            self._spread(machine),
            self._columns,
            self._peaks,
            np.array([energies[f] for f in self._formats]),
        )
        count = self._columns["count"]
        busy = np.add.reduceat(times.whole * count, self._first)
        energy = np.add.reduceat(times.energy_j * count, self._first)
        waits, beside = copied_s(c.constants, self._handed, self._images)
        whole = whole_run(machine, c.constants["start_s"] + waits, busy, energy, beside)
        best = np.full(len(self.rows), np.inf)
        np.minimum.at(best, self._rows_of, whole / np.array(self._batch))
        return best + c.constants.get("call_s", 0.0) * self._called

    def _machine(self, c: EngineConstants, flop_j: Any) -> EngineMachine:
        """Each batch's device, at the clock that it holds."""

        def of(name: str) -> Any:
            return np.array([getattr(m, name) for m in self._machines])

        names = (n for n in EngineMachine.__struct_fields__ if n != "flop_j")
        machine = EngineMachine(flop_j=flop_j, **{name: of(name) for name in names})
        return running(c.constants, machine)

    def _spread(self, machine: EngineMachine) -> EngineMachine:
        """One entry for each kernel."""
        names = EngineMachine.__struct_fields__
        return EngineMachine(**{n: np.repeat(getattr(machine, n), self._sizes) for n in names})


def _peak(device: Any, dtype: str) -> float:
    roof = resolve(device, "matrix", dtype) if dtype else None
    return roof.flop_per_s if roof else 1.0


def main() -> None:
    """Fits, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", help="id of the runtime to fit; the others stay as they are")
    options = parser.parse_args()
    found = [
        *rows(options.folder),
        *card_rows.rows(),
        *jetson_rows.rows(),
        *openvino_rows.rows(),
    ]
    known = {(c.runtime, c.match): c for c in packaged().engines}
    fitted = [
        known[one.runtime, one.match]
        if options.only not in (None, one.runtime)
        else fit_class(one, found)
        for one in CLASSES
    ]
    for c in fitted:
        print(msgspec.json.format(msgspec.json.encode(c)).decode())
    if options.write:
        engines = json.loads(msgspec.json.encode(fitted))
        constants_file.write(constants_file.read() | {"engines": engines})


def rows_of(one: Class, found: Sequence[Row]) -> list[Row]:
    """Those of a class: the first that matches a row's device."""

    def first(row: Row) -> Class | None:
        device = load(row.device)
        fitting = (c for c in CLASSES if c.runtime == row.runtime and matches(c.match, device))
        return next(fitting, None)

    return [r for r in found if first(r) is one]


def is_fitted(row: Row) -> bool:
    """RetinaNet of v3.0 spends a fifth of its time in non-maximum suppression, of v4.1 little."""
    suppressed = row.model == "retinanet" and row.version == "3.0"
    return not suppressed and card_rows.is_seen(row)


def fit_class(one: Class, found: Sequence[Row]) -> EngineConstants:
    """Constants of a class with their errors."""
    own = rows_of(one, found)
    c = fit(one, own)
    by_model = left_out(one, own, lambda r: r.group)
    by_device = left_out(one, own, lambda r: r.device)
    ratios = [r.seconds / t for r, t in zip(own, by_model, strict=True)]
    both = ratios + [r.seconds / t for r, t in zip(own, by_device, strict=True)]
    low, high = ends_of(ratios, TAIL)
    errors = [abs(1 / r - 1) for r in ratios]
    far = ends_of(both, TAIL)
    ranges = by_format(own, ratios)
    # A device that was not measured is not surer than one that was.
    lows, highs = zip(far, *ranges.values(), strict=True)
    far = min(lows), max(highs)
    return msgspec.structs.replace(
        c,
        low=low,
        high=high,
        ranges=ranges,
        far_low=round(far[0] / BOTH, 3),
        far_high=round(far[1] * BOTH, 3),
        held_out=HeldOut(
            points=len(own),
            mape=round(statistics.fmean(errors), 4),
            median=round(statistics.median(errors), 4),
            inside=round(sum(low <= r <= high for r in ratios) / len(ratios), 4),
            width=round(high / low, 3),
            by_framework={},
        ),
    )


def by_format(own: Sequence[Row], ratios: Sequence[float]) -> dict[str, tuple[float, float]]:
    """The ends of each number format that was measured with models enough."""
    found: dict[str, list[float]] = defaultdict(list)
    models: dict[str, set[str]] = defaultdict(set)
    for row, ratio in zip(own, ratios, strict=True):
        found[row.precision].append(ratio)
        models[row.precision].add(row.group)
    enough = {f: r for f, r in sorted(found.items()) if len(models[f]) >= ENOUGH}
    return {f: ends_of(r, TAIL / 2 if len(r) < SMALL else TAIL) for f, r in enough.items()}


def ends_of(ratios: Sequence[float], tail: float) -> tuple[float, float]:
    """Between which all but the tails lie."""
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return round(float(low), 3), round(float(high), 3)


def left_out(one: Class, own: Sequence[Row], key: Any) -> list[float]:
    """Seconds of each row by constants that saw no row with its key."""
    expected: dict[int, float] = {}
    for name in sorted({key(r) for r in own}):
        c = fit(one, [r for r in own if key(r) != name])
        held = [(i, r) for i, r in enumerate(own) if key(r) == name]
        times = Runs([r for _, r in held], one).predicted(c)
        expected |= {i: float(t) for (i, _), t in zip(held, times, strict=True)}
    return [expected[i] for i in range(len(own))]


def fit(one: Class, measured: Sequence[Row]) -> EngineConstants:
    """The constants that describe runs best."""
    used = [r for r in measured if is_fitted(r)]
    runs = Runs(used, one)
    processes = tuple(p for p in one.flop_energy if _is_shown(p, used))
    relative = tuple(f for f in one.formats if f != "int8")
    count = len(one.free) + len(processes) + len(relative)

    def scaled(x: Any) -> EngineConstants:
        factors = iter(np.exp(x))
        constants = {**one.start, **{n: one.start[n] * next(factors) for n in one.free}}
        constants = {n: min(v, MOST.get(n, v)) for n, v in constants.items()}
        energy = {n: one.flop_energy[n] * next(factors) for n in processes}  # else unknown
        formats = {**one.formats, **{n: one.formats[n] * next(factors) for n in relative}}
        return constants_of(one, constants, energy, formats, used)

    weights = _weights(used) if one.alike else 1.0

    def residuals(x: Any) -> Any:
        return weights * np.log(runs.predicted(scaled(x)) / runs.seconds)

    return rounded(scaled(minimized(residuals, count, one.pull)))


def _is_shown(process: str, used: Sequence[Row]) -> bool:
    """Whether a row is of a device made so."""
    like = {process, *(k for k, v in SAME_PROCESS.items() if v == process)}
    return any(p in load(r.device).architecture for r in used for p in like)


def _weights(used: Sequence[Row]) -> Any:
    """Of each row, so that all devices weigh alike and a row weighs 1 on average."""
    counts = Counter(r.device for r in used)
    each = np.array([counts[r.device] for r in used])
    return np.sqrt(len(used) / len(counts) / each)


def rounded(c: EngineConstants) -> EngineConstants:
    """As they are stored: four digits say more than the rows."""

    def few(values: dict[str, float]) -> dict[str, float]:
        return {k: float(f"{v:.4g}") for k, v in values.items()}

    return msgspec.structs.replace(
        c,
        constants=few(c.constants),
        flop_energy=few(c.flop_energy),
        formats=few(c.formats),
    )


def constants_of(
    one: Class,
    constants: dict[str, float],
    energy: dict[str, float],
    formats: dict[str, float],
    used: Sequence[Row] = (),
) -> EngineConstants:
    """Without errors."""
    energy = energy | {k: energy[v] for k, v in SAME_PROCESS.items() if v in energy}
    return EngineConstants(
        runtime=one.runtime,
        match=one.match,
        constants=constants,
        flop_energy=energy,
        lanes_per_unit=one.lanes_per_unit,
        formats=formats,
        devices=tuple(sorted({r.device for r in used})),
        rows=sum(r.rows for r in used),
        models=len({r.group for r in used}),
        low=1.0,
        high=1.0,
        far_low=1.0,
        far_high=1.0,
        confidence=one.confidence,
        why=one.why,
        source=one.source,
    )


if __name__ == "__main__":
    main()
