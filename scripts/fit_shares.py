"""Refits the shares of roofs that whole runs attain (`analysis/estimate/shares.py`).

    python scripts/fit_shares.py [--write] [PATTERN ...]

Rows are those of tests/data/published/llama_cpp.csv and, for processors that are not in the
catalog, `MACHINES`. Constants are fitted to the logarithm of measured over predicted. The error is
that of each model left out in turn, and of each device; the range holds nine rows of ten of both.
``--write`` replaces the shares in src/gambrel/analysis/calibration/constants.json.

Versions differ: in June 2024 llama.cpp began to multiply blocks as int8 on NVIDIA, and its products
with one vector grew a third faster. So a class says since when its rows count; of 16-bit weights,
whose products come from a library, older ones count too (`Class.since_whole`). Prompts beyond
`LONGEST` tokens count since `FUSED`, when attention was fused unasked.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import constants_file
import gambrel
from gambrel.analysis.estimate.shares import counted, heads_per_cache, lanes_of, peak_of, unpacked
from gambrel.analysis.roofs import roofs_of
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.catalog import load
from gambrel.device.model import Device
from gambrel.runtimes import matches
from gambrel.workload import Workload

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "tests/data/published"
NAMES = ("memory", "compute", "compute_stored", "unpack", "start_s", "attention")
FIRST = np.array([0.75, 0.7, 0.6, 8.0, 6e-6, 0.5])
LEAST = np.array([0.2, 0.05, 0.05, 0.0, 1e-8, 0.02])
MOST = np.array([0.97, 1.0, 1.0, 60.0, 1e-4, 0.97])
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """One class of devices: where its rows are, and what is said of them.

    Attributes:
        match: Patterns of the devices that it serves.
        name: For the reader.
        confidence: ``medium`` or ``low``.
        backends: Whose rows count; empty for all.
        since: First month of the versions whose rows count, ``YYYY-MM``.
        since_whole: That of 16-bit weights; as ``since`` when empty.
        by: What is left out in turn.
        attention: Whether attention has a share of the bandwidth of its own: where the same models
            were timed with short and with long contexts.
        by_head: Whether each query head of a new token reads the cache by itself.
        like: Patterns of devices whose text generation is fitted with its own.
        why: For the reader.
    """

    match: tuple[str, ...]
    name: str
    confidence: str
    backends: tuple[str, ...] = ()
    since: str = ""
    since_whole: str = ""
    attention: bool = False
    by_head: bool = False
    like: tuple[str, ...] = ()
    by: tuple[str, ...] = ("model", "device")
    why: str


CLASSES = (
    Class(
        match=("apple",),
        name="Apple GPUs",
        attention=True,
        by_head=True,
        confidence="medium",
        why="shares of bandwidth and peak that llama.cpp and Ollama attain on Apple GPUs",
    ),
    Class(
        match=("cpu",),
        name="processors",
        confidence="low",
        why="shares of bandwidth and peak that llama.cpp and Ollama attain on processors",
    ),
    Class(
        match=("tu102", "tu104", "tu106", "sm_86", "sm_89", "sm_120"),
        name="NVIDIA tensor cores beside GDDR",
        confidence="medium",
        backends=("CUDA",),
        since="2024-06",
        since_whole="2024-05",
        why="shares of bandwidth and peak that llama.cpp attains under CUDA on GeForce, RTX and "
        "L40S cards",
    ),
    Class(
        match=("sm_80",),
        name="NVIDIA A100",
        attention=True,
        confidence="medium",
        backends=("CUDA",),
        since="2024-05",
        like=("sm_90", "sm_10"),
        why="shares of bandwidth and peak that llama.cpp attains under CUDA on A100, H100, H200 "
        "and B300; prompts on A100 alone, in versions of May 2024",
    ),
    Class(
        match=("sm_90", "sm_10"),
        name="NVIDIA H100 and later beside HBM",
        attention=True,
        confidence="low",
        backends=("CUDA",),
        since="2024-05",
        like=("sm_80",),
        why="shares of bandwidth and peak that llama.cpp attains under CUDA on A100, H100, H200 "
        "and B300; prompts on H100 PCIe alone, in versions of May 2024",
    ),
    Class(
        match=("sm_121",),
        name="NVIDIA GB10",
        confidence="medium",
        backends=("CUDA",),
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains under CUDA on DGX Spark",
    ),
    Class(
        match=("sm_87",),
        name="Jetson Orin",
        confidence="low",
        backends=("CUDA", "Ollama"),
        since="2024-01",
        why="shares of bandwidth and peak that llama.cpp attains on Jetson Orin, whose power modes "
        "differ; two prompts",
    ),
    Class(
        match=("sm_61",),
        by=("precision",),
        name="NVIDIA Pascal",
        confidence="low",
        backends=("CUDA",),
        since="2024-01",
        why="shares of bandwidth and peak that llama.cpp attains on P40, mostly early in 2024",
    ),
    Class(
        match=("gfx103",),
        name="AMD RDNA2",
        confidence="low",
        since="2024-01",
        why="shares of bandwidth and peak that llama.cpp attains on RX 6700 XT, 6800 and 6800 XT",
    ),
    Class(
        match=("gfx110",),
        name="AMD RDNA3",
        confidence="low",
        backends=("ROCm", "Vulkan"),
        since="2024-06",
        why="shares of bandwidth and peak that llama.cpp attains on RX 7900 XTX and Pro W7900",
    ),
    Class(
        match=("gfx115",),
        name="AMD RDNA3.5",
        confidence="medium",
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains on Ryzen AI Max+ 395",
    ),
    Class(
        match=("gfx120",),
        name="AMD RDNA4",
        confidence="low",
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains on RX 9070 XT and AI Pro R9700",
    ),
    Class(
        match=("battlemage",),
        name="Intel Battlemage",
        confidence="medium",
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains under SYCL on Arc B580",
    ),
)
WHOLE = ("fp32", "fp16", "bf16")
UNSEEN = (0.5, 2.0)
LONGEST = 2048
FUSED = "2025-08"
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
    ("i9-13900K, 2 x DDR5-6400", 102.4e9, None, "llama-2-7b", "q4_0", "context", 64, 18.27,
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
    ("Ryzen AI 5 340, 2 x DDR5-5600", 89.6e9, None, "llama-3.2-3b", "q4_k_m", "context", 128, 23.81,
     "geerlingguy/ai-benchmarks README and issue 33"),
    ("Ryzen AI 5 340, 2 x DDR5-5600", 89.6e9, None, "qwen2.5-14b", "q4_k_m", "context", 128, 5.83,
     "geerlingguy/ai-benchmarks README and issue 33"),
    ("Ryzen 7 8840U, 4 x LPDDR5-6400", 102.4e9, 0.845e12, "llama-3.1-8b", "q4_k_m", "context", 64,
     9.63, "brand-o/normiebench issue 8"),
    ("Ryzen 7 8840U, 4 x LPDDR5-6400", 102.4e9, 0.845e12, "llama-3.1-8b", "q4_k_m", "seq", 512,
     49.75, "brand-o/normiebench issue 8"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A measured run and what its ops ask for, one entry for each op.

    Attributes:
        model: Its model.
        precision: Of its weights.
        prompt: Whether a prompt was processed, else one token.
        seconds: Measured.
        count: Executions.
        moved: Seconds at the whole bandwidth.
        worked: Seconds at the whole peak.
        lanes: Seconds to unpack its weights at one lane cycle each.
        stored: Whether weights are unpacked.
        attends: Whether it is attention.
        floor: Roofline time, s.
    """

    model: str
    device: str
    precision: str
    prompt: bool
    seconds: float
    count: Floats
    moved: Floats
    worked: Floats
    lanes: Floats
    stored: NDArray[np.bool_]
    attends: NDArray[np.bool_]
    floor: Floats

    @property
    def kind(self) -> str:
        """What decides its time: text generation, or prompts by whether blocks are multiplied."""
        if not self.prompt:
            return "text"
        return "whole prompts" if self.precision in WHOLE else "stored prompts"

    def predicted(self, c: Floats) -> float:
        """Seconds under constants in the order of `NAMES`."""
        memory, compute, compute_stored, unpack, start, attention = c
        share = np.where(self.stored, compute_stored, compute)
        read = np.where(self.attends, attention, memory)
        slowest = np.maximum(self.moved / read, self.worked / share)
        each = start + np.maximum(slowest, unpack * self.lanes)
        return float(np.sum(self.count * np.maximum(each, self.floor)))


