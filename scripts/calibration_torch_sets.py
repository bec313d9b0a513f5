"""Sets of constants for PyTorch's kernels on GPUs, with ranges and errors of what was left out.

KernelBench (two H100): constants of all forms together; problems in folds by name. Single ops
(seven GPUs): each form by itself; shapes in folds. Where a GPU has no rows of a form it has no set
of it, and `Kin.nearest` names whose it takes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import calibration_ops as ops
import calibration_torch as bench
from gambrel.analysis.estimate.constants import packaged

#: Joule per FLOP of fp32 products at full clock, by process node: what the power of each card
#: allows over what its long products reach. 27 pJ: 16 nm; 15 pJ: 12 nm; 12 pJ: 7 nm. AMD's are not
#: limited by it.
ENERGY_J = {
    "v100-pcie-32gb": 15e-12,
    "t4": 15e-12,
    "p100-pcie-16gb": 27e-12,
    "p4-8gb": 27e-12,
    "a100-pcie-40gb": 12e-12,
}
#: The same for products: the T4's 70 W sustain its base clock, 585 MHz (NVIDIA T4 data sheet); a
#: P40 of the P100's process computes 10.07 TFLOP/s at 250 W (database of github.com/zzc0721/
#: torch-performance-test-data). The P4 of the rows took more.
PRODUCT_J = ENERGY_J | {"t4": 18.3e-12, "p100-pcie-16gb": 19.4e-12}
#: Last caches of Pascal that rows which tiles share may take before each tile reads its own.
REACH = 6.0
#: Tiles of 64 x 128 a unit that the library splits products for: Turing's grids hold several
#: waves of pieces, those of the HBM cards no more than fill the units.
SPLITS = {"t4": 5.0, "v100-pcie-32gb": 0.5, "a100-pcie-40gb": 0.5}
EDGES = (2e-5, 2e-4, 2e-3)
FOLDS = 6
#: Rows that a range of its own needs.
FEW = 40
TAIL = 0.05
#: Range of products below 2 ms on the H100, of which KernelBench has few: measured ones of 1024 and
#: 2048 rows and columns take 0.66 to 1.37 times the expected (github.com/zzc0721/
#: torch-performance-test-data, issues 79 and 95).
SHORT = (0.65, 1.4)
#: A form's range is that of the problems of which it takes this share of the time.
MAIN = 0.5
Constants = dict[str, dict[str, float]]


def fold_of(name: str) -> int:
    """Which fold a problem is in: all cards and runtimes of it."""
    return zlib.crc32(name.encode()) % FOLDS


def fit_bench(
    eager: Sequence[bench.Problem], compiled: Sequence[bench.Problem], start: Constants
) -> Constants:
    """Constants of the H100: eager times first, then what only compiled times say."""
    found = bench.solve(eager, start, bench.FITTED)
    return bench.solve(compiled, found, bench.FITTED_COMPILED)


def bench_folds(
    eager: Sequence[bench.Problem], compiled: Sequence[bench.Problem]
) -> list[Constants]:
    """Of each fold the constants that did not see it."""
    return [
        fit_bench(
            [p for p in eager if fold_of(p.name) != fold],
            [p for p in compiled if fold_of(p.name) != fold],
            bench.START,
        )
        for fold in range(FOLDS)
    ]


def bench_sets(truth: Path) -> tuple[list[dict[str, Any]], Constants]:
    """One set a form and card; both cards share constants and ranges."""
    eager, compiled = bench.problems(truth, "eager"), bench.problems(truth, "compiled")
    found = fit_bench(eager, compiled, bench.START)
    folds = bench_folds(eager, compiled)
    pairs = [(p, folds[fold_of(p.name)]) for p in (*eager, *compiled)]
    sets = []
    for form, constants in found.items():
        main = [(p, c) for p, c in pairs if _share(p, c, form) > MAIN]
        low, high, held = spread(
            np.array([p.seconds(c, bench.HOST_S[p.runtime]) for p, c in main]),
            np.array([p.measured for p, _ in main]),
        )
        for card in bench.CARDS.values():
            sets.append(_set(form, "any", card, constants, len(main), low, high, held))
            if form == "torch_matmul":
                sets[-1] |= {
                    "formats": ["linear", "bmm"],
                    "low": [*(min(SHORT[0], end) for end in low[:-1]), low[-1]],
                    "high": [*(max(SHORT[1], end) for end in high[:-1]), high[-1]],
                }
    return sets, found


def _share(p: bench.Problem, c: Constants, form: str) -> float:
    """Of a problem's time, what kernels of a form take."""
    own = sum(
        q.seconds(p.machine, c) for q in p.parts if q.rule is not None and q.rule.form == form
    )
    return own / p.seconds(c, bench.HOST_S[p.runtime])


