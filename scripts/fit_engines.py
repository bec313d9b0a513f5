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
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import card_rows
import constants_file
import jetson_rows
import openvino_rows
from engine_classes import CLASSES, Class
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
#: Processes that an architecture shares with one that the rows show.
SAME_PROCESS = {
    "Volta": "Turing",
    "Hopper": "Ada",
    "sm_120": "Ada",
    "Comet Lake": "Coffee Lake",
    "Raptor Lake": "Alder Lake",
    "Tiger Lake": "Alder Lake",
}


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
    """RetinaNet of v3.0 spends a fifth of its time in non-maximum suppression, of v4.1 little.

    What is behind SSD-ResNet34 takes most of its time on Battlemage: it is no faster in int8 than
    in fp16, nor than on an integrated GPU with a third of the units.
    """
    suppressed = row.model == "retinanet" and row.version == "3.0"
    behind = row.model == "ssd-resnet34" and row.device.startswith("arc-b5")
    return not suppressed and not behind and card_rows.is_seen(row)


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
        shown = {n: one.flop_energy[n] * next(factors) for n in processes}
        energy = one.flop_energy | shown if one.known else shown
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
