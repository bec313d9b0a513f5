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
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import constants_file
import gambrel
from gambrel.analysis.estimate.share_rates import lanes_of, peak_of
from gambrel.analysis.estimate.shares import counted, few, heads_per_cache, unpacked
from gambrel.analysis.roofs import roofs_of
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.catalog import load
from gambrel.device.model import Device
from gambrel.runtimes import matches
from gambrel.workload import Workload
from share_classes import CLASSES, MACHINES, Class

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "tests/data/published"
NAMES = ("memory", "compute", "compute_stored", "unpack", "start_s", "attention", "unpack_few")
FIRST = np.array([0.75, 0.7, 0.6, 8.0, 6e-6, 0.5, 12.0])
LEAST = np.array([0.2, 0.01, 0.01, 0.0, 1e-8, 0.02, 0.0])
MOST = np.array([0.97, 1.0, 1.0, 60.0, 1e-4, 0.97, 120.0])
#: Weight of the logarithm of a constant over its first value, beside 1 of a device's runs: few
#: runs cannot tell all constants apart.
PULL = 0.03
#: Runs that must remain for those left out to be predicted; fewer say nothing of the constants.
OTHERS = 3
Floats = NDArray[np.float64]


WHOLE = ("fp32", "fp16", "bf16")
UNSEEN = (0.5, 2.0)
#: Runs that must have been predicted by others for a range that is narrower than `WIDE`.
SEEN = 6
WIDE = (0.65, 1.6)
LONGEST = 2048
FUSED = "2025-08"
SOURCE = "public reports, each named in tests/data/published/llama_cpp.csv (figures only)"
#: FLOP of the vector units per byte of bandwidth where no vector peak is published: what Apple's
#: M2 and M3 have that publish one (M2 34, M2 Max 34, M2 Ultra 34, M3 Max 36).
LANES_PER_BYTE = {"Apple": 34.0}


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
        few: Whether weights of fewer than four bits are unpacked.
        beside: Whether another backend is expected: it counts for the range alone.
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
    few: NDArray[np.bool_] = field(default_factory=lambda: np.array(False))
    beside: bool = False

    @property
    def kind(self) -> str:
        """What decides its time: text generation, or prompts by whether blocks are multiplied."""
        if not self.prompt:
            return "text"
        return "whole prompts" if self.precision in WHOLE else "stored prompts"

    def predicted(self, c: Floats) -> float:
        """Seconds under constants in the order of `NAMES`."""
        memory, compute, compute_stored, unpack, start, attention, unpack_few = c
        share = np.where(self.stored, compute_stored, compute)
        read = np.where(self.attends, attention, memory)
        slowest = np.maximum(self.moved / read, self.worked / share)
        cycles = np.where(self.few, unpack_few, unpack)
        each = start + np.maximum(slowest, cycles * self.lanes)
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
    mine = [_run(r, one) for r in _rows() if _counts(one, r, one.match)]
    like = [_run(r, one) for r in _rows() if one.like and _counts(one, r, one.like)]
    return (
        mine
        + [r for r in like if not r.prompt]
        + [_elsewhere(*m) for m in MACHINES if one.match == ("cpu",)]
    )


def left_out(runs: Sequence[Run], by: str, one: Class) -> dict[int, float]:
    """Seconds of runs, by their place, by constants that saw none of their model or device.

    Runs whose kind no other model or device has are not among them.
    """
    out: dict[int, float] = {}
    groups = sorted({getattr(r, by) for r in runs})
    for group in groups if len(groups) > 1 else ():
        others = [r for r in runs if getattr(r, by) != group and not r.beside]
        mine = [(i, r) for i, r in enumerate(runs) if getattr(r, by) == group]
        kinds = {r.kind for r in others if sum(o.prompt is r.prompt for o in others) >= OTHERS}
        if any(r.kind in kinds for _, r in mine):
            without = _constants(others, one)
            out |= {i: r.predicted(without) for i, r in mine if r.kind in kinds}
    return dict(sorted(out.items()))


