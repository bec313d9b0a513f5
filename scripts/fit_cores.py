"""Fits the cycles that microcontrollers spend on a network's layers; prints held-out errors.

    python scripts/fit_cores.py FOLDER [--write]

FOLDER holds ``truth/mlperf_tiny.csv``. Cores without vectors share the *shape* of their cycles (how
a depthwise convolution compares with a full one); a core and a runtime have a factor each. Errors
are those of boards that were left out, whose factors come from another board of the same core, and
of models. ``--write`` replaces ``cycles`` in src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import constants_file
from tiny_rows import TinyRow, rows

KINDS = ("window", "depthwise", "linear", "finish")
SOURCE = "mlcommons/tiny_results_v1.0 to v1.3 (Apache-2.0; figures only), 2026-11-23"
#: Weight of a factor of e from where the fit starts, relative to such a residual.
PULL = 0.05
PULL_CORE = 0.2
#: A residual this large counts half.
LARGE = 0.1
#: Ranges of a single board are wider by this, of a core without rows by its square. Assumed.
FAR = 1.25
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Cores and runtimes that share a shape.

    Attributes:
        cores: Architecture → how many times as many cycles as the first one takes, before any fit:
            an M7 issues two instructions at once, an M33 one as the M4 does.
        dtype: Number format.
        start: Cycles to start a fit from, in the order of `KINDS`.
        runtimes: Whose rows count.
        why: For the reader.
        pull: Weight of a factor of e from the start: of four networks no row tells four constants
            apart once one of them is left out.
        others: Cores that take the factors of another family, because no row is there.
    """

    cores: dict[str, float]
    dtype: str
    start: tuple[float, ...]
    runtimes: tuple[str, ...]
    why: str
    pull: float = PULL
    others: tuple[str, ...] = ()


