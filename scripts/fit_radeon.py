"""Fits PyTorch's kernels on Radeon cards to networks that were timed on them.

    python scripts/fit_radeon.py [--write]

Rows are those of benchmarks/data/radeon: forward passes of torchvision's networks. Of each
generation what convolutions attain of the peak (direct, by Winograd's algorithms, grouped, of
colours), the cycles of a tap of depthwise ones, and the shares of the bandwidth; all else is what
the same libraries attain on an MI210. Products attain what owners measured of square ones
(`MATMUL`). The pass begins when its images leave for the card: their time and the host's for a
launch are fitted as well, and printed. Errors are those of models left out, in folds, and of cards
left out. ``--write`` replaces the sets in src/gambrel/analysis/calibration/constants.json;
fit_attention.py, which composes attention of them, is to be run after it.
"""

from __future__ import annotations

import csv
import math
import sys
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import calibration_torch as bench
import calibration_torch_sets as sets
import constants_file
from calibration_solver import least_squares
from gambrel.analysis.estimate.constants import packaged
from gambrel.device.catalog import load
from gambrel.dtypes import BITS
from gambrel.runtimes import runtime

ROWS: Final = Path(__file__).parents[1] / "benchmarks/data/radeon/rows.csv"
BASE: Final = "mi210"
#: Device that holds the constants of a generation → what its architecture says.
GENERATIONS: Final = {"rx-6800": "gfx103", "rx-7900-xtx": "gfx110"}
#: Share of the peak that square products attain: fp32, 16 bits (github.com/zzc0721/
#: torch-performance-test-data, issues 58, 68, 103, 186, 199): RX 6600 XT, RX 7900 XTX.
MATMUL: Final = {"rx-6800": (0.81, 0.75), "rx-7900-xtx": (0.42, 0.82)}
FOLDS: Final = 6
#: Before the fit; ``stream`` stands for element-wise ops and batch norms.
FIRST: Final = {
    "direct": 0.6, "winograd_2": 0.6, "winograd_4": 0.6, "memory": 0.8, "pointwise": 0.7,
    "tap": 100.0, "half": 0.6, "half_3x3": 2.0, "half_grouped": 0.2, "few": 0.35, "stream": 0.85,
    "cat": 0.7,
}  # fmt: skip
#: Of the machine around a card: seconds for a launch, and for a byte of images.
AROUND: Final = {"host_s": 32e-6, "copy_s": 1 / 6e9}
#: No shares: cycles, seconds, and what Winograd's algorithm saves.
FREE: Final = ("tap", "half_3x3")
STIFF: Final = 0.1
#: A convolution turns no layouts.
NO_PASS: Final = 1e9


@dataclass(frozen=True, kw_only=True)
class Run:
    """One row."""

    device: str
    precision: str
    batch: int
    problem: bench.Problem

    def seconds(self, values: dict[str, float]) -> float:
        """Expected time by what is fitted."""
        p = self.problem
        kernels = p.kernels(constants_of(values, self.device, self.precision))
        host_s, copy_s = (values.get(f"{k} {self.device}", v) for k, v in AROUND.items())
        copied = self.batch * 3 * 224**2 * BITS[self.precision] / 8 * copy_s
        return max(kernels, p.dispatches * host_s) + copied

    @property
    def fold(self) -> int:
        """All rows of a model are in one fold."""
        return zlib.crc32(self.problem.name.encode()) % FOLDS


def rows() -> list[Run]:
    """All of them."""
    with ROWS.open(newline="") as file:
        return [_run(r) for r in csv.DictReader(file)]


def _run(r: dict[str, str]) -> Run:
    batch, precision = int(r["batch"]), r["precision"]
    problem = bench.problem(
        network(r["model"], batch),
        f"{r['model']} {batch}",
        r["device"],
        runtime("pytorch"),
        float(r["ms"]) / 1e3,
        precision,
    )
    return Run(device=r["device"], precision=precision, batch=batch, problem=problem)


@cache
def network(model: str, batch: int, *, train: bool = False) -> Any:
    """A network of torchvision on images of 224."""
    import torch

    import gambrel
    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()
    import torchvision

    build = getattr(torchvision.models, model)
    with warnings.catch_warnings(action="ignore"):
        if model.startswith("regnet"):  # its widths are computed in tensors
            module = build()
        else:
            with torch.device("meta"):
                module = build()
        images = torch.empty(batch, 3, 224, 224)
        return gambrel.load_model(module.train(train), inputs=images, train=train)


@cache
def _base() -> sets.Constants:
    return {
        s.form: dict(s.constants)
        for name in ("h100-sxm5-80gb", BASE)
        for s in packaged().sets
        if (s.framework, s.device) == ("torch", name) and not s.formats[0].endswith("half")
    }


