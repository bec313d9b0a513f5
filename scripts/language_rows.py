"""Measured runs of language models on NPUs, with what their ops ask for.

Rows of benchmarks/data/npu_llm; see its README.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gambrel
from gambrel.analysis.estimate.language import ATTENTION, gemm_flops, rows_of, stored_format
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.catalog import load
from gambrel.dtypes import BITS

DATA = Path(__file__).parents[1] / "benchmarks/data/npu_llm"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the ops of a run ask for, one entry for each op."""

    count: Floats
    moved: Floats
    flops: Floats
    several: NDArray[np.bool_]
    stored: tuple[str, ...]
    weights: NDArray[np.bool_]
    attention: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured run.

    Attributes:
        device: Id.
        model: Its model.
        precision: Number formats part by part.
        size: ``context`` or ``seq``.
        tokens: Its value.
        seconds: Measured.
        use: ``fit``, ``check`` (it widens the range) or ``other`` (it does neither).
        work: Of its ops.
    """

    device: str
    model: str
    precision: str
    size: str
    tokens: int
    seconds: float
    use: str
    work: Work

    @property
    def prompt(self) -> bool:
        """Whether it is the prompt, not a step that makes one token."""
        return self.size == "seq"


@cache
def rows() -> tuple[Row, ...]:
    """All rows."""
    with (DATA / "rows.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(_row(r) for r in csv.DictReader(stream))


def moved(row: Row) -> float:
    return float((row.work.count * row.work.moved).sum())


def format_of(row: Row) -> str:
    """In which format the weights of the layers are stored."""
    return max(set(row.work.stored) - {""}, key=row.work.stored.count)


def flops(row: Row) -> float:
    return float((row.work.count * row.work.flops).sum())


def _row(row: dict[str, str]) -> Row:
    size, _, value = row["sizes"].partition("=")
    return Row(
        device=row["device"],
        model=row["model"],
        precision=row["precision"],
        size=size,
        tokens=int(value),
        seconds=float(row["value"]),
        use=row["use"],
        work=_asked(row["model"], row["precision"], size, int(value)),
    )


def asked(model: str, precision: str, size: str, value: int) -> Workbench:
    """A phase of a model of the rows."""
    path = str(DATA / model) if model.endswith(".json") else model
    phase = "decode" if size == "context" else "prefill"
    sizes = {"batch_size": 1, size: value}
    how = {"phase": phase, "precision": precision, "runtime": "rkllm"}
    workload = gambrel.load_model(path, **how, **sizes)
    settings = Settings(sizes={"batch": 1, size: value})
    return Workbench(workload, workload.resolve_symbols(settings.sizes or {}), settings.conventions)


@cache
def _asked(model: str, precision: str, size: str, value: int) -> Work:
    bench = asked(model, precision, size, value)
    settings = Settings(sizes=bench.sizes, runtime="rkllm")
    machine = Machine(load("rk3588-npu"), settings)  # the plan is that of any: kernel by kernel
    chosen = machine.chosen(bench.workload, settings)
    table = bench.table(chosen.precision, machine.plan(chosen.runtime.runtime))
    items = [i for i in table.items if i.cost.work or i.cost.read_bytes or i.cost.write_bytes]
    several = [rows_of(i.view, i.cost) >= 2 for i in items]
    stored = [stored_format(i.view) for i in items]
    return Work(
        count=np.array([i.count for i in items], float),
        moved=np.array([i.cost.read_bytes + i.cost.write_bytes for i in items], float),
        flops=np.array([gemm_flops(i.cost) for i in items], float),
        several=np.array(several, bool),
        stored=tuple(f if f and BITS[f] < 16 else "" for f in stored),
        weights=np.array([f is not None for f in stored], bool),
        attention=np.array([i.view.kind == ATTENTION for i in items], bool),
    )
