"""Refits the shares of roofs that whole runs attain (`analysis/estimate/shares.py`).

    python scripts/fit_shares.py [--write]

Rows are those of tests/data/published/llama_cpp.csv and, for processors that are not in the
catalog, `MACHINES`. Constants are fitted to the logarithm of measured over predicted; the error is
that of each model left out in turn, the range holds nine rows of ten of the models left out.
``--write`` replaces the shares in src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import gambrel
from gambrel.analysis.estimate.shares import _unpacked, lanes_of
from gambrel.analysis.roofs import roofs_of
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.catalog import load
from gambrel.device.model import Device
from gambrel.workload import Workload

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "tests/data/published"
TARGET = ROOT / "src/gambrel/analysis/calibration/constants.json"
NAMES = ("memory", "compute", "compute_stored", "unpack", "start_s")
FIRST = np.array([0.75, 0.7, 0.6, 8.0, 6e-6])
LEAST = np.array([0.2, 0.05, 0.05, 0.0, 1e-8])
MOST = np.array([0.97, 1.0, 1.0, 60.0, 1e-4])
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """One class of devices: where its rows are, and what is said of them."""

    match: tuple[str, ...]
    categories: tuple[str, ...]
    confidence: str
    alike: bool = False  # no rows of 16-bit weights: they count as stored ones
    why: str


CLASSES = (
    Class(
        match=("apple",),
        categories=("soc gpu",),
        confidence="medium",
        why="shares of bandwidth and peak that llama.cpp and Ollama attain on Apple GPUs",
    ),
    Class(
        match=("cpu",),
        categories=("cpu",),
        confidence="low",
        alike=True,
        why="shares of bandwidth and peak that llama.cpp and Ollama attain on six processors",
    ),
    Class(
        match=("consumer gpu", "workstation gpu"),
        categories=("consumer gpu", "workstation gpu"),
        confidence="medium",
        why="shares of bandwidth and peak that llama.cpp attains on GeForce and RTX cards",
    ),
)
SOURCE = (
    "public reports of llama.cpp and Ollama runs, each named in tests/data/published/llama_cpp.csv "
    "(figures only)"
)
#: FLOP of the vector units per byte of bandwidth where no vector peak is published: what Apple's
#: M2 and M3 have that publish one (M2 34, M2 Max 34, M2 Ultra 34, M3 Max 36).
LANES_PER_BYTE = {"Apple": 34.0}
#: Processors that are not in the catalog: byte/s by the arithmetic of their memory channels, FLOP/s
#: in fp32 as cores x FLOP per cycle x clock under load (None where prompts were not timed).
#: (name, byte/s, FLOP/s, model, format, context or seq, its value, tokens/s, source)
MACHINES = (
    ("i9-13900K, 2 x DDR5-6400", 102.4e9, 2.46e12, "llama-2-7b", "q4_0", "context", 64, 18.27,
     "ggml-org/llama.cpp issue 34"),
    ("i9-13900K, 2 x DDR5-6400", 102.4e9, 2.46e12, "llama-2-7b", "q4_0", "seq", 512, 55.21,
     "ggml-org/llama.cpp issue 34"),
    ("Threadripper 3970X, 4 x DDR4-3200", 102.4e9, 3.79e12, "llama-3.1-8b", "q4_k_m", "context", 64,
     16.78, "brand-o/normiebench issue 52"),
    ("Threadripper 3970X, 4 x DDR4-3200", 102.4e9, 3.79e12, "llama-3.1-8b", "q4_k_m", "seq", 512,
     155.5, "brand-o/normiebench issue 52"),
    ("i5-9500, 2 x DDR4-2666", 42.7e9, 0.787e12, "llama-3.1-8b", "q4_k_m", "context", 64, 6.51,
     "brand-o/normiebench issue 34"),
    ("i5-9500, 2 x DDR4-2666", 42.7e9, 0.787e12, "llama-3.1-8b", "q4_k_m", "seq", 512, 35.43,
     "brand-o/normiebench issue 34"),
    ("AmpereOne A192-32X, 8 x DDR5-5200", 332.8e9, None, "llama-3.1-70b", "q4_k_m", "context", 128,
     3.86, "geerlingguy/ai-benchmarks README"),
    ("AmpereOne A192-32X, 8 x DDR5-5200", 332.8e9, None, "llama-3.2-3b", "q4_k_m", "context", 128,
     23.52, "geerlingguy/ai-benchmarks README"),
    ("AmpereOne A192-32X, 8 x DDR5-5200", 332.8e9, None, "llama-3.1-405b", "q4_k_m", "context", 128,
     0.90, "geerlingguy/ai-benchmarks README"),
    ("Intel N150, 1 x DDR4-3200", 25.6e9, None, "llama-3.2-3b", "q4_k_m", "context", 128, 9.06,
     "geerlingguy/ai-benchmarks README"),
    ("Intel N150, 1 x DDR4-3200", 25.6e9, None, "qwen2.5-14b", "q4_k_m", "context", 128, 2.13,
     "geerlingguy/ai-benchmarks README"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A measured run and what its ops ask for, one entry for each op.

    Attributes:
        model: Its model.
        seconds: Measured.
        count: Executions.
        moved: Seconds at the whole bandwidth.
        worked: Seconds at the whole peak.
        lanes: Seconds to unpack its weights at one lane cycle each.
        stored: Whether weights are unpacked.
        floor: Roofline time, s.
    """

    model: str
    device: str
    seconds: float
    count: Floats
    moved: Floats
    worked: Floats
    lanes: Floats
    stored: NDArray[np.bool_]
    floor: Floats

    def predicted(self, c: Floats) -> float:
        """Seconds under constants in the order of `NAMES`."""
        memory, compute, compute_stored, unpack, start = c
        share = np.where(self.stored, compute_stored, compute)
        slowest = np.maximum(self.moved / memory, self.worked / share)
        each = start + np.maximum(slowest, unpack * self.lanes)
        return float(np.sum(self.count * np.maximum(each, self.floor)))