def _fit(one: Class) -> dict[str, object]:
    runs = runs_of(one)
    constants = _constants([r for r in runs if not r.beside], one)
    print(one.name, len(runs), "runs:", dict(zip(NAMES, constants.round(8).tolist(), strict=True)))
    ratios: dict[bool, list[list[float]]] = {False: [], True: []}
    error: float | None = None
    for by in one.by:
        found = left_out(runs, by, one)
        if not found:
            continue
        errors = {i: abs(t / runs[i].seconds - 1) for i, t in found.items() if not runs[i].beside}
        error = round(float(np.mean(list(errors.values()))), 3) if error is None else error
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
            n: _short(v)
            for n, v in zip(NAMES, constants, strict=True)
            if (n != "attention" or one.attention) and (n != "unpack_few" or one.few)
        },
        **({} if one.whole else {"compute": 0.0, "attention_compute": _short(constants[2])}),
        **({"by_head": True} if one.by_head else {}),
        **({"lanes_per_byte": LANES_PER_BYTE["Apple"]} if one.match == ("apple",) else {}),
        "low": low,
        "high": high,
        "prompt": list(asked),
        "confidence": one.confidence,
        "rows": len(runs),
        "error": error,
        "why": one.why,
        "source": SOURCE,
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _range(ratios: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Ends that hold nine of ten of each list; `UNSEEN` where no run was predicted by others."""
    some = [r for r in ratios if r]
    if not some:
        return UNSEEN
    least, most = (0.95, 1.05) if max(map(len, some)) >= SEEN else WIDE
    low = min(least, *(float(np.quantile(r, 0.05, method="lower")) for r in some))
    high = max(most, *(float(np.quantile(r, 0.95, method="higher")) for r in some))
    return math.floor(1000 * low) / 1000, math.ceil(1000 * high) / 1000


def _constants(runs: Sequence[Run], one: Class) -> Floats:
    """Least squares of the logarithms, every device weighing alike."""
    weights = {d: sum(r.device == d for r in runs) ** -0.5 for d in {r.device for r in runs}}

    whole = any(r.kind == "whole prompts" for r in runs)

    def full(scaled: Floats) -> Floats:
        c = scaled * FIRST
        if not whole:  # no prompts of 16-bit weights: they count as stored ones
            c[1] = c[2]
        if not one.attention:
            c[5] = c[0]
        if not one.few:
            c[6] = c[3]
        return c

    def residuals(scaled: Floats) -> Floats:
        c = full(scaled)
        misses = [weights[r.device] * np.log(r.predicted(c) / r.seconds) for r in runs]
        pulls = PULL * np.log(np.maximum(scaled, 1e-3)) if one.pull else ()
        return np.array([*misses, *pulls])

    # The slowest part decides, so that the sum has several valleys.
    starts = [
        np.array([1, share, share, unpack, start, 1, unpack])
        for share, start in ((0.4, 0.5), (1, 2))
        for unpack in (0.2, 1, 3)
    ]
    fits = [
        least_squares(
            residuals, first, bounds=(LEAST / FIRST, MOST / FIRST), loss="soft_l1", f_scale=0.1,
            diff_step=1e-3,
        )
        for first in starts
    ]  # fmt: skip
    return full(min(fits, key=lambda fit: fit.cost).x)


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


def _run(row: dict[str, str], one: Class) -> Run:
    size, _, value = row["sizes"].partition("=")
    device = load(row["device"])
    run = _asked(row["model"], row["precision"], size, int(value), device, one.by_head)
    if "no LM head" in row["note"]:
        arrays = ("count", "moved", "worked", "lanes", "stored", "attends", "floor", "few")
        run = replace(run, **{a: getattr(run, a)[:-1] for a in arrays})
    expected = one.prompts if run.prompt else one.text
    beside = bool(expected) and row["note"].split("; ")[-2] not in expected
    return replace(run, seconds=float(row["value"]), beside=beside)


def _elsewhere(*machine: Any) -> Run:
    """A run on a Raspberry Pi 5 whose memory and peak are those of the machine."""
    name, byte_per_s, flop_per_s, model, precision, size, value, rate, _ = machine
    pi = load("raspberry-pi-5")
    run = _asked(f"configs/{model}.json", precision, size, value, pi, False)
    slower, peak = (pi.memory[0].byte_per_s or 0.0) / byte_per_s, pi.ceiling("vector", "fp32")
    weaker = peak.flop_per_s / flop_per_s if peak and flop_per_s else 0.0
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
                attends, max(once, *roofline_s, 0.0), few(item.view),
            )
        )  # fmt: skip
    count, moved_s, worked_s, unpack_s, is_stored, attends, floor, parted = np.array(
        columns, dtype=float
    ).T
    return Run(
        model=model, device=device.id, precision=precision, prompt=size == "seq", seconds=0.0,
        count=count, moved=moved_s, worked=worked_s, lanes=unpack_s, stored=is_stored.astype(bool),
        attends=attends.astype(bool), floor=floor, few=parted.astype(bool),
    )  # fmt: skip


@cache
def _workload(model: str, precision: str, phase: str, size: str, value: int) -> Workload:
    how = {"phase": phase, "precision": precision, "sizes": {"batch": 1, size: value}}
    return gambrel.load_model(str(PUBLISHED / model), runtime="llama-cpp", **how)


if __name__ == "__main__":
    main()