def op_sets(truth: Path, h100: Constants, files: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One set a form and GPU, of all files of rows or of some."""
    sets = []
    streams: dict[str, float] = {}
    for file, form in ops.FORMS.items():
        if files and file not in files:
            continue
        found = ops.rows(truth, file)
        for device in dict.fromkeys(r.device for r in found):
            own = [r for r in found if r.device == device]
            c = ops.fit(own, start_of(file, device, h100), file, device)
            if file == "elem":
                streams[device] = c["same"]
            elif file == "ln":  # no batch norm was measured: what it applies is element-wise
                c["batch"] = streams.get(device, c["apply"])
            expected, measured = held_out(own, c, file, device)
            low, high, held = spread(expected, measured)
            name = file if form == "torch_matmul" else "any"
            sets.append(_set(form, name, device, c, len(own), low, high, held))
    return sets


def held_out(
    own: Sequence[ops.Row], start: dict[str, float], file: str, device: str
) -> tuple[Any, Any]:
    """Expected times by constants of the other folds, and the measured ones."""
    expected, measured = [], []
    known = ops.machine(device)
    for fold in range(ops.FOLDS):
        c = ops.fit([r for r in own if r.fold != fold], start, file, device)
        test = [r for r in own if r.fold == fold]
        expected += [r.seconds(known, c) for r in test]
        measured += [r.measured for r in test]
    return np.array(expected), np.array(measured)


def start_of(file: str, device: str, h100: Constants) -> dict[str, float]:
    """Constants before the fit: the H100's, with those that differ by class of device."""
    c = dict(h100[ops.FORMS[file]])
    if device.startswith("mi"):
        c["base_s"] = ops.HIP_BASE_S
    if file == "elem" and device.startswith("mi"):
        c["pow_cycles"] = 190.0
    if file == "softmax":
        c |= {"inner": 0.8, "extra": 1.0}
    if file == "ln":
        c |= {"apply": 0.8, "layer_extra": 0.5, "start_s": 20e-6}
    if file == "conv":
        c |= {"start_s": 100e-6, "energy_j": ENERGY_J[device]}
        c |= {"tap": LANE_TAP, "start": LANE_TAP}
        c |= {"small_regions": float(device.startswith("p"))}  # Pascal
    if ops.FORMS[file] == "torch_matmul":
        c |= _product_start(file, device)
    return c


#: Lane cycles of a tap of depthwise convolutions before Ampere, by EfficientNet-B0 and B4 in fp32
#: on a V100 (benchmarks/data/networks): 8 to 16 leave errors of up to 10 %.
LANE_TAP = 12.0
#: The tile (rows, columns) that cuBLAS takes for fp32 products in batches, by the kernels' names in
#: the rows; V100's is the fastest of several, AMD's comes from a table of shapes.
BATCH_TILES = {
    "a100-pcie-40gb": (128.0, 128.0),
    "p100-pcie-16gb": (64.0, 128.0),
    "p4-8gb": (64.0, 128.0),
    "t4": (64.0, 64.0),
}
#: Distance of rows at which all of them lie in one memory channel, byte: where times triple.
CHANNELS_BYTES = {"mi100": 4.0 * 65_536, "mi210": 4.0 * 32_768}


def _product_start(file: str, device: str) -> dict[str, float]:
    """Constants of products before the fit."""
    linear = file == "linear"
    rows, columns = (0.0, 0.0) if linear else BATCH_TILES.get(device, (0.0, 0.0))
    pascal = linear and device in ("p100-pcie-16gb", "p4-8gb")
    channels = CHANNELS_BYTES.get(device, 0.0) if linear else 0.0
    return {
        "ladder": 0.0, "compute": 0.9, "wave": 0.4, "occupancy": 0.3 if linear else 0.5,
        "k_fill": 20.0, "edge": 0.15, "memory": 0.6, "store": 0.6, "start_s": 10e-6,
        "rows": rows, "columns": columns, "maxwell": float(pascal),
        "splits": SPLITS.get(device, 1.5) * linear, "k_split": 256.0,
        "reach": REACH * pascal, "reach_power": 0.35 * pascal, "drift": 2.0 * pascal,
        "channels_bytes": channels, "one_channel": 2.5 if channels else 1.0,
        "energy_j": PRODUCT_J.get(device, 0.0), "settle_s": 2e-3,
    }  # fmt: skip


def spread(expected: Any, measured: Any) -> tuple[list[float], list[float], dict[str, Any]]:
    """Range by bin of expected time, and the errors."""
    ratio = measured / expected
    bins = np.digitize(expected, EDGES)
    low, high = [], []
    for i in range(len(EDGES) + 1):
        near = bins == i if (bins == i).sum() >= FEW else np.full(len(bins), True)
        # A quantile of few points is itself uncertain.
        slack = 1 + 0.35 / max(near.sum(), 1) ** 0.5
        ends = np.quantile(ratio[near], [TAIL, 1 - TAIL]) if near.any() else (0.5, 2.0)
        low.append(float(f"{min(1.0, ends[0] / slack):.3g}"))
        high.append(float(f"{max(1.0, ends[1] * slack):.3g}"))
    error = np.abs(expected / measured - 1)
    lo, hi = np.array(low)[bins], np.array(high)[bins]
    held = {
        "points": len(ratio),
        "mape": round(float(error.mean()), 4) if len(ratio) else 0.0,
        "median": round(float(np.median(error)), 4) if len(ratio) else 0.0,
        "inside": round(float(((ratio >= lo) & (ratio <= hi)).mean()), 4) if len(ratio) else 0.0,
        "width": round(float(np.median(hi / lo)), 3) if len(ratio) else None,
        "by_framework": {"torch": round(float(error.mean()), 4) if len(ratio) else 0.0},
    }
    return low, high, held


def _set(
    form: str, name: str, device: str, c: dict[str, float], points: int,
    low: list[float], high: list[float], held: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    found = {
        "framework": "torch",
        "form": form,
        "formats": [name],
        "device": device,
        "constants": c,
        "points": points,
        "low": low,
        "high": high,
        "confidence": confidence_of(held),
        "describes": "torch",
    }
    return found | ({"held_out": held} if points else {})


def confidence_of(held: dict[str, Any]) -> str:
    """High only where enough rows that were left out show it."""
    if held["points"] >= FEW and held["mape"] <= 0.15 and held["inside"] >= 0.85:
        return "high"
    return "medium" if held["mape"] <= 0.25 else "low"


def amd_sets(truth: Path, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What AMD's GPUs take where no row of them says it, from what rows of the MI210 do say.

    Other streams: the share of element-wise ops, times what the kind of kernel attains of that on
    the H100 (the walk through memory is the same code). Windows: lane cycles are instructions of
    that code as well. Convolutions: products, with layout passes. Products of serving engines: the
    formula of those, fitted to linear layers, with the bandwidth of streams (on the H100, A100 and
    L40S it is 1.05 times theirs). All are of low confidence.
    """
    device = "mi210"
    own = {(s["form"], s["formats"][0]): s["constants"] for s in found if s["device"] == device}
    h100 = {s["form"]: s["constants"] for s in reversed(found) if s["device"] == "h100-sxm5-80gb"}
    share = own["torch_elementwise", "any"]["same"]
    scale = share / h100["torch_elementwise"]["same"]
    shares = {"plain", "indexed", "scan", "compiled", "cat", "strided", "memory", "pointwise"}
    shares |= {"relay", "bias"}

    def carried(form: str) -> dict[str, float]:
        return {
            k: float(f"{min(1.0, v * scale):.4g}") if k in shares else v
            for k, v in h100[form].items()
        } | {"base_s": ops.HIP_BASE_S}

    engine = own["torch_matmul", "linear"]["compute"]
    convolution = carried("torch_convolution") | {
        "engine": engine,
        "engine_3d": engine,
        "grouped": engine / 8,
        "start_cycles": 0.0,  # those of NVIDIA's kernels say nothing of AMD's
        "step_cycles": 0.0,
        "tile": 0.0,
        "gather_bytes": 0.0,
    }
    known = ops.machine(device)
    rows = [r for r in ops.rows(truth, "linear") if r.device == device]
    start = next(
        s.constants
        for s in packaged().sets
        if (s.framework, s.form, s.device) == ("any", "matmul", "a100-sxm4-80gb")
        and "bf16" in s.formats
    )
    memory = float(f"{share * known.most:.4g}")
    general = ops.fit_general(rows, device, start | {"memory": memory})
    stream = {"launch": general["launch"], "memory": memory, "vector": 0.5}
    return [
        _derived("torch", "torch_reduction", ["any"], carried("torch_reduction")),
        _derived("torch", "torch_copy", ["any"], carried("torch_copy")),
        _derived("torch", "torch_pooling", ["any"], carried("torch_pooling")),
        _derived("torch", "torch_convolution", ["any"], convolution),
        _derived("any", "matmul", ["bf16", "fp16"], general),
        _derived("any", "stream", ["any"], stream),
    ]


def _derived(framework: str, form: str, formats: list[str], c: dict[str, float]) -> dict[str, Any]:
    return {
        "framework": framework,
        "form": form,
        "formats": formats,
        "device": "mi210",
        "constants": c,
        "points": 0,
        "low": [0.5] * (len(EDGES) + 1),
        "high": [2.2] * (len(EDGES) + 1),
        "confidence": "low",
        "describes": "torch",
    }


def torch_sets(truth: Path) -> list[dict[str, Any]]:
    """All sets, the H100's first: they serve where nothing nearer was measured."""
    h100, constants = bench_sets(truth)
    found = h100 + op_sets(truth, constants)
    return found + amd_sets(truth, found)


def table(sets: Sequence[dict[str, Any]]) -> list[str]:
    """Errors of what was left out, one line a set."""
    return [
        f"{s['form']:<20} {s['formats'][0]:<7} {s['device']:<16} n={s['held_out']['points']:>4} "
        f"MAPE {s['held_out']['mape']:.1%} median {s['held_out']['median']:.1%} "
        f"inside {s['held_out']['inside']:.0%} low {s['low']} high {s['high']}"
        for s in sets
        if "held_out" in s
    ]
