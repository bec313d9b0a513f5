"""Refits PyTorch's 16-bit convolutions and streams to whole models on consumer GPUs.

    python scripts/fit_half.py [--write]

Rows are those of benchmarks/data/timm (models are built by `timm`), eager and compiled. Of each GPU
a handful of constants: the share of the peak that convolutions attain (plain, grouped, of colours),
the shares of the bandwidth (of convolutions, of pointwise ones with channels last and first, of
everything that streams, eager and compiled, of concatenations), and the lane cycles of a tap of
depthwise ones. Errors are those of models left out, in folds, and of the GPU left out. ``--write``
replaces the sets in src/gambrel/analysis/calibration/constants.json.

V100 and T4: rows of benchmarks/data/networks with channels last, where the GPU is the limit, their
casts (automatic mixed precision) counted. Only the convolutions are fitted; what streams has
constants of its own there. Rows of timm are priced in 16 bits throughout: at their batches casts
of weights are nothing, and their times leave no room for those around layer norms.
"""

from __future__ import annotations

import csv
import math
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import calibration_torch as bench
import calibration_torch_sets as sets
from calibration_solver import least_squares
from gambrel.analysis.estimate.constants import packaged
from gambrel.device.catalog import load
from gambrel.runtimes import runtime

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "benchmarks/data/timm/rows.csv"
NETWORKS = ROOT / "benchmarks/data/networks/rows.csv"
#: GPUs of those rows → whose single fp32 ops were measured.
OLDER = {"v100-sxm2-32gb": "v100-pcie-32gb", "t4": "t4"}
#: Of so many images on, the host is not the limit.
BUSY = 128
FOLDS = 6
#: Families without layer norms, which automatic mixed precision computes in fp32.
FITTED = (
    "resnet", "resnext", "seresnet", "vgg", "densenet", "regnet", "mobilenet", "mnasnet",
    "efficientnet", "ghostnet", "mobileone", "hrnet", "dla", "inception", "repvgg", "cspresnet",
    "nfnet",
)  # fmt: skip
#: Before the fit. ``stream`` stands for all that streams: element-wise ops, batch norms, layouts.
FIRST = {
    "half": 0.7, "half_grouped": 0.4, "few": 0.35, "memory": 0.8, "pointwise": 0.8, "tap": 8.0,
    "stream": 0.9, "cat": 0.75, "first": 0.6,
    "compiled": 0.8858,
}  # fmt: skip
#: Lane cycles; all others are shares, which nothing exceeds.
CYCLES = ("tap",)
#: What single kernels that stream attain of the bandwidth, at most.
STREAM = 0.95
#: How far a constant may wander from its start for a unit of error.
STIFF = 0.15
#: A convolution with channels last needs no pass that turns it.
NO_PASS = 1e9


@dataclass(frozen=True, kw_only=True)
class Run:
    """One published row."""

    device: str
    layout: str
    problem: bench.Problem

    def seconds(self, constants: sets.Constants) -> float:
        """Expected time by constants by form."""
        if self.layout == "nhwc":
            turned = constants["torch_convolution"] | {"relay": NO_PASS, "first": 1.0}
            constants = constants | {"torch_convolution": turned}
        return self.problem.seconds(constants, bench.HOST_S[self.problem.runtime])

    @property
    def fold(self) -> int:
        """All rows of a model are in one fold."""
        return zlib.crc32(self.problem.name.split()[0].encode()) % FOLDS


def rows(ran: str = "eager", *, fitted: bool = True) -> list[Run]:
    """Rows of eager or ``compiled`` runs: of the families that are fitted, or of the others."""
    with ROWS.open(newline="") as file:
        found = [r for r in csv.DictReader(file) if r["runtime"] == ran]
    return [_run(r) for r in found if r["model"].startswith(FITTED) == fitted]


def older_rows() -> list[Run]:
    """Rows of V100 and T4."""
    with NETWORKS.open(newline="") as file:
        found = [r for r in csv.DictReader(file) if r["device"] in OLDER]
    busy = [r for r in found if int(r["batch"]) >= BUSY]
    return [
        _run(r | {"runtime": "eager", "image": r["size"], "images_per_s": r["per_s"]}, "fp16")
        for r in busy
        if (r["phase"], r["precision"]) == ("inference", "fp16")
    ]


def _run(r: dict[str, str], autocast: str | None = None) -> Run:
    name = f"{r['model']} {r['batch']} {r['image']}"
    run = runtime("pytorch" if r["runtime"] == "eager" else "torch-compile")
    workload = _captured(r["model"], int(r["batch"]), int(r["image"]), autocast)
    precision = workload.precisions or "fp16"
    seconds = int(r["batch"]) / float(r["images_per_s"])
    problem = bench.problem(workload, name, r["device"], run, seconds, precision)
    return Run(device=r["device"], layout=r["layout"], problem=problem)


@cache
def _captured(model: str, batch: int, image: int, autocast: str | None) -> Any:
    import gambrel

    return gambrel.load_model(f"timm/{model}", batch_size=batch, image=image, autocast=autocast)


@cache
def measured_on(device: str) -> sets.Constants:
    """Constants by form of a GPU whose single ops were measured, else of the H100."""
    return {
        s.form: dict(s.constants)
        for name in ("h100-sxm5-80gb", device)
        for s in reversed(packaged().sets)
        if (s.framework, s.device) == ("torch", name) and s.formats[0] != "half"
    }


def _joule(device: str) -> float:
    """Energy of a FLOP in 16 bits, by TensorRT's runs on the same process; 0 where unknown."""
    engine = next(e for e in packaged().engines if e.match == ("nvidia",))
    architecture = load(device).architecture if device else ""
    return float(f"{engine.flop_energy_of(architecture) * engine.energy_of('fp16'):.3g}")


