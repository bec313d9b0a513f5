"""Fits eager PyTorch on Jetson Orin modules to networks that were timed on them.

    python scripts/fit_orin.py [--write]

Rows are those of benchmarks/data/jetson/ultralytics.csv. Its PyTorch column is of images that keep
their shape (672 x 512 for most; `AREA`), its other columns of squares of 640. Fitted are the share
of the TF32 peak that convolutions attain, the shares of the bandwidth, and the host's time for a
launch on each module and release, which is printed. What streams takes one share; windows, products
and all else are what other cards of NVIDIA say. Errors are those of each family of models left out,
and of each module. ``--write`` replaces the module's sets in
src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import calibration_torch as bench
import calibration_torch_sets as sets
import constants_file
import gambrel
from calibration_solver import least_squares
from gambrel.analysis.estimate.constants import packaged
from gambrel.device.catalog import load
from gambrel.runtimes import matches, runtime

ROWS: Final = Path(__file__).parents[1] / "benchmarks/data/jetson/ultralytics.csv"
#: Whose architecture is fitted, and the device that holds its constants.
MATCH: Final = ("sm_87",)
HOLDER: Final = "jetson-orin-nx-16gb"
#: Images of COCO are 640 x 480; validation pads them to multiples of 32 with half of one to spare.
AREA: Final = 672 * 512
#: Squares on both sides of that.
SIDES: Final = (576, 608)
#: Before the fit; ``stream`` stands for all that streams. Releases have hosts of their own.
FIRST: Final = {"engine": 0.35, "memory": 0.8, "pointwise": 0.6, "stream": 0.75, "cat": 0.65}
HOST_S: Final = 60e-6
STIFF: Final = 0.4
#: Grouped convolutions attain as much less than an H100's as before: no row has any.
GROUPED: Final = 0.4
FORMS: Final = ("torch_convolution", "torch_elementwise", "torch_copy")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One row: a problem for each of `SIDES`, which weigh as `AREA` lies between them."""

    model: str
    device: str
    release: str
    measured: float
    problems: tuple[tuple[float, bench.Problem], ...]

    @property
    def host(self) -> str:
        """Name of the constant of its host."""
        return f"host_s {self.device} {self.release}"

    @property
    def family(self) -> str:
        """Sizes of one architecture are left out together."""
        return re.sub(r"[nsmlx]$", "", self.model)

    def seconds(self, values: dict[str, float]) -> float:
        """Expected time by what is fitted."""
        c, host_s = constants_of(values), values.get(self.host, HOST_S)
        return sum(w * max(p.kernels(c), p.dispatches * host_s) for w, p in self.problems)


def rows() -> list[Run]:
    """Rows of the architecture."""
    with ROWS.open(newline="") as file:
        return [_run(r) for r in csv.DictReader(file) if matches(MATCH, load(r["device"]))]


def _run(r: dict[str, str]) -> Run:
    seconds = float(r["pytorch"]) * 1e-3
    small, large = (side**2 for side in SIDES)
    share = (AREA - small) / (large - small)
    problems = tuple(
        (weight, _problem(r["model"], side, r["device"], seconds))
        for weight, side in zip((1 - share, share), SIDES, strict=True)
    )
    return Run(
        model=r["model"], device=r["device"], release=r["release"],
        measured=seconds, problems=problems,
    )  # fmt: skip


def _problem(model: str, side: int, device: str, seconds: float) -> bench.Problem:
    workload = gambrel.load_model(model, image=side)
    return bench.problem(workload, f"{model} {side}", device, runtime("pytorch"), seconds)


@cache
def _base() -> sets.Constants:
    """Constants of the H100, and of the T4 where its memory is nearer."""
    return {
        s.form: dict(s.constants)
        for name in ("h100-sxm5-80gb", "t4")
        for s in packaged().sets
        if (s.framework, s.device) == ("torch", name) and s.formats[0] != "half"
        if name != "t4" or s.form not in ("torch_convolution", "torch_matmul")
    }


def constants_of(values: dict[str, float]) -> sets.Constants:
    """By form, from the few that are fitted."""
    of = {k: float(f"{values[k]:.4g}") for k in FIRST}
    base, stream = _base(), of["stream"]
    old, same = base["torch_convolution"], base["torch_elementwise"]
    ratio = same["broadcast"] / same["same"]
    convolution = old | {k: of[k] for k in ("engine", "memory", "pointwise")}
    convolution |= {
        "engine_3d": float(f"{old['engine_3d'] * of['engine'] / old['engine']:.4g}"),
        "grouped": float(f"{old['grouped'] * GROUPED:.4g}"),
        "relay": stream,
        "bias": stream,
    }
    return base | {
        "torch_convolution": convolution,
        "torch_elementwise": same | {"same": stream, "broadcast": float(f"{stream * ratio:.4g}")},
        "torch_copy": base["torch_copy"] | {"cat": of["cat"], "strided": of["cat"]},
    }


def fit(runs: Sequence[Run]) -> dict[str, float]:
    """What fits runs best."""
    start = FIRST | dict.fromkeys(sorted({r.host for r in runs}), HOST_S)
    first = np.log(list(start.values()))

    def values(z: Any) -> dict[str, float]:
        found = zip(start, np.exp(z), strict=True)
        return {n: float(min(v, 0.95) if n in FIRST else v) for n, v in found}

    def residual(z: Any) -> Any:
        of = values(z)
        errors = [math.log(r.seconds(of) / r.measured) for r in runs]
        return np.concatenate([errors, STIFF * (z - first)])

    return values(least_squares(residual, first, steps=16))


def left_out(runs: Sequence[Run], by: str) -> Any:
    """Expected times by constants that did not see the family, or the module, in the rows' order.

    A host that no other row tells of takes `HOST_S` for a launch.
    """
    names = {getattr(r, by) for r in runs}
    without = {name: fit([r for r in runs if getattr(r, by) != name]) for name in sorted(names)}
    return np.array([r.seconds(without[getattr(r, by)]) for r in runs])


def main() -> None:
    """Prints errors and constants; writes them where asked."""
    runs = rows()
    values = fit(runs)
    print(len(runs), {k: float(f"{v:.3g}") for k, v in values.items()})
    measured = np.array([r.measured for r in runs])
    found = []
    for by in ("family", "device"):
        found.append(left_out(runs, by))
        off = np.abs(found[-1] / measured - 1)
        print(f"  {by} left out: mean {off.mean():.1%}, median {np.median(off):.1%}")
    for r in runs:
        print(f"  {r.model:8} {r.device:28} {r.seconds(values) / r.measured:5.2f}")
    low, high, held = sets.spread(np.concatenate(found), np.concatenate([measured, measured]))
    if "--write" in sys.argv[1:]:
        write(values, low, high, held | {"points": len(runs)})


def write(values: dict[str, float], low: list[float], high: list[float], held: Any) -> None:
    """Replaces the sets of the module."""
    c, constants = constants_of(values), constants_file.read()
    kept = [s for s in constants["sets"] if (s["framework"], s["device"]) != ("torch", HOLDER)]
    fresh = [
        sets._set(form, "any", HOLDER, c[form], held["points"], low, high, held)
        | {"confidence": "medium" if held["mape"] <= 0.25 else "low"}
        for form in FORMS
    ]
    constants["sets"] = kept + fresh
    constants_file.write(constants)


if __name__ == "__main__":
    main()
