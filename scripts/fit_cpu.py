"""Fits what PyTorch and ONNX Runtime attain of a processor's roofs; prints held-out errors.

    python scripts/fit_cpu.py [--write] [--only RUNTIME ...]

Rows of PyTorch are those of benchmarks/results/cpu_end_to_end.md (benchmarks/data/cpu/quiet.csv):
one and two cores, fp32 and bf16 with AMX. Those of ONNX Runtime (busy.csv, by
benchmarks/cpu_rows.py) are the least of one core's own clock beside other processes. Those of
torch.compile are what timm publishes for two processors of 14 cores (benchmarks/data/timm/cpu.csv),
one image in fp32; models are left out in folds. Eager PyTorch and ONNX Runtime on processors of
laptops and desktops are published runs (benchmarks/data/cpu/desktops.csv), and boards
with Cortex-A cores have classes of their own, from published runs on Raspberry Pis (boards.csv).
Peaks count at the clock that all cores hold (`gambrel.device.cores`); on laptops and desktops it is
the one that their power allows, and what an op moves lies in their caches: its rate is a share of
the peak. A share of the peak of
vector units, one of AMX, one of the bandwidth and the start of an op are fitted for each
runtime; errors are those of each model left out. The range is wider than that of two cores: with
many of them the shares fall, and how far was not measured. ``--write`` replaces their shares in
src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy.optimize import least_squares

import constants_file
from cpu_work import ENERGIES, Work, machine, work_of
from gambrel.analysis.estimate.adjust import guess
from gambrel.analysis.estimate.constants import Shares
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Workbench
from gambrel.capture.zoo import load
from gambrel.device.catalog import load as load_device
from gambrel.device.model import Device

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks/data/cpu"
TIMM = ROOT / "benchmarks/data/timm/cpu.csv"
FOLDS = 6
#: Of one core, measured with the rows (benchmarks/results/peaks.md): FLOP/s of the vector units in
#: fp32 and of AMX in bf16, byte/s.
VECTOR, AMX, BYTE_PER_S = 204e9, 2.14e12, 12e9
NAMES = ("memory", "compute", "matrix", "start_s")
FIRST = (0.7, 0.5, 0.15, 1e-5)
LEAST, MOST = (0.03, 0.05, 0.02, 1e-6), (1.0, 1.0, 1.0, 1e-3)
#: The same where what an op moves lies in caches.
CACHED = ("cached", *NAMES[1:])
FIRST_CACHED, LEAST_CACHED = (0.03, *FIRST[1:]), (1e-3, *LEAST[1:])
#: With many cores the share of the peak is lower, by up to so much. Assumed.
MANY_CORES = 2.5
#: Processors of ARM run other kernels, of which nothing was measured. Assumed.
OTHER_KERNELS = 1.6
#: Processors like those that timm measured: a few cores, and one memory.
DESKTOP = ("core-i", "core-ultra", "ryzen-5", "ryzen-7", "ryzen-9")
#: How much further the range reaches on others of them. Each of the two was forecast with the
#: constants of the other with an error of 18 %.
OTHER_DESKTOP = 1.2
#: Of classes and runtimes without rows of their own nothing was shown.
BORROWED: dict[str, object] = {"rows": 0, "error": None}
WHY = {
    "pytorch": "shares of the roofs that eager PyTorch attains on one and two cores of a Xeon",
    "onnxruntime": "shares of the roofs that ONNX Runtime attains on one core of a Xeon that other "
    "processes kept busy",
    "torch-compile": "shares of the roofs that compiled networks attain on two processors of 14 "
    "cores, an i9-10940X and an i7-12700H",
}
#: The same of runtimes on boards, whose cores are those of phones.
PUBLISHED = {
    "pytorch": "shares of the roofs that eager PyTorch attains",
    "onnxruntime": "shares of the roofs that ONNX Runtime attains",
    "litert": "shares of the roofs that XNNPACK attains",
    "openvino": "shares of the roofs that OpenVINO attains in fp16",
}
#: How much further the range reaches on boards with other cores of that kind, where one was
#: measured. Assumed.
OTHER_BOARD = 1.5
#: Models that a class needs for its confidence to be medium.
FEW_MODELS = 5
#: Larger errors are of low confidence.
MEDIUM = 0.15
BOUGHT = (
    "ultralytics/ultralytics, docs/en/integrations/openvino.md, and "
    "ispcojp/ai_inference_device_benchmark (figures only); see benchmarks/data/cpu, 2026-11-28"
)
BOARD_SOURCES = {
    "litert": "google/XNNPACK, README.md (figures only), February 2022",
    "": "ultralytics/ultralytics, docs/en/guides/raspberry-pi.md, "
    "ispcojp/ai_inference_device_benchmark, visionanalysis.org and Arm (figures only)",
}
OWN_SOURCE = "benchmarks/cpu_end_to_end.py and benchmarks/cpu_rows.py on Intel Xeons, 2026-11"
TIMM_SOURCE = (
    "huggingface/pytorch-image-models @7479d451, "
    "results/benchmark-infer-fp32-nchw-pt240-cpu-*.csv (Apache-2.0)"
)
Floats = NDArray[np.float64]
_WORK: dict[object, Work] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured model.

    Attributes:
        runtime: Id.
        model: Name.
        precision: Number format.
        source: Who published it; empty for this project's own.
        device: The processor.
        seconds: Measured.
        bench: The network.
        cached: Whether the cores decide how fast it moves what it moves, and their power the clock.
    """

    runtime: str
    model: str
    precision: str
    source: str = ""
    device: Device
    seconds: float
    bench: Workbench
    cached: bool = False

    @property
    def work(self) -> Work:
        """What it asks of the processor."""
        key = (id(self.bench), self.device.id, self.device.ceilings, self.runtime, self.precision)
        if key not in _WORK:
            _WORK[key] = work_of(
                self.bench, self.device, self.runtime, self.precision, by_power=self.cached
            )
        return _WORK[key]


