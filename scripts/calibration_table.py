"""Measured kernel times as arrays, and what a fit needs to know of a formula."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibration_replay import CACHED, START, model_constants, of_replay
from gambrel.analysis.estimate.chip import chip_of
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.kinship import kin_of
from gambrel.device import catalog

#: Name in the files → device of the catalog.
DEVICES = {
    "h100-sxm5-80gb": "h100_sxm",
    "a100-sxm4-80gb": "a100_sxm",
    "l40s": "l40s",
    "b200-hgx-180gb": "b200_sxm",
}
_BACK = {v: k for k, v in DEVICES.items()}
_MACHINES: dict[str, Any] = {}


class Rows:
    """Columns of equal length."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["seconds"])

    def take(self, mask: Any) -> Rows:
        return Rows({k: v[mask] for k, v in self.columns.items()})

    def part(self, fold: int) -> Rows:
        """One of two parts of a half, split by shape as the halves are."""
        return self.take(self["fold"] == fold)

    def stacks(self) -> list[str]:
        return sorted(set(self["stack"]))

    def weight(self) -> Any:
        """Each stack counts alike; all rows together weigh as 1,000."""
        stacks = self.stacks()
        count = {s: (self["stack"] == s).sum() for s in stacks}
        return np.sqrt([1000 / len(stacks) / count[s] for s in self["stack"]])


@dataclass(frozen=True, kw_only=True)
class Formats:
    """Number formats that share a set of constants.

    Attributes:
        names: As the package calls them.
        labels: As the rows are labelled.
        initial: Start values that differ from those of the form.
        fixed: Constants that are not fitted.
        pooled: Whether a set for any stack averages over all, because they call one library, or
            because no stack's kernels are as near to those of all as their average is.
        reference: Otherwise, whose kernels a set for any of them describes. vLLM is the widest used
            and calls what torch itself calls; another where it runs a path of its own (expert
            blocks in fp8, a third of the rate of the others).
        alone: Whether constants of the library differ between devices.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    initial: dict[str, float] = field(default_factory=dict)
    fixed: dict[str, float] = field(default_factory=dict)
    pooled: bool = False
    reference: str = "vllm"
    alone: bool = False

    def mask(self, rows: Rows) -> Any:
        return np.isin(rows["label"], self.labels)

    def start(self, form: Form) -> dict[str, float]:
        return {**START, **form.start, **self.initial}


@dataclass(frozen=True, kw_only=True)
class Form:
    """One formula: where its rows are and which constants it has.

    Attributes:
        own: Constants of one device.
        shared: Constants of the library, one value for all devices of a fit.
        branch: Constants of a second kernel, of stacks that have one.
        fixed: Constants that are not fitted.
        known: Constants that follow from the stack, the device and the formats.
        replayed: Whether rows of devices with a large cache are held against replays over the same
            buffers (calibration_replay.py).
        root: Whether errors are taken of the square root of predicted / measured, instead of its
            logarithm: too long then weighs more than too short, as in a mean relative error.
        usable: Rows that describe the kernel at all; each exclusion is documented.
        key: Columns that name a shape: rows of one shape are never split.
    """

    name: str
    file: str
    key: tuple[str, ...]
    formats: tuple[Formats, ...]
    start: dict[str, float]
    own: tuple[str, ...]
    prepare: Callable[[dict[str, Any]], dict[str, Any]]
    seconds: Callable[[dict[str, float], Any, Rows], Any]
    shared: tuple[str, ...] = ()
    branch: tuple[str, ...] = ()
    fixed: dict[str, float] = field(default_factory=dict)
    known: Callable[[str, str, Formats], dict[str, float]] = lambda *_: {}
    root: bool = False
    least: int = 80
    replayed: bool = False

    def predict(self, constants: dict[str, float], device: str, rows: Rows) -> Any:
        """Expected seconds, the launch included, never below the floor.

        That is the bound; where replays find bytes in the cache only its arithmetic.
        """
        floor = rows["arithmetic"] if CACHED[-1] in constants else rows["bound"]
        return np.maximum(self.seconds(constants, machine(device), rows), floor)

    def cold(self, constants: dict[str, float], device: str, rows: Rows) -> Any:
        """Expected seconds within a model: nothing stays in the cache from run to run."""
        return self.predict(model_constants(constants), device, rows)

    def fitted(self, stack: str, device: str, formats: Formats) -> tuple[str, ...]:
        """Constants of one device that are fitted."""
        known = self.known(stack, device, formats)
        branch = self.branch if "lone_top_k" in known else ()
        replay = of_replay(stack, device, formats.names) if self.replayed else ()
        return self.own + branch + replay

    def error(self, predicted: Any, rows: Rows) -> Any:
        """Relative error of each row, signed."""
        ratio = predicted / rows["seconds"]
        return 2 * (np.sqrt(ratio) - 1) if self.root else np.log(ratio)


def machine(device: str) -> Any:
    if device not in _MACHINES:
        d = catalog.load(device)
        kin = kin_of(d, packaged())
        _MACHINES[device] = (d, chip_of(d, d.level("DRAM").byte_per_s, kin)[0])
    return _MACHINES[device]


def load(folder: Path, form: Form, *, everything: bool = False) -> Rows:
    """The rows of a form; unless ``everything``, only those that its formula describes."""
    raw = [r for path in _files(folder, form) for r in _records(path)]
    names = dict.fromkeys(name for record in raw for name in record)
    columns = {name: _column([r.get(name, "") for r in raw]) for name in names}
    columns["device"] = np.array([_BACK[g] for g in columns["gpu"]])
    columns["stack"] = np.array([f.split("/")[0] for f in columns["framework"]])
    columns["seconds"] = columns["us"] * 1e-6
    columns |= form.prepare(columns)
    keys = ["|".join(str(columns[k][i]) for k in form.key) for i in range(len(raw))]
    hashes = np.array([zlib.crc32(k.encode()) for k in keys])
    columns["half"], columns["fold"] = hashes % 2, hashes // 2 % 2
    rows = Rows(columns)
    return rows if everything else rows.take(columns["usable"])


def _files(folder: Path, form: Form) -> list[Path]:
    """The file of a form, and that of a device which has one of its own."""
    own = folder / f"{Path(form.file).stem}_b200.csv"
    return [folder / form.file, *([own] if own.exists() else [])]


def _records(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def _column(texts: list[str]) -> Any:
    try:
        return np.array([float(t) if t else 0.0 for t in texts])
    except ValueError:
        return np.array(texts)


def peaks(devices: Any, dtypes: Any) -> Any:
    from gambrel.device.roofs import resolve

    table = {}
    for pair in set(zip(devices, dtypes, strict=True)):
        table[pair] = resolve(machine(pair[0])[0], "matrix", pair[1]).flop_per_s
    return np.array([table[p] for p in zip(devices, dtypes, strict=True)])


def bandwidth(devices: Any) -> Any:
    return np.array([machine(d)[1].byte_per_s for d in devices])