def main() -> None:
    """Fits, prints, writes; of the classes that are named on the command line, else of all."""
    named = [word for word in sys.argv[1:] if word != "--write"]
    fitted = [_fit(one) for one in CLASSES if not named or set(named) & set(one.match)]
    if "--write" in sys.argv:
        constants = constants_file.read()
        own = {tuple(s["match"]) for s in fitted}  # type: ignore[arg-type]
        others = [
            s
            for s in constants["shares"]
            if s["runtime"] != "llama-cpp" or tuple(s["match"]) not in own
        ]
        constants["shares"] = fitted + others
        constants_file.write(constants)


def runs_of(one: Class) -> list[Run]:
    """The measured runs of a class of devices."""
    mine = [_run(r, one.by_head) for r in _rows() if _counts(one, r, one.match)]
    like = [_run(r, one.by_head) for r in _rows() if one.like and _counts(one, r, one.like)]
    return (
        mine
        + [r for r in like if not r.prompt]
        + [_elsewhere(*m) for m in MACHINES if one.match == ("cpu",)]
    )


def left_out(runs: Sequence[Run], by: str, *, attention: bool) -> dict[int, float]:
    """Seconds of runs, by their place, by constants that saw none of their model or device.

    Runs whose kind no other model or device has are not among them.
    """
    out: dict[int, float] = {}
    groups = sorted({getattr(r, by) for r in runs})
    for group in groups if len(groups) > 1 else ():
        others = [r for r in runs if getattr(r, by) != group]
        without, kinds = _constants(others, attention=attention), {r.kind for r in others}
        out |= {
            i: r.predicted(without)
            for i, r in enumerate(runs)
            if getattr(r, by) == group and r.kind in kinds
        }
    return dict(sorted(out.items()))