DSP = {"Cortex-M4": 1.0, "Cortex-M33": 1.0, "Cortex-M7": 0.5}
FAMILIES = (
    Family(
        cores=DSP, dtype="int8", start=(1.5, 3.0, 2.5, 40.0), runtimes=("hale", "stm32cube-ai-8"),
        why="cycles per layer of MLPerf Tiny's networks on five boards",
    ),
    Family(
        # Scaling and rounding: a multiplication, an addition, a saturation, a store.
        cores=DSP, dtype="int8", start=(1.5, 3.0, 2.5, 5.0), runtimes=("stm32cube-ai",), pull=0.2,
        why="cycles per layer of MLPerf Tiny's networks on three boards, releases 9 and 10",
    ),
    Family(
        cores={"Cortex-M33": 1.0}, dtype="int8", start=(1.5, 3.0, 2.5, 40.0),
        runtimes=("cmsis-nn",), others=("Cortex-M4", "Cortex-M7"),
        why="cycles per layer of MLPerf Tiny's networks on one board, an nRF5340",
    ),
    Family(
        cores={"Cortex-M0+": 1.0}, dtype="int8", start=(6.0, 12.0, 10.0, 160.0), runtimes=("hale",),
        why="cycles per layer of MLPerf Tiny's networks on one board, an STM32G0B1",
    ),
    Family(
        cores={"RH850 G3KH": 1.0}, dtype="int8", start=(3.0, 6.0, 5.0, 80.0), runtimes=("hale",),
        why="cycles per layer of three of MLPerf Tiny's networks on one board",
    ),
    Family(
        cores=DSP | {"RH850 G3KH": 0.65}, dtype="fp32", start=(3.0, 6.0, 5.0, 30.0),
        runtimes=("hale",),
        why="cycles per layer of MLPerf Tiny's networks in fp32 on three boards",
    ),
    Family(
        cores={"Cortex-M85": 1.0}, dtype="int8", start=(0.25, 1.0, 1.0, 20.0),
        runtimes=("cmsis-nn",),
        why="cycles per layer of MLPerf Tiny's networks on one board, an RA8D1",
    ),
    Family(
        cores={"Syntiant Core 2": 1.0}, dtype="int8", start=(0.04, 0.1, 0.1, 0.5),
        runtimes=("syntiant",),
        why="cycles per layer of three of MLPerf Tiny's networks on an NDP120",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Cycles by kind, and factors by core and runtime."""

    shape: Floats
    factors: dict[str, float]

    def cycles_of(self, core: str, runtime: str) -> Floats:
        """By kind, on a core under a runtime."""
        both = self.factors.get(core, 1.0) * self.factors.get(runtime, 1.0)
        return self.shape * both

    def seconds(self, row: TinyRow) -> float:
        """Predicted, of a row."""
        cycles = float(amounts(row) @ self.cycles_of(row.core, row.runtime))
        return row.seconds * cycles / row.cycles


def main() -> None:
    """Fits, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = tuple(rows(options.folder))
    entries = [entry for family in FAMILIES for entry in entries_of(family, found)]
    for entry in entries:
        print({k: v for k, v in entry.items() if k not in ("source", "why")})
    if options.write:
        constants_file.write(constants_file.read() | {"cycles": entries})


def own(family: Family, found: Sequence[TinyRow]) -> list[TinyRow]:
    """The rows of a family."""
    return [
        r
        for r in found
        if r.core in family.cores and r.dtype == family.dtype and r.runtime in family.runtimes
    ]


def amounts(row: TinyRow) -> Floats:
    """Work of a row, in the order of `KINDS`."""
    return np.array([row.work.get(k, 0.0) for k in KINDS])


def fit(family: Family, found: Sequence[TinyRow]) -> Fit:
    """The cycles that describe rows best, every row weighing alike."""
    cores, names = list(family.cores), [*family.cores, *family.runtimes]
    start = np.log([*family.start, *family.cores.values(), *(1.0 for _ in family.runtimes)])
    pull = np.array(
        [family.pull] * len(KINDS) + [PULL_CORE] * len(cores) + [PULL] * len(family.runtimes)
    )

    def at(x: Floats) -> Fit:
        factors = dict(zip(names, np.exp(x[len(KINDS) :]).tolist(), strict=True))
        return Fit(shape=np.exp(x[: len(KINDS)]), factors=factors)

    def residuals(x: Floats) -> Floats:
        one = at(x)
        off = [np.log(one.seconds(r) / r.seconds) for r in found]
        return np.concatenate([off, pull * (x - start)])

    return at(least_squares(residuals, start, loss="soft_l1", f_scale=LARGE).x)


def left_out(
    family: Family, found: Sequence[TinyRow], key: Callable[[TinyRow], str]
) -> dict[TinyRow, float]:
    """Predicted seconds of each row by those that differ in the key; none of a single one."""
    seconds: dict[TinyRow, float] = {}
    values = sorted({key(r) for r in found})
    for value in values if len(values) > 1 else ():
        one = fit(family, [r for r in found if key(r) != value])
        seconds |= {r: one.seconds(r) for r in found if key(r) == value}
    return seconds


def entries_of(family: Family, found: Sequence[TinyRow]) -> list[dict[str, object]]:
    """What is stored of a family: one entry for each core and runtime."""
    mine = own(family, found)
    one = fit(family, mine)
    boards = left_out(family, mine, lambda r: r.device)
    models = left_out(family, mine, lambda r: r.model)
    both = [[r.seconds / s for r, s in held.items()] for held in (boards, models) if held]
    low = min(0.9, *(np.quantile(ratios, 0.05) for ratios in both))
    high = max(1.1, *(np.quantile(ratios, 0.95) for ratios in both))
    print(list(family.cores), family.dtype, {k: round(v, 3) for k, v in one.factors.items()})
    for name, held in (("board", boards), ("model", models)):
        errors = [abs(s / r.seconds - 1) for r, s in held.items()]
        print(f"  left out by {name}: {np.mean(errors or [np.nan]):.1%} over {len(errors)} rows")
    several = len({r.device for r in mine}) > 1
    entries = []
    for core in (*family.cores, *family.others):
        scale = DSP[core] / DSP["Cortex-M33"] if core in family.others else 1.0
        for runtime in family.runtimes:
            here = [r for r in mine if (r.core, r.runtime) == (core, runtime)]
            if not here and core not in family.others:
                continue
            held = boards if several and boards else models
            errors = [abs(held[r] / r.seconds - 1) for r in here if r in held]
            far = 1.0 if several else FAR if here else FAR**2
            cycles = zip(KINDS, scale * one.cycles_of(core, runtime), strict=True)
            entries.append(
                {
                    "runtime": runtime,
                    "match": [core],
                    "dtype": family.dtype,
                    **{k: float(f"{v:.4g}") for k, v in cycles},
                    "low": round(float(low) / far, 3),
                    "high": round(float(high) * far, 3),
                    "confidence": "medium" if several and family.dtype == "int8" else "low",
                    "rows": len(here),
                    "error": round(float(np.mean(errors)), 4) if errors else None,
                    "why": family.why if here else f"{family.why}; none on a {core}",
                    "source": SOURCE,
                }
            )
    return entries


if __name__ == "__main__":
    main()
