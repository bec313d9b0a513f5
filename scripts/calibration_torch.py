"""Constants of PyTorch's kernels on GPUs: what is fitted to which rows.

Two sources. KernelBench: whole problems on two H100, each the sum of its kernels; the constants of
all forms are fitted together. Single fp32 ops on seven older GPUs: every form by itself.
"""

from __future__ import annotations

import csv
import importlib.util
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from calibration_solver import least_squares
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.engine_forms import CACHE_BYTES_PER_CYCLE
from gambrel.analysis.estimate.features import Rule, Task
from gambrel.analysis.estimate.torchlib import rules
from gambrel.analysis.evaluation import evaluate_table
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device import catalog
from gambrel.ops import Conventions
from gambrel.runtimes import runtime

#: Shortest kernel on a busy device, s: a launch by the device itself.
BASE_S = 2e-6
#: What a product alone waits for the library to choose its kernel, s. Of the seven GPUs whose
#: products were measured one at a time, those on the fastest hosts wait 3 to 11 us.
ALONE_S = 6e-6


def of_engines() -> dict[str, float]:
    """The start of a convolution and its tiles of 64 x 64, as TensorRT's runs on cards tell."""
    c = next(e for e in packaged().engines if e.match == ("nvidia",)).constants
    found = {
        "start_cycles": c["launch"],
        "step_cycles": c["step"],
        "tile": c["compute"] * c["small"],
        "gather_bytes": c["gather"] * CACHE_BYTES_PER_CYCLE,
    }
    return {name: float(f"{value:.4g}") for name, value in found.items()}


#: Constants before any fit, by form. Shares of data-sheet rates; lane cycles; seconds; bytes.
START: dict[str, dict[str, float]] = {
    "torch_elementwise": {
        "base_s": BASE_S, "same": 0.915, "broadcast": 0.79, "compiled": 0.9, "pow_cycles": 0.0,
    },
    "torch_reduction": {
        "base_s": BASE_S, "plain": 0.92, "indexed": 0.87, "scan": 0.57, "compiled": 0.85,
    },
    "torch_copy": {"base_s": BASE_S, "cat": 0.7, "strided": 0.75, "compiled": 0.9},
    "torch_normalization": {
        "base_s": BASE_S, "apply": 0.915, "batch": 0.915, "statistics": 0.63,
        "block_byte_per_s": 9.5e9,
        "layer_extra": 0.0, "round_trip_s": 0.5e-6, "row_s": 148e-9, "compiled": 0.85,
        "start_s": 0.0,
    },
    "torch_softmax": {
        "base_s": BASE_S, "inner": 0.92, "outer": 0.73, "extra": 0.0, "kept_row_bytes": 200e3,
        "compiled": 0.85,
    },
    "torch_pooling": {
        "base_s": BASE_S, "tap": 40.0, "start": 40.0, "memory": 0.8, "compiled_tap": 14.0,
        "compiled_start": 10.0,
    },
    "torch_convolution": {
        "base_s": BASE_S, "engine": 0.417, "engine_3d": 0.122, "transposed": 0.46,
        "grouped": 0.054, "grouped_lanes": 0.29, "few_lanes": 0.56, "few_half": 37.5,
        "memory": 0.915, "pointwise": 0.71, "relay": 0.82, "bias": 0.79, "tap": 31.0,
        "start": 40.0, "direct": 0.8, "edge": 0.1, "fill": 20.0, "winograd_2": 0.7, "fill_2": 5.0,
        "winograd_4": 0.75, "fill_4": 20.0, "operands": 0.8, "transforms": 0.6, "weights": 0.5,
        "wave": 0.3, "small_regions": 0.0, "start_4_s": 20e-6, "start_s": 0.0,
        "energy_j": 0.0, "settle_s": 3e-3,
        **of_engines(),
    },
    "torch_matmul": {
        "base_s": BASE_S, "ladder": 1.0, "compute": 0.77, "cap": 0.8, "memory": 0.93,
        "vector": 0.93, "k_fill": 16.0, "k_split": 256.0, "energy_j": 0.0, "start_s": ALONE_S,
    },
    "torch_recurrent": {"step_s": 9.6e-6, "weights": 1.0, "compute": 1.0},
}  # fmt: skip
#: Constants that KernelBench determines.
FITTED = {
    "torch_elementwise": ("same", "broadcast"),
    "torch_reduction": ("plain", "indexed", "scan"),
    "torch_copy": ("cat", "strided"),
    "torch_normalization": ("statistics", "block_byte_per_s", "round_trip_s"),
    "torch_pooling": ("tap",),
    "torch_convolution": (
        "engine", "engine_3d", "transposed", "grouped", "grouped_lanes", "few_lanes", "few_half",
        "pointwise", "relay", "bias", "tap",
    ),
    "torch_matmul": ("compute", "cap"),
    "torch_recurrent": ("step_s",),
}  # fmt: skip
#: Those that the compiled times determine, given the others.
FITTED_COMPILED = {
    "torch_elementwise": ("compiled",),
    "torch_reduction": ("compiled",),
    "torch_normalization": ("compiled",),
    "torch_pooling": ("compiled_tap",),
}
CARDS = {"H100_Modal": "h100-sxm5-80gb", "H100_PCIe_LambdaLabs": "h100-pcie-80gb"}
NOT_ON_META = {"30_SwinTransformerV2.py", "48_Mamba2ReturnY.py"}
#: The text changed after it was timed: the full product of two matrices then, a scaling now.
CHANGED = {"level1/12_Matmul_with_diagonal_matrices_.py"}