def _fit(one: Class) -> dict[str, object]:
    runs = runs_of(one)
    constants = _constants(runs, attention=one.attention)
    print(one.name, len(runs), "runs:", dict(zip(NAMES, constants.round(8).tolist(), strict=True)))
    ratios: dict[bool, list[list[float]]] = {False: [], True: []}
    error = 0.0
    for by in one.by:
        found = left_out(runs, by, attention=one.attention)
        if not found:
            continue
        errors = {i: abs(t / runs[i].seconds - 1) for i, t in found.items()}
        error = error or float(np.mean(list(errors.values())))
        for prompt in (False, True):
            own = [e for i, e in errors.items() if runs[i].prompt is prompt]
            ratios[prompt] += [
                [runs[i].seconds / t for i, t in found.items() if runs[i].prompt is prompt]
            ]
            if own:
                print(f"    by {by}, {'prompts' if prompt else 'text'}: {len(own)} runs,", end=" ")
                print(f"mean {np.mean(own):.1%}, median {np.median(own):.1%}")
    low, high = _range(ratios[False])
    asked = _range(ratios[True])
    print(f"    measured / predicted {low} to {high}, of prompts {asked[0]} to {asked[1]}")
    return {
        "runtime": "llama-cpp",
        "match": list(one.match),
        **{
            n: float(f"{v:.4g}")
            for n, v in zip(NAMES, constants, strict=True)
            if n != "attention" or one.attention
        },
        **({"by_head": True} if one.by_head else {}),
        "lanes_per_byte": LANES_PER_BYTE["Apple"] if one.match == ("apple",) else 0.0,
        "low": low,
        "high": high,
        "prompt": list(asked),
        "confidence": one.confidence,
        "rows": len(runs),
        "error": round(error, 3),
        "why": one.why,
        "source": SOURCE,
    }


