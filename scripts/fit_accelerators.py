"""Refits what TPUs, Gaudis, NeuronCores, Tensix processors, Jetsons and integrated GPUs attain.

    python scripts/fit_accelerators.py [--write]

Rows are those of benchmarks/data/accelerators: steps of language models, batches of whole answers,
and networks. Constants are fitted to the logarithm of measured over predicted, with a pull to where
they start; errors are those of each model left out in turn, of each device left out, and in some
classes of each source. The range holds nine rows of ten of all. ``--write`` replaces the shares of
these runtimes in src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import constants_file
import gambrel
from accelerator_classes import CLASSES, Class
from fit_streams import outward
from gambrel.analysis.costs import Item
from gambrel.analysis.estimate.shares import (
    counted,
    filled,
    kernels,
    read_again,
    spread,
    units_at_work,
    unpacked,
)
from gambrel.analysis.roofs import Roofs
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.catalog import load
from gambrel.device.cores import held_share
from gambrel.device.model import Device
from gambrel.llm.known import spec_of
from gambrel.llm.sharded import build_rank
from gambrel.llm.sharding import Sharding
from gambrel.llm.step import ForwardPass, decode, mixed, prefill
from gambrel.llm.topology import Topology, topology_for
from gambrel.ops.base import Engine
from gambrel.runtimes import matches
from gambrel.runtimes import runtime as runtime_of
from gambrel.workload import Workload

ROOT: Final = Path(__file__).parents[1]
ROWS: Final = ROOT / "benchmarks/data/accelerators/rows.csv"
Floats: TypeAlias = NDArray[np.float64]
#: Where a constant starts, its least and its most.
LIMITS: Final = {
    "memory": (0.7, 0.1, 0.95),
    "compute": (0.5, 0.05, 0.95),
    "compute_stored": (0.3, 0.02, 0.95),
    "start_s": (5e-6, 1e-8, 2e-4),
    "attention": (0.5, 0.02, 0.95),
    "attention_compute": (0.3, 0.02, 0.95),
    "link": (0.5, 0.05, 1.0),
    "exchange_s": (1e-5, 1e-7, 3e-4),
    "step_s": (5e-4, 1e-7, 2e-2),
}
#: How firmly constants stay where they start, for a unit of error.
STIFF: Final = 0.2
#: Devices whose link is published without its direction: taken to be the sum of both.
LINKED: Final = {
    "trainium": Topology(
        name="trn1", devices_per_node=16, link="neuronlink", link_byte_per_s=1.92e11
    )
}
#: How much further the range reaches on other devices where only one was measured.
CARRIED: Final = 1.5
#: Fewer runs than this say little of others: the range of those is at least so wide.
FEW: Final = 6
LITTLE: Final = (0.5, 2.1)
#: Tenstorrent's block floating point of 4 bits beside that of 8.
BFP4: Final = 4.5 / 8.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the kernels of one step ask for, one entry each.

    Attributes:
        count: Executions.
        launches: Kernels that one execution starts.
        moved: Seconds at the whole bandwidth.
        worked: Seconds at the whole peak.
        stored: Whether weights are unpacked.
        linked: Seconds at the whole rate of the link.
        attends: Whether it is attention.
        talks: Whether it is a collective.
        floor: Roofline time, s.
    """

    count: Floats
    launches: Floats
    moved: Floats
    worked: Floats
    stored: NDArray[np.bool_]
    linked: Floats
    attends: NDArray[np.bool_]
    talks: NDArray[np.bool_]
    floor: Floats

    def seconds(self, c: Mapping[str, float]) -> float:
        """Of the step, under these constants."""
        memory = np.where(self.attends, c.get("attention", c["memory"]), c["memory"])
        whole = c.get("compute", 1.0)
        compute = np.where(self.stored, c.get("compute_stored", whole), whole)
        compute = np.where(self.attends, c.get("attention_compute", whole), compute)
        start = np.where(self.talks, c.get("exchange_s", c["start_s"]), c["start_s"])
        slowest = np.maximum(self.moved / memory, self.worked / compute)
        slowest = np.maximum(slowest, self.linked / c.get("link", 1.0))
        each = np.maximum(start * self.launches + slowest, self.floor)
        return c.get("step_s", 0.0) + float(np.sum(self.count * each))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A published run: its steps, and how many of each."""

    name: str
    source: str
    model: str
    device: str
    phase: str
    measured_s: float
    steps: tuple[tuple[float, Step], ...] = field(repr=False)

    def seconds(self, c: Mapping[str, float]) -> float:
        """Of the run, under these constants."""
        return sum(n * step.seconds(c) for n, step in self.steps)

    @property
    def roofline_s(self) -> float:
        """By the roofline."""
        return sum(n * float((s.count * s.floor).sum()) for n, s in self.steps)


def runs_of(one: Class) -> list[Run]:
    """All rows of a class."""
    return _on(one, (*one.match, *one.carried))


def _on(one: Class, devices: tuple[str, ...]) -> list[Run]:
    with ROWS.open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["runtime"] == one.runtime]
    return [_run(r, one) for r in rows if matches(devices, load(r["device"]))]


def _run(r: Mapping[str, str], one: Class) -> Run:
    into, out = int(r["input"] or 0), int(r["output"] or 0)
    phases = {"run": (("prefill", 1.0), ("decode", float(out)))}.get(r["phase"])
    steps = tuple(
        (
            times,
            _step(
                runtime=r["runtime"],
                model=r["model"],
                device_id=r["device"],
                chips=int(r["chips"]),
                phase=phase,
                precision=r["precision"],
                cache=r["cache"],
                batch=int(r["batch"]),
                into=into,
                context=int(r["context"] or into + out // 2),
                thin="bfp4" in r["note"],
                tile=(one.tile, one.expert_tile, one.grid_rows),
                pieces=tuple(one.pieces.items()),
                apart=one.apart,
            ),
        )
        for phase, times in phases or ((r["phase"], 1.0),)
    )
    what = f"{r['model']} {r['phase']} {r['batch']} x {r['input']}/{r['output']}"
    return Run(
        name=f"{r['device']} x{r['chips']} {what}",
        source=r["source"],
        model=r["model"],
        device=r["device"],
        phase=r["phase"],
        measured_s=float(r["seconds"]),
        steps=steps,
    )


@cache
def _step(
    *,
    runtime: str,
    model: str,
    device_id: str,
    chips: int,
    phase: str,
    precision: str,
    cache: str,
    batch: int,
    into: int,
    context: int,
    thin: bool,
    tile: tuple[int, int, int],
    pieces: tuple[tuple[str, tuple[int, int]], ...],
    apart: bool,
) -> Step:
    device = load(device_id)
    if phase == "network":
        sizes = {"batch": batch} | ({"seq": into} if into else {})
        network = gambrel.load_model(model)
        inputs = batch if apart else None
        return _columns(
            network, device, sizes, runtime, precision, tile=tile, pieces=pieces, inputs=inputs
        )
    spec = spec_of(model)
    assert spec is not None
    node = LINKED.get(device_id) or topology_for(device)
    workload = build_rank(
        spec,
        _pass(phase, batch, into, context),
        spec.precisions(f"{precision},kv={cache}" if cache else precision),
        Sharding(tensor=chips),
        topology=node,
        runtime=runtime,
        fused=runtime_of(runtime).served,
    )
    placed = node.place(device, chips)
    return _columns(workload, placed, {}, runtime, None, thin=thin, tile=tile, pieces=pieces)


def _pass(phase: str, batch: int, into: int, context: int) -> ForwardPass:
    if phase == "prefill":
        return prefill(batch, into)
    if phase == "mixed":  # a chunk of a prompt, half of which is there, beside requests that decode
        return mixed(batch, context, into, context // 2)
    return decode(batch, context)


def _columns(
    workload: Workload,
    device: Device,
    sizes: dict[str, int],
    runtime: str,
    precision: str | None,
    *,
    thin: bool = False,
    tile: tuple[int, int, int] = (1, 1, 1),
    pieces: tuple[tuple[str, tuple[int, int]], ...] = (),
    inputs: int | None = None,
) -> Step:
    """What a workload asks of a device.

    ``thin``: gate and up projections are stored in bfp4. ``inputs``: of which units take one each.
    """
    settings = Settings(sizes=sizes, runtime=runtime, precision=precision)
    bench = Workbench(workload, workload.resolve_symbols(sizes), settings.conventions)
    machine = Machine(device, settings)
    chosen = machine.chosen(bench.workload, settings)
    items = bench.table(chosen.precision, machine.plan(chosen.runtime.runtime)).items
    rows = [_row(item, machine.roofs, tile) for item in items]
    if thin:  # as one matrix they are the largest of a layer
        layers = [i for i, x in enumerate(items) if x.count > 1 and x.view.kind == "matmul"]
        rows[max(layers, key=lambda i: rows[i]["moved"])]["moved"] *= BFP4
    for row, item in zip(rows, items, strict=True):
        row["launches"] *= kernels(item.view, dict(pieces))
        row["floor"] = max(row["moved"], row.pop("least"), row["linked"])
    if inputs is not None:
        busy, units = units_at_work(device, inputs)
        for row, item in zip(rows, items, strict=True):
            again = read_again(item.view, busy) / (machine.roofs.memory_byte_per_s or 1.0)
            row["moved"] = float((row["moved"] + again) * units / busy)
            row["worked"] *= float(units / busy)
    columns: dict[str, Any] = {k: np.array([row[k] for row in rows]) for k in rows[0]}
    return Step(
        attends=np.array([item.view.kind == "attention" for item in items]),
        stored=np.array([unpacked(item.view, item.cost) is not None for item in items]),
        talks=np.array([item.view.kind == "collective" for item in items]),
        **columns,
    )


def _row(item: Item, roofs: Roofs, tile: tuple[int, int, int]) -> dict[str, float]:
    cost, stored = item.cost, unpacked(item.view, item.cost)
    more = 1 if stored is None else filled(item.view, *tile[:2])
    more = more * spread(item.view, tile[2])
    busy: dict[Engine, float] = {}
    for (engine, dtype), flops in cost.work.items():
        roof = roofs.least_time_roof(engine.value, dtype, cost.prunable)
        if roof and engine is not Engine.SPECIAL:
            busy[engine] = max(busy.get(engine, 0.0), flops / roof[1])
    held = held_share(roofs.device)
    link = roofs.link_byte_per_s
    return {
        "count": float(item.count),
        "launches": float(item.launches),
        "moved": (cost.read_bytes + cost.write_bytes) / (roofs.memory_byte_per_s or 1.0),
        "worked": max((busy[e] * more / held for e in counted(stored) if e in busy), default=0.0),
        "least": max(busy.values(), default=0.0),
        "linked": cost.link_bytes / link if link and cost.link_bytes else 0.0,
    }


def fitted(one: Class, runs: Sequence[Run]) -> list[Run]:
    """The runs that constants are fitted to."""
    return [r for r in runs if (r.device, r.model) != one.held]


def fit(one: Class, runs: Sequence[Run]) -> dict[str, float]:
    """Least squares of the logarithms; each phase of a model on a device weighs alike."""
    groups = [(r.model, r.device, r.phase) for r in runs]
    weights = [groups.count(group) ** -0.5 for group in groups]
    start, least, most = np.log(np.array([LIMITS[name] for name in one.free])).T

    def residuals(logs: Floats) -> Floats:
        c = dict(zip(one.free, np.exp(logs).tolist(), strict=True))
        errors = [
            w * np.log(r.seconds(c) / r.measured_s) for w, r in zip(weights, runs, strict=True)
        ]
        return np.concatenate([errors, STIFF * (logs - start)])

    found = least_squares(
        residuals, start, bounds=(least, most), loss="soft_l1", f_scale=0.3, diff_step=1e-3
    )
    return dict(zip(one.free, np.exp(found.x).tolist(), strict=True))


def left_out(one: Class, runs: Sequence[Run], by: str = "model") -> list[float]:
    """Seconds of each run by constants that saw no run of its model, device or source."""
    out: dict[int, float] = {}
    for name in sorted({getattr(r, by) for r in runs}):
        rest = [r for r in fitted(one, runs) if getattr(r, by) != name]
        own = fit(one, rest)
        out |= {id(r): r.seconds(own) for r in runs if getattr(r, by) == name}
    return [out[id(r)] for r in runs]


def shares(one: Class, runs: Sequence[Run]) -> list[dict[str, object]]:
    """As constants.json has them: of devices with rows, and of the others of their class."""
    constants = {k: float(f"{v:.4g}") for k, v in fit(one, fitted(one, runs)).items()}
    print(f"{one.name}: {len(runs)} runs, {constants}")
    low, high, error = _spread(one, runs, "model")
    if len({r.device for r in runs}) > 1:
        ends = _spread(one, runs, "device")
        low, high = min(low, ends[0]), max(high, ends[1])
        further = 1.0
    else:
        further = CARRIED
    if one.by_source:
        ends = _spread(one, runs, "source")
        low, high = min(low, ends[0]), max(high, ends[1])
    if len(runs) < FEW:
        low, high = min(low, LITTLE[0]), max(high, LITTLE[1])
    if one.beside:
        others = _on(one, one.beside)
        ratios = [r.measured_s / r.seconds(constants) for r in others]
        print(f"  others: {min(ratios):.2f} to {max(ratios):.2f}")
        low, high = min(low, *ratios), max(high, *ratios)
    found = {
        "runtime": one.runtime,
        "match": list(one.match),
        "memory": 0.0,
        "compute": 0.0,  # unknown, unless it was fitted
        "compute_stored": constants.get("compute", 0.0),
        "unpack": 0.0,
        **({"tile": one.tile} if one.tile > 1 else {}),
        **({"expert_tile": one.expert_tile} if one.expert_tile > 1 else {}),
        **({"grid_rows": one.grid_rows} if one.grid_rows > 1 else {}),
        **({"pieces": one.pieces} if one.pieces else {}),
        **({"apart": True} if one.apart else {}),
        **({} if one.matrix is None else {"matrix": one.matrix}),
        **({"formats": list(one.formats)} if one.formats else {}),
        **constants,
        **dict(zip(("low", "high"), outward(min(low, 0.95), max(high, 1.05)), strict=True)),
        "confidence": "low",
        "rows": len(runs),
        "error": round(error, 3),
        "why": one.why,
        "source": f"{one.source}; see benchmarks/data/accelerators",
    }
    if not one.carried:
        return [found]
    away = {
        "match": list(one.carried),
        "low": round(low / further, 3),
        "high": round(high * further, 3),
        "rows": 0,
        "error": None,
        "why": f"{one.why}; none was measured on this one",
    }
    return [found, found | away]


def _spread(one: Class, runs: Sequence[Run], by: str) -> tuple[float, float, float]:
    """Ends of measured over predicted that hold nine of ten, and the mean error."""
    ratios = np.array([r.measured_s for r in runs]) / np.array(left_out(one, runs, by))
    errors = np.abs(1 / ratios - 1)
    low = float(np.quantile(ratios, 0.05, method="lower"))
    high = float(np.quantile(ratios, 0.95, method="higher"))
    mean, median = errors.mean(), np.median(errors)
    print(f"  {by} left out: {mean:.1%}, median {median:.1%}, ratio {low:.2f} to {high:.2f}")
    return low, high, float(mean)


def main() -> None:
    """Fits all classes, prints their errors, and stores them where asked."""
    found: list[dict[str, object]] = []
    for one in CLASSES:
        runs = runs_of(one)
        fast = [r.name for r in runs if r.measured_s < r.roofline_s]
        print(*(f"faster than its roofline: {name}\n" for name in fast), sep="", end="")
        found += shares(one, runs)
    if "--write" in sys.argv:
        constants = constants_file.read()
        own = {(s["runtime"], tuple(s["match"])) for s in found}  # type: ignore[arg-type]
        others = [s for s in constants["shares"] if (s["runtime"], tuple(s["match"])) not in own]
        constants["shares"] = others + found
        constants_file.write(constants)


if __name__ == "__main__":
    main()