@dataclass(kw_only=True)
class Part:
    """Equal kernels of a problem on a card; ``fixed`` where other forms serve them."""

    count: int
    rule: Rule | None
    task: Task | None
    floor: float
    fixed: float = 0.0
    known: dict[tuple[float, ...], float] = field(default_factory=dict)

    def seconds(self, machine: Any, constants: dict[str, dict[str, float]]) -> float:
        if self.rule is None or self.task is None:
            return self.fixed * self.count
        c = constants[self.rule.form]
        key = tuple(c.values())
        if key not in self.known:
            # A queue of kernels hides what one alone waits for.
            found = float(self.rule.seconds(c | {"start_s": 0.0}, machine, self.task))
            self.known[key] = max(found, self.floor, c.get("base_s", 0.0))
        return self.known[key] * self.count


@dataclass(kw_only=True)
class Problem:
    """One problem on one card under one runtime."""

    name: str
    level: str
    card: str
    runtime: str
    machine: Any
    parts: list[Part]
    dispatches: float
    measured: float

    def kernels(self, constants: dict[str, dict[str, float]]) -> float:
        return sum(p.seconds(self.machine, constants) for p in self.parts)

    def seconds(self, constants: dict[str, dict[str, float]], host_s: float) -> float:
        return max(self.kernels(constants), self.dispatches * host_s) + 5e-6


@cache
def captured(path: Path) -> Any:
    """A problem as a workload, in training mode, as it was timed."""
    import torch

    import gambrel

    spec = importlib.util.spec_from_file_location("problem", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        spec.loader.exec_module(module)
        model = module.Model(*module.get_init_inputs())
        return gambrel.load_model(model, inputs=tuple(module.get_inputs()))


def problems(truth: Path, stack: str) -> list[Problem]:
    """All problems on both cards."""
    with (truth / "kernelbench.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["stack"] == stack and r["gpu"] in CARDS]
    run = runtime("pytorch" if stack == "eager" else "torch-compile")
    found = []
    for r in rows:
        path = truth / "kernelbench" / f"{r['level']}_{r['problem']}"
        named = f"{r['level']}/{r['problem']}"
        if r["problem"] in NOT_ON_META or named in CHANGED or not path.exists():
            continue
        found.append(problem(captured(path), named, CARDS[r["gpu"]], run, float(r["mean"]) / 1e3))
    return found


@cache
def machine_of_card(card: str, precision: str = "fp32") -> Machine:
    known = None if precision.startswith("autocast") else precision
    return Machine(catalog.load(card), Settings(precision=known))


def problem(
    workload: Any, name: str, card: str, run: Any, measured: float, precision: str = "fp32"
) -> Problem:
    known = machine_of_card(card, precision)
    kept = _BENCH.setdefault(
        (name, precision), Workbench(workload, workload.resolve_symbols({}), Conventions())
    )
    table = kept.table(precision, known.plan(run))
    held = evaluate_table(table, known.roofs)
    estimator = known.estimator(run)
    assert estimator is not None
    parts = []
    for item, time_s in zip(table.items, held.times, strict=True):
        rule = rules.rule_of(item.view, wide_products=False)
        if rule is None:
            one = estimator.estimate(item.view, item.cost, time_s)
            fixed = (time_s or 0.0) if one is None else one.value
            parts.append(Part(count=item.count, rule=None, task=None, floor=0.0, fixed=fixed))
            continue
        task = estimator.task_of(item.view, item.cost)
        parts.append(Part(count=item.count, rule=rule, task=task, floor=time_s or 0.0))
    return Problem(
        name=name,
        level=name.split("/")[0],
        card=card,
        runtime=run.id,
        machine=estimator._machine,
        parts=parts,
        dispatches=sum(i.dispatches * i.count for i in table.items),
        measured=measured,
    )


_BENCH: dict[tuple[str, str], Workbench] = {}


def workbench(name: str) -> Workbench:
    """The problem as `problems` captured it."""
    return _BENCH[name, "fp32"]


HOST_S = {"pytorch": 16e-6, "torch-compile": 14e-6}


def solve(
    rows: Sequence[Problem],
    start: dict[str, dict[str, float]],
    fitted: dict[str, tuple[str, ...]],
) -> dict[str, dict[str, float]]:
    """The constants that fit problems best; those that nothing determines stay where they are."""
    names = [(form, n) for form, several in fitted.items() for n in several]
    first = np.log([start[f][n] for f, n in names])

    def constants(z: Any) -> dict[str, dict[str, float]]:
        found = {form: dict(values) for form, values in start.items()}
        for (form, n), v in zip(names, np.exp(z), strict=True):
            found[form][n] = float(f"{v:.4g}")
        return found

    def residual(z: Any) -> Any:
        c = constants(z)
        errors = [math.log(p.seconds(c, HOST_S[p.runtime]) / p.measured) for p in rows]
        return np.concatenate([errors, 0.3 * (z - first)])

    return constants(least_squares(residual, first))