def constants_of(values: dict[str, float], device: str = "") -> sets.Constants:
    """By form, from the few that are fitted; the others are the H100's.

    Of V100 and T4 the others are their own.
    """
    h100 = {form: dict(c) for form, c in measured_on("h100-sxm5-80gb").items()}
    of = {k: float(f"{v:.4g}") for k, v in values.items()}
    stream, old = of["stream"], h100["torch_convolution"]
    ratio = h100["torch_elementwise"]["broadcast"] / h100["torch_elementwise"]["same"]
    h100["torch_elementwise"] |= {"same": stream, "broadcast": float(f"{stream * ratio:.4g}")}
    h100["torch_elementwise"] |= {"compiled": of["compiled"]}
    h100["torch_normalization"] |= {"apply": stream, "batch": stream}
    h100["torch_copy"] |= {"cat": of["cat"], "strided": of["cat"]}
    convolution = {
        k: of[k] for k in ("half", "half_grouped", "few", "memory", "pointwise", "first")
    }
    convolution |= {k: old[k] for k in ("base_s", "transposed", "bias")}
    convolution |= bench.of_engines()
    convolution |= {
        "tap": of["tap"],
        "start": of["tap"],
        "relay": stream,
        "energy_j": _joule(device),
    }
    convolution["engine_3d"] = float(f"{old['engine_3d'] / old['engine']:.4g}")
    base = measured_on(OLDER[device]) if device in OLDER else h100
    return base | {"torch_convolution": convolution}


def fit(runs: Sequence[Run]) -> sets.Constants:
    """The constants that fit runs of one GPU best."""
    names, device = list(FIRST), runs[0].device
    first = np.log([FIRST[n] for n in names])

    def values(z: Any) -> dict[str, float]:
        free = zip(names, np.exp(z), strict=True)
        most = {"stream": STREAM, "compiled": STREAM, **dict.fromkeys(CYCLES, math.inf)}
        return {n: float(min(v, most.get(n, 1.0))) for n, v in free}

    def residual(z: Any) -> Any:
        c = constants_of(values(z), device)
        errors = [math.log(r.seconds(c) / r.problem.measured) for r in runs]
        return np.concatenate([errors, STIFF * (z - first)])

    return constants_of(values(least_squares(residual, first)), device)


def left_out(runs: Sequence[Run]) -> tuple[Any, Any]:
    """Expected times by constants that did not see the model, and the measured ones."""
    expected, measured = [], []
    for fold in range(FOLDS):
        test = [r for r in runs if r.fold == fold]
        if test:
            c = fit([r for r in runs if r.fold != fold])
            expected += [r.seconds(c) for r in test]
            measured += [r.problem.measured for r in test]
    return np.array(expected), np.array(measured)


#: Forms whose constants the rows say something of, and the class of formats they are for.
FORMS = {
    "torch_convolution": "half",
    "torch_elementwise": "any",
    "torch_normalization": "any",
    "torch_copy": "any",
}


def all_sets(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One set a form and GPU."""
    found = []
    for device in dict.fromkeys(r.device for r in runs):
        own = [r for r in runs if r.device == device]
        c = fit(own)
        expected, measured = left_out(own)
        # Ranges hold compiled runs of other families as well, to which nothing was fitted.
        others = [r for r in rows("compiled", fitted=False) if r.device == device]
        _, _, held = sets.spread(expected, measured)
        low, high, _ = sets.spread(
            np.append(expected, [r.seconds(c) for r in others]),
            np.append(measured, [r.problem.measured for r in others]),
        )
        for form, name in FORMS.items():
            one = sets._set(form, name, device, c[form], len(own), low, high, held)
            found.append(one | {"confidence": "medium"})  # whole models, no single kernels
    return found


def older_sets() -> list[dict[str, Any]]:
    """Convolutions of V100 and T4; errors are those of models left out one by one."""
    found = []
    for device in OLDER:
        own = [r for r in older_rows() if r.device == device]
        expected, measured = [], []
        for model in {r.problem.name.split()[0] for r in own}:
            test = [r for r in own if r.problem.name.split()[0] == model]
            c = fit([r for r in own if r not in test])
            expected += [r.seconds(c) for r in test]
            measured += [r.problem.measured for r in test]
        low, high, held = sets.spread(np.array(expected), np.array(measured))
        form = "torch_convolution"
        one = sets._set(form, FORMS[form], device, fit(own)[form], len(own), low, high, held)
        found.append(one | {"confidence": "medium"})
    return found


def main() -> None:
    """Prints errors; writes the constants where asked."""
    runs = rows() + rows("compiled")
    found = all_sets(runs) + older_sets()
    for s in found:
        if s["form"] == "torch_convolution":
            print("\n".join(sets.table([s])), "\n    ", s["constants"])
    by_device: dict[str, sets.Constants] = {}
    for s in found:
        if s["device"] in OLDER:
            continue
        by_device.setdefault(s["device"], {})[s["form"]] = s["constants"]
    for device in by_device:
        own = [r for r in runs if r.device == device]
        for other, c in by_device.items():
            whole = constants_of(FIRST) | c
            errors = [abs(r.seconds(whole) / r.problem.measured - 1) for r in own]
            print(f"{device:>10} by {other:<10} mean {np.mean(errors):.1%} n={len(own)}")
    if "--write" in sys.argv[1:]:
        from fit_calibration import write

        write(found)


if __name__ == "__main__":
    main()