def constants_of(values: dict[str, float], device: str, precision: str) -> sets.Constants:
    """By form; what is not fitted is the MI210's."""
    of = {k: float(f"{values[k]:.4g}") for k in FIRST}
    base = _base()
    convolution = base["torch_convolution"]
    lanes = {k: of[k] for k in ("direct", "winograd_2", "winograd_4", "memory", "pointwise", "tap")}
    lanes["start"] = of["tap"]
    if precision != "fp32":
        plain = {k: of[k] for k in ("half", "half_grouped", "few", "memory", "pointwise", "tap")}
        kept = ("base_s", "bias", "energy_j", "start_cycles", "step_cycles", "tile", "gather_bytes")
        plain |= {k: convolution[k] for k in kept}
        plain |= {"half_3x3": of["half_3x3"], "start": of["tap"], "relay": NO_PASS}
        lanes = plain | {"transposed": 1.0, "engine_3d": 1.0}
    else:
        lanes = convolution | lanes
    return base | {
        "torch_convolution": lanes,
        "torch_elementwise": base["torch_elementwise"] | {"same": of["stream"]},
        "torch_normalization": base["torch_normalization"] | {"batch": of["stream"]},
        "torch_copy": base["torch_copy"] | {"cat": of["cat"]},
        "torch_matmul": base["torch_matmul"]
        | {"compute": MATMUL[_of_generation(device)][precision != "fp32"]},
    }


def _of_generation(device: str) -> str:
    text = load(device).architecture
    return next(name for name, chip in GENERATIONS.items() if chip in text)


def fit(runs: Sequence[Run]) -> dict[str, float]:
    """What fits runs of a generation best."""
    cards = {r.device for r in runs}
    start = FIRST | {f"{k} {card}": v for k, v in AROUND.items() for card in sorted(cards)}
    first = np.log(list(start.values()))

    def values(z: Any) -> dict[str, float]:
        found = zip(start, np.exp(z), strict=True)
        return {n: float(min(v, 1.0) if n in FIRST and n not in FREE else v) for n, v in found}

    def residual(z: Any) -> Any:
        of = values(z)
        errors = [math.log(r.seconds(of) / r.problem.measured) for r in runs]
        return np.concatenate([errors, STIFF * (z - first)])

    return values(least_squares(residual, first, steps=16))


def left_out(runs: Sequence[Run]) -> tuple[Any, Any]:
    """Expected times by constants that did not see the model, and the measured ones."""
    expected, measured = [], []
    for fold in range(FOLDS):
        test = [r for r in runs if r.fold == fold]
        values = fit([r for r in runs if r.fold != fold])
        expected += [r.seconds(values) for r in test]
        measured += [r.problem.measured for r in test]
    return np.array(expected), np.array(measured)


def error(runs: Sequence[Run], values: dict[str, float]) -> float:
    """Mean absolute error, 1."""
    return float(np.mean([abs(r.seconds(values) / r.problem.measured - 1) for r in runs]))


def sets_of(device: str, values: dict[str, float], held: Any) -> list[dict[str, Any]]:
    """Convolutions and products of a generation; what streams are factors of its kin."""
    low, high, errors = held
    linear = next(
        s.constants
        for s in packaged().sets
        if (s.form, s.device, s.formats) == ("torch_matmul", BASE, ("linear",))
    )
    found = []
    for narrow, precision in enumerate(("fp32", "fp16")):
        constants = constants_of(values, device, precision)["torch_convolution"]
        name = "half" if narrow else "any"
        one = sets._set("torch_convolution", name, device, constants, 1, low, high, errors)
        found.append(one | {"points": errors["points"], "confidence": "medium"})
        product = dict(linear) | {"compute": MATMUL[device][narrow]}
        names = [f"{k}_half" if narrow else k for k in ("linear", "bmm")]
        one = sets._set("torch_matmul", names[0], device, product, 0, low, high, errors)
        found.append(one | {"formats": names, "confidence": "low"})
    return found


def write(fresh: Sequence[dict[str, Any]]) -> None:
    """Replaces the sets of both generations."""
    constants = constants_file.read()
    kept = [s for s in constants["sets"] if s["device"] not in GENERATIONS]
    constants["sets"] = kept + list(fresh)
    constants_file.write(constants)


def main() -> None:
    """Prints errors and constants; writes them where asked."""
    runs = rows()
    fresh = []
    for device in GENERATIONS:
        own = [r for r in runs if _of_generation(r.device) == device]
        values = fit(own)
        print(device, len(own), {k: float(f"{v:.3g}") for k, v in values.items()})
        expected, measured = left_out(own)
        off = np.abs(expected / measured - 1)
        print(f"  models left out: mean {off.mean():.1%}, median {np.median(off):.1%}")
        for card in dict.fromkeys(r.device for r in own):
            test, rest = ([r for r in own if (r.device == card) == k] for k in (True, False))
            other = fit(rest)
            for precision in dict.fromkeys(r.precision for r in test):
                some = [r for r in test if r.precision == precision]
                own_fit = [abs(r.seconds(values) / r.problem.measured - 1) for r in some]
                errors = [abs(r.seconds(other) / r.problem.measured - 1) for r in some]
                print(
                    f"  {card} {precision}: {np.mean(own_fit):.1%}, left out {np.mean(errors):.1%}"
                )
        fresh += sets_of(device, values, sets.spread(expected, measured))
    if "--write" in sys.argv[1:]:
        write(fresh)


if __name__ == "__main__":
    main()