def _range(ratios: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Ends that hold nine of ten of each list; `UNSEEN` where no run was predicted by others."""
    some = [r for r in ratios if r]
    if not some:
        return UNSEEN
    low = min(float(np.quantile(r, 0.05, method="lower")) for r in some)
    high = max(float(np.quantile(r, 0.95, method="higher")) for r in some)
    return math.floor(1000 * min(low, 0.95)) / 1000, math.ceil(1000 * max(high, 1.05)) / 1000


def _constants(runs: Sequence[Run], *, attention: bool) -> Floats:
    """Least squares of the logarithms, every device weighing alike."""
    weights = {d: sum(r.device == d for r in runs) ** -0.5 for d in {r.device for r in runs}}

    whole = any(r.kind == "whole prompts" for r in runs)

    def full(scaled: Floats) -> Floats:
        c = scaled * FIRST
        if not whole:  # no prompts of 16-bit weights: they count as stored ones
            c[1] = c[2]
        if not attention:
            c[5] = c[0]
        return c

    def residuals(scaled: Floats) -> Floats:
        c = full(scaled)
        return np.array([weights[r.device] * np.log(r.predicted(c) / r.seconds) for r in runs])

    # The slowest part decides, so that the sum has several valleys.
    starts = [
        np.array([1, share, share, unpack, start, 1])
        for share, start in ((0.4, 0.5), (1, 2))
        for unpack in (0.2, 1, 3)
    ]
    found = [
        least_squares(
            residuals, first, bounds=(LEAST / FIRST, MOST / FIRST), loss="soft_l1", f_scale=0.1,
            diff_step=1e-3,
        )
        for first in starts
    ]  # fmt: skip
    return full(min(found, key=lambda one: one.cost).x)


@cache
def _rows() -> tuple[dict[str, str], ...]:
    with (PUBLISHED / "llama_cpp.csv").open(encoding="utf-8") as stream:
        stream.readline()
        found = list(csv.DictReader(stream))
    return tuple(row for row in found if _answered(row))


def _counts(one: Class, row: dict[str, str], match: tuple[str, ...]) -> bool:
    """Whether a row is of the devices and versions that a class rests on."""
    if not matches(match, load(row["device"])):
        return False
    if not one.since:
        return True
    _, backend, month = row["note"].split("; ")[-3:]
    whole = one.since_whole if row["precision"] in WHOLE else ""
    size, _, value = row["sizes"].partition("=")
    long = size == "seq" and int(value) > LONGEST and month < FUSED
    served = backend in one.backends if one.backends else backend != "Ollama"
    return served and month >= (whole or one.since) and not long


def _answered(row: dict[str, str]) -> bool:
    """Whether the device has the roofs that decide: prompts need a compute roof."""
    roofs = roofs_of(load(row["device"]))
    compute = roofs.engine_roof("matrix", "fp16") is not None
    return bool(roofs.memory_byte_per_s) and (compute or row["sizes"].startswith("context"))


def _run(row: dict[str, str], by_head: bool) -> Run:
    size, _, value = row["sizes"].partition("=")
    device = load(row["device"])
    run = _asked(row["model"], row["precision"], size, int(value), device, by_head)
    if "no LM head" in row["note"]:
        arrays = ("count", "moved", "worked", "lanes", "stored", "attends", "floor")
        run = replace(run, **{a: getattr(run, a)[:-1] for a in arrays})
    return replace(run, seconds=float(row["value"]))


def _elsewhere(*machine: Any) -> Run:
    """A run on a Raspberry Pi 5 whose memory and peak are those of the machine."""
    name, byte_per_s, flop_per_s, model, precision, size, value, rate, _ = machine
    pi = load("raspberry-pi-5")
    run = _asked(f"configs/{model}.json", precision, size, value, pi, False)
    slower = (pi.memory[0].byte_per_s or 0.0) / byte_per_s
    weaker = pi.ceilings[1].flop_per_s / flop_per_s if flop_per_s else 0.0
    moved, worked = run.moved * slower, run.worked * weaker
    return replace(
        run, device=name, seconds=(1 if size == "context" else value) / rate, moved=moved,
        worked=worked, lanes=run.lanes * weaker, floor=np.maximum(moved, worked),
    )  # fmt: skip


@cache
def _asked(model: str, precision: str, size: str, value: int, device: Device, by_head: bool) -> Run:
    phase = "decode" if size == "context" else "prefill"
    workload = _workload(model, precision, phase, size, value)
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
        attends = item.view.kind == "attention"
        once = (cost.read_bytes + cost.write_bytes) / roofs.memory_byte_per_s
        moved = once * heads_per_cache(item.view) if attends and by_head else once
        stored = unpacked(item.view, cost)
        roofline_s = [
            flops / roof[1]
            for (engine, dtype), flops in cost.work.items()
            if engine.value != "special"
            and (roof := roofs.least_time_roof(engine.value, dtype, cost.prunable))
        ]
        worked = [
            flops / peak_of(roofs, engine, dtype, roof[1])
            for (engine, dtype), flops in cost.work.items()
            if engine in counted(stored)
            and (roof := roofs.least_time_roof(engine.value, dtype, cost.prunable))
        ]
        unpack = 2 * stored / lanes if stored and lanes else 0.0
        slowest = max(worked, default=0.0)
        columns.append(
            (
                item.count, moved, slowest, unpack, stored is not None,
                attends, max(once, *roofline_s, 0.0),
            )
        )  # fmt: skip
    count, moved_s, worked_s, unpack_s, is_stored, attends, floor = np.array(columns, dtype=float).T
    return Run(
        model=model, device=device.id, precision=precision, prompt=size == "seq", seconds=0.0,
        count=count, moved=moved_s, worked=worked_s, lanes=unpack_s, stored=is_stored.astype(bool),
        attends=attends.astype(bool), floor=floor,
    )  # fmt: skip


@cache
def _workload(model: str, precision: str, phase: str, size: str, value: int) -> Workload:
    sizes = {"batch": 1, size: value}
    return gambrel.load_model(str(PUBLISHED / model), phase=phase, precision=precision, sizes=sizes)


if __name__ == "__main__":
    main()