def main() -> None:
    """Fits, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", nargs="+", default=[*PUBLISHED, "torch-compile"])
    options = parser.parse_args()
    fitted: list[dict[str, object]] = []
    for name in options.only:
        fitted += _all_of(name)
    if options.write:
        content = constants_file.read()
        own = {(s["runtime"], tuple(s["match"])) for s in fitted}  # type: ignore[arg-type]
        kept = [s for s in content["shares"] if (s["runtime"], tuple(s["match"])) not in own]
        # The first that matches a device counts.
        content["shares"] = kept + sorted(fitted, key=lambda s: s["match"] == ["cpu"])
        constants_file.write(content)


def _all_of(name: str) -> list[dict[str, object]]:
    """What is stored of a runtime, of desktops and boards before processors in general."""
    bought = [r for r in desktops() if r.runtime == name]
    published = [r for r in boards() if r.runtime == name]
    fitted = [_desktop(bought)] if bought else []
    fitted += _boards(published) if published else []
    return fitted + (_fit(name, rows(name)) if name in WHY else [])


def boards() -> list[Row]:
    """Published runs on boards."""
    return _published("boards.csv")


def desktops() -> list[Row]:
    """Published runs on processors of laptops and desktops."""
    return _published("desktops.csv")


def _published(name: str) -> list[Row]:
    return [
        Row(
            runtime=r["runtime"],
            model=r["model"],
            precision=r["precision"],
            source=r["source"].partition("-")[0],
            device=machine(r["device"]),
            seconds=float(r["ms"]) * 1e-3,
            bench=_zoo(r["model"]),
            cached=True,
        )
        for r in _read(name)
    ]


@cache
def _zoo(model: str) -> Workbench:
    import gambrel

    workload = gambrel.load_model(model, batch_size=1) if "/" in model else load(model)
    return Workbench(workload, workload.resolve_symbols({}), Settings().conventions)


def rows(name: str) -> list[Row]:
    """Those of a runtime in all other files."""
    if name == "torch-compile":
        with TIMM.open(newline="") as stream:
            return [_network(r) for r in csv.DictReader(stream)]
    measured = _read("quiet.csv" if name == "pytorch" else "busy.csv")
    return [_row(r, name) for r in measured if r["runtime"] == name]


def _read(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _row(r: dict[str, str], name: str) -> Row:
    workload = load(r["model"], phase="prefill" if r["model"] == "gpt2" else None)
    sizes = {"batch": int(r["batch"])} | ({"seq": int(r["seq"])} if r["seq"] else {})
    return Row(
        runtime=name,
        model=r["model"],
        precision=r.get("precision", "fp32"),
        device=cores(int(r.get("threads", 1))),
        seconds=float(r["ms"]) * 1e-3,
        bench=Workbench(workload, workload.resolve_symbols(sizes), Settings().conventions),
    )


def _network(r: dict[str, str]) -> Row:
    return Row(
        runtime="torch-compile",
        model=f"{r['model']} {r['image']}",
        precision="fp32",
        device=load_device(r["device"]),
        seconds=float(r["ms"]) * 1e-3,
        bench=_bench(r["model"], int(r["image"])),
    )


@cache
def _bench(model: str, image: int) -> Workbench:
    import gambrel

    try:
        workload = gambrel.load_model(f"timm/{model}", batch_size=1, image=image)
    except gambrel.InputError:  # it takes its own image size only
        workload = gambrel.load_model(f"timm/{model}", batch_size=1)
    return Workbench(workload, {}, Settings().conventions)


@cache
def cores(count: int) -> Device:
    """So many cores of the processor that was measured."""
    like = load_device("xeon-8480+")
    vector, matrix = like.ceiling("vector", "fp32"), like.ceiling("matrix", "bf16")
    assert vector is not None
    assert matrix is not None
    memory = replace(like.memory[0], byte_per_s=BYTE_PER_S * count)
    ceilings = (
        replace(vector, flop_per_s=VECTOR * count),
        replace(matrix, flop_per_s=AMX * count),
    )
    # Measured peaks are those at the clock that was held.
    return replace(like, id="cores", ceilings=ceilings, facts=(), memory=(memory, *like.memory[1:]))


def names_of(found: Sequence[Row]) -> tuple[str, ...]:
    """Of the constants of some rows, in their order."""
    return CACHED if found[0].cached else NAMES


def predicted(found: Sequence[Row], c: Floats) -> Floats:
    """Seconds of rows by constants in the order of `names_of`."""
    values = {"memory": 1.0, **dict(zip(names_of(found), c.tolist(), strict=True))}
    return np.array([row.work.seconds(values) for row in found])


def constants(found: Sequence[Row]) -> Floats:
    """Least squares of the logarithms; of laptops and desktops every machine weighs alike."""
    cached = found[0].cached
    first, least = np.array(FIRST_CACHED if cached else FIRST), LEAST_CACHED if cached else LEAST
    measured = np.array([r.seconds for r in found])
    machines = [(r.device.id, r.source) for r in found]
    several = len({r.device.id for r in found}) > 1 and cached
    weights = np.array([machines.count(m) ** -0.5 if several else 1.0 for m in machines])
    weights /= weights.mean()

    def residuals(x: Floats) -> Floats:
        off = weights * np.log(predicted(found, first * x) / measured)
        return np.concatenate([off, 0.05 * (x - 1)])

    bounds = (np.array(least) / first, np.array(MOST) / first)
    fit = least_squares(residuals, np.ones(len(first)), bounds=bounds, loss="soft_l1", f_scale=0.2,
                        diff_step=1e-2)  # fmt: skip
    result: Floats = fit.x * first
    return result


def left_out(found: Sequence[Row]) -> Floats:
    """Measured over predicted of each row, its model left out, in folds where there are many."""
    ratios = np.zeros(len(found))
    models = sorted({r.model for r in found})
    parts = (
        [{m} for m in models] if len(models) < 20 else [set(models[i::FOLDS]) for i in range(FOLDS)]
    )
    for part in parts:
        c = constants([r for r in found if r.model not in part])
        own = [i for i, r in enumerate(found) if r.model in part]
        times = predicted([found[i] for i in own], c)
        ratios[own] = np.array([found[i].seconds for i in own]) / times
    return ratios


def _fitted(found: Sequence[Row]) -> tuple[dict[str, float], Floats]:
    """Constants, and measured over predicted of each row with its model left out; printed."""
    name = found[0].runtime
    c = constants(found)
    ratios = left_out(found)
    error = np.abs(1 / ratios - 1).mean()
    print(
        name, dict(zip(names_of(found), c.round(7).tolist(), strict=True)), f"{error:.1%} left out"
    )
    for row, ratio in zip(found, ratios, strict=True):
        print(
            f"  {row.model:18} {row.precision} {row.seconds * 1e3:8.2f} ms, / predicted {ratio:.2f}"
        )
    values = dict(zip(names_of(found), (float(f"{v:.4g}") for v in c), strict=True))
    if found[0].cached:  # its bandwidth is in the roofline
        values = {"memory": 1.0, **values}
    if all(r.precision != "bf16" for r in found):
        values["matrix"] = 0.0  # AMX was not measured
    return values, ratios


def by_board(found: Sequence[Row]) -> list[list[Row]]:
    """Rows of a runtime, board by board."""
    return [[r for r in found if r.device.id == d] for d in sorted({r.device.id for r in found})]


def board_left_out(found: Sequence[Row]) -> Floats:
    """Measured over predicted, in the order of `by_board`, by constants from the other boards."""
    parts = [
        np.array([r.seconds for r in own])
        / predicted(own, constants([r for r in found if r not in own]))
        for own in by_board(found)
    ]
    return np.concatenate(parts)


def source_left_out(found: Sequence[Row]) -> Floats:
    """Measured over predicted of each row by those of other sources; none of a single source."""
    ratios = []
    for name in sorted({r.source for r in found}):
        own = [r for r in found if r.source == name]
        others = [r for r in found if r.source != name]
        if others:
            times = predicted(own, constants(others))
            ratios.append(np.array([r.seconds for r in own]) / times)
    return np.concatenate([*ratios, np.zeros(0)])


def _boards(found: Sequence[Row]) -> list[dict[str, object]]:
    """Of each board, and of boards with other cores: from all boards, each left out in turn."""
    boards = [_board(own, *_fitted(own)) for own in by_board(found)]
    others, further = boards[0], OTHER_BOARD
    if len(boards) > 1:
        print("all boards")
        others, further = _board(found, _fitted(found)[0], board_left_out(found)), 1.0
    ends: tuple[float, float] = others["low"], others["high"]  # type: ignore[assignment]
    away = others | {
        "match": ["cortex-a"],
        "low": round(ends[0] / further, 3),
        "high": round(ends[1] * further, 3),
        "confidence": "low",
        **BORROWED,
        "why": f"{others['why']}; none on this board",
    }
    return [*boards, away]


def _board(found: Sequence[Row], values: dict[str, float], ratios: Floats) -> dict[str, object]:
    name, devices = found[0].runtime, {r.device.id: r.device.name for r in found}
    own = np.array([r.seconds for r in found]) / predicted(
        found, np.array([values[n] or FIRST[2] for n in names_of(found)])
    )
    sources = source_left_out(found)
    low, high = ends_of(ratios, own, *([sources] if sources.size else []))
    error = float(np.abs(1 / ratios - 1).mean())
    formats = {r.precision for r in found}
    halved = "fp16" in formats  # as networks in fp32 run there unless told otherwise
    enough = len({r.model for r in found}) > FEW_MODELS and error < MEDIUM
    return {
        "runtime": name, "match": sorted(devices), **values,
        "compute_stored": values["compute"], "unpack": guess(name, "cpu").unpack,
        "formats": sorted(formats | ({"fp32"} if halved else set())),
        "low": round(min(low, 0.9) / 1.1, 3), "high": round(max(high, 1.1) * 1.1, 3),
        "confidence": "medium" if enough else "low",
        "rows": len(found), "error": round(error, 3),
        "why": f"{PUBLISHED[name]} on a {' and a '.join(sorted(devices.values()))}"
        + ("; in fp32 none was measured" if halved else ""),
        "source": BOARD_SOURCES.get(name) or BOARD_SOURCES[""],
    }  # fmt: skip


def ends_of(*ratios: Floats) -> tuple[float, float]:
    """Between which nine of ten lie, of each way to leave rows out."""
    low = min(float(np.quantile(r, 0.05, method="lower")) for r in ratios)
    return low, max(float(np.quantile(r, 0.95, method="higher")) for r in ratios)


def _desktop(found: Sequence[Row]) -> dict[str, object]:
    """Of laptops and desktops: from all that were measured, each left out in turn."""
    values, ratios = _fitted(found)
    names = sorted({r.device.name for r in found})
    away = board_left_out(found)
    print(f"  devices left out: {np.abs(1 / away - 1).mean():.1%}")
    low, high = ends_of(ratios, away)
    return {
        "runtime": found[0].runtime, "match": list(DESKTOP), **values, "power": ENERGIES,
        "compute_stored": values["compute"], "unpack": guess(found[0].runtime, "cpu").unpack,
        "low": round(min(low, 0.9), 3), "high": round(max(high, 1.1), 3),
        "confidence": "low", "rows": len(found),
        "error": round(float(np.abs(1 / ratios - 1).mean()), 3),
        "why": f"{PUBLISHED[found[0].runtime]} on {len(names)} processors of laptops and desktops",
        "source": BOUGHT,
    }  # fmt: skip


def _fit(name: str, found: Sequence[Row]) -> list[dict[str, object]]:
    values, ratios = _fitted(found)
    errors = np.abs(1 / ratios - 1)
    shares: Shares = guess(name, "cpu")
    low, high = np.quantile(ratios, [0.05, 0.95])
    first: list[dict[str, object]] = []
    if name == "torch-compile":
        desktop = {
            "runtime": name, "match": list(DESKTOP), **values, "compute_stored": values["compute"],
            "unpack": shares.unpack,
            "low": round(float(low) / OTHER_DESKTOP, 3),
            "high": round(float(high) * OTHER_DESKTOP, 3),
            "confidence": "medium", "rows": len(found), "error": round(float(errors.mean()), 3),
            "why": WHY[name], "source": TIMM_SOURCE,
        }  # fmt: skip
        first = [desktop]
    own: dict[str, object] = {
        "runtime": name,
        "match": ["xeon", "epyc"],
        **values,
        "compute_stored": values["compute"],
        "unpack": shares.unpack,
        "low": round(float(min(low, 0.9)) / 1.5, 3),
        "high": round(float(max(high, 1.1)) * MANY_CORES, 3),
        "confidence": "low",
        "rows": len(found),
        "error": round(float(errors.mean()), 3),
        "why": WHY[name],
        "source": TIMM_SOURCE if first else OWN_SOURCE,
    }
    others = own | {
        "match": ["cpu"],
        "low": round(float(min(low, 0.9)) / 2, 3),
        "high": round(float(max(high, 1.1)) * MANY_CORES * OTHER_KERNELS, 3),
        **BORROWED,
        "why": f"{WHY[name]}; none on a processor of this kind",
    }
    if first:  # the rows are of desktops
        own |= {**BORROWED, "why": others["why"]}
    return [*first, own, others]


if __name__ == "__main__":
    main()