def main() -> None:
    fitted = [_fit(one) for one in CLASSES]
    if "--write" in sys.argv:
        constants = json.loads(TARGET.read_text(encoding="utf-8"))
        others = [s for s in constants["shares"] if s["runtime"] != "llama-cpp"]
        constants["shares"] = fitted + others
        TARGET.write_text(
            json.dumps(constants, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def runs_of(one: Class) -> list[Run]:
    """The measured runs of a class of devices."""
    mine = [_run(r) for r in _rows() if load(r["device"]).category in one.categories]
    return mine + [_elsewhere(*m) for m in MACHINES if one.match == ("cpu",)]


def left_out(runs: Sequence[Run]) -> list[float]:
    """Seconds of each run by constants that saw no run of its model."""
    out: dict[int, float] = {}
    for model in sorted({r.model for r in runs}):
        without = _constants([r for r in runs if r.model != model])
        out |= {id(r): r.predicted(without) for r in runs if r.model == model}
    return [out[id(r)] for r in runs]


def _fit(one: Class) -> dict[str, object]:
    runs = runs_of(one)
    constants = _constants(runs)
    if one.alike:
        constants[1] = constants[2]
    predicted = np.array(left_out(runs))
    ratios = np.array([r.seconds for r in runs]) / predicted
    errors = np.abs(1 / ratios - 1)
    low, high = np.quantile(ratios, [0.05, 0.95])
    print(one.match, len(runs), "runs:", dict(zip(NAMES, constants.round(8).tolist(), strict=True)))
    print(f"  left out: mean {errors.mean():.1%}, median {np.median(errors):.1%}", end="; ")
    print(f"measured / predicted {low:.2f} to {high:.2f}")
    for device in sorted({r.device for r in runs}):
        own = [e for r, e in zip(runs, errors, strict=True) if r.device == device]
        print(f"    {device:36} {len(own):3} {np.mean(own):.1%}")
    return {
        "runtime": "llama-cpp",
        "match": list(one.match),
        **{n: float(f"{v:.4g}") for n, v in zip(NAMES, constants, strict=True)},
        "lanes_per_byte": LANES_PER_BYTE["Apple"] if one.match == ("apple",) else 0.0,
        "low": round(float(min(low, 0.95)), 3),
        "high": round(float(max(high, 1.05)), 3),
        "confidence": one.confidence,
        "rows": len(runs),
        "error": round(float(errors.mean()), 3),
        "why": one.why,
        "source": SOURCE,
    }


def _constants(runs: Sequence[Run]) -> Floats:
    """Least squares of the logarithms, every device weighing alike."""
    weights = {d: sum(r.device == d for r in runs) ** -0.5 for d in {r.device for r in runs}}

    def residuals(scaled: Floats) -> Floats:
        c = scaled * FIRST
        return np.array([weights[r.device] * np.log(r.predicted(c) / r.seconds) for r in runs])

    # The slowest part decides, so that the sum has several valleys.
    starts = [np.array([1, 1, 1, unpack, start]) for unpack in (0.2, 1, 2, 4) for start in (0.5, 2)]
    found = [
        least_squares(
            residuals, first, bounds=(LEAST / FIRST, MOST / FIRST), loss="soft_l1", f_scale=0.1,
            diff_step=1e-3,
        )
        for first in starts
    ]  # fmt: skip
    return min(found, key=lambda one: one.cost).x * FIRST


def _rows() -> list[dict[str, str]]:
    with (PUBLISHED / "llama_cpp.csv").open(encoding="utf-8") as stream:
        stream.readline()
        found = list(csv.DictReader(stream))
    return [row for row in found if _answered(row)]


def _answered(row: dict[str, str]) -> bool:
    """Whether the device has the roofs that decide: prompts need a compute roof."""
    roofs = roofs_of(load(row["device"]))
    compute = roofs.engine_roof("matrix", "fp16") is not None
    return bool(roofs.memory_byte_per_s) and (compute or row["sizes"].startswith("context"))


def _run(row: dict[str, str]) -> Run:
    size, _, value = row["sizes"].partition("=")
    device = load(row["device"])
    run = _asked(row["model"], row["precision"], size, int(value), device)
    return replace(run, seconds=float(row["value"]))


def _elsewhere(*machine: Any) -> Run:
    """A run on a Raspberry Pi 5 whose memory and peak are those of the machine."""
    name, byte_per_s, flop_per_s, model, precision, size, value, rate, _ = machine
    pi = load("raspberry-pi-5")
    run = _asked(f"configs/{model}.json", precision, size, value, pi)
    slower = (pi.memory[0].byte_per_s or 0.0) / byte_per_s
    weaker = pi.ceilings[1].flop_per_s / flop_per_s if flop_per_s else 0.0
    moved, worked = run.moved * slower, run.worked * weaker
    return replace(
        run, device=name, seconds=(1 if size == "context" else value) / rate, moved=moved,
        worked=worked, lanes=run.lanes * weaker, floor=np.maximum(moved, worked),
    )  # fmt: skip


@cache
def _asked(model: str, precision: str, size: str, value: int, device: Device) -> Run:
    phase = "decode" if size == "context" else "prefill"
    workload = _workload(model, precision, phase)
    settings = Settings(sizes={"batch": 1, size: value}, runtime="llama-cpp", precision=None)
    bench = Workbench(workload, workload.resolve_symbols(settings.sizes), settings.conventions)
    machine = Machine(device, settings)
    chosen = machine.chosen(bench.workload, settings)
    table = bench.table(chosen.precision, machine.plan(chosen.runtime.runtime))
    roofs = machine.roofs
    lanes = lanes_of(roofs, LANES_PER_BYTE.get(device.vendor))
    columns: list[tuple[float, ...]] = []
    for item in table.items:
        cost = item.cost
        moved = (cost.read_bytes + cost.write_bytes) / roofs.memory_byte_per_s
        worked = [
            flops / roof[1]
            for (engine, dtype), flops in cost.work.items()
            if engine.value != "special"
            and (roof := roofs.least_time_roof(engine.value, dtype, cost.prunable))
        ]
        stored = _unpacked(item.view)
        unpack = 2 * stored / lanes if stored and lanes else 0.0
        slowest = max(worked, default=0.0)
        columns.append(
            (item.count, moved, slowest, unpack, stored is not None, max(moved, slowest))
        )
    count, moved_s, worked_s, unpacked, is_stored, floor = np.array(columns, dtype=float).T
    return Run(
        model=model, device=device.id, seconds=0.0, count=count, moved=moved_s, worked=worked_s,
        lanes=unpacked, stored=is_stored.astype(bool), floor=floor,
    )  # fmt: skip


@cache
def _workload(model: str, precision: str, phase: str) -> Workload:
    return gambrel.load_model(str(PUBLISHED / model), phase=phase, precision=precision)


if __name__ == "__main__":
    main()
