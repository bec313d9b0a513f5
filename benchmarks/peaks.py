"""Ceilings of one core and of all: gambrel's loops against a C reference, alternating in one run.

The reference is compiled here with gcc -O3 -march=native and runs on POSIX threads of its own. All
run on the same memory, in slices of about half a millisecond, of which the 95% quantile counts.
Loops over memory take part twice: in the variant that the search on this machine chose, and as they
are before it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common import report
from gambrel.measure import cpu, machine, native, probes
from gambrel.measure.arena import arena

ROUNDS = 12
SLICES = 25
SLICE_S = 0.5e-3
MEMORY = 3 << 30
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One probe, and the reference's function.

    Attributes:
        label: Of the row.
        probe: Ours.
        before: The same as it was before the search.
        function: The reference's name for it.
        turns: Passes of the reference's loop that do the work of one of ours.
    """

    label: str
    probe: probes.Probe
    before: probes.Probe
    function: str
    turns: int = 1


def main() -> None:
    tools, here = native.compiler(), machine.this_machine()
    if tools.width != 64:
        sys.exit("the reference is written for 64-byte vectors")
    plan = cpu._allowed(probes.suite(tools, here))
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        arena(MEMORY) as memory,
        arena(2 << 20) as operands,
    ):
        reference = build(Path(folder))
        for case in cases(plan.probes, tuned(tools, here, plan)):
            rounds = alternate(tools, reference, here, (memory.address, operands.address), case)
            ours, before, theirs = rounds.max(axis=0)
            ratios = [np.median(rounds[:, side] / rounds[:, 2]) for side in (0, 1)]
            figures = [f"{x / 1e9:.1f}" for x in (ours, before, theirs)]
            rows.append(
                [
                    case.label,
                    case.probe.threads,
                    *figures,
                    *(f"{r:.3f}" for r in ratios),
                    str(case.probe.variant or ""),
                ]
            )
    report(
        "peaks",
        "Ceilings against C, of one core and of all",
        ["ceiling", "threads", "gambrel", "before the search", "C", "ratio", "before", "variant"],
        rows,
        notes=[
            f"GFLOP/s and GB/s, best of {ROUNDS} rounds, in each the 95% quantile of {SLICES} "
            f"slices of {SLICE_S * 1e3} ms; load {machine.load():.1f}.",
            "Ratio: median over the rounds, in which the two sides follow each other within "
            "milliseconds: the clock of a shared processor changes by the second.",
            "Target: 0.97 for FMA and tiles, 0.95 for bandwidth. nt: stores past the caches.",
            "Before the search, loops over main memory ask for data 512 bytes ahead, and each "
            "array is walked in one piece, as in C.",
        ],
    )


def tuned(tools, here, plan) -> list[probes.Probe]:
    """The probes with loops in the variants that the search on this machine chose."""
    with arena(plan.dram_bytes) as large, arena(len(here.cpus) << 20) as words:
        runner = cpu._Runner(tools, here, cpu.TimingBudget(), plan, large, words)
        runner.tune()
    return runner.probes


def cases(standard, found):
    functions = {
        **{("vector", "fma", d): (f"fma_{d}", 16) for d in ("fp32", "fp64")},
        ("matrix", "tile", "bf16"): ("tile_bf16", 2),
    }
    for before, probe in zip(standard, found, strict=True):
        key = (probe.resource, probe.mix, probe.dtype)
        if probe.kernel.flops and key in functions:
            yield Case(
                f"{probe.resource} {probe.dtype} {probe.mix}", probe, before, *functions[key]
            )
        if not probe.kernel.flops:
            name = probe.mix.replace(" ", "_")
            name = name if name.endswith("_nt") else f"{name}_"
            yield Case(f"{probe.resource} {probe.mix}", probe, before, name)


def build(folder: Path) -> ctypes.CDLL:
    library = folder / "reference.so"
    flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-pthread"]
    source = str(HERE / "peaks_reference.c")
    subprocess.run(["gcc", *flags, "-shared", "-fPIC", source, "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def alternate(tools, reference, here, addresses, case):
    """Rates of ours, of ours before the search, and of the reference in each round."""
    probe, (address, operands) = case.probe, addresses
    cpus = here.cpus[: probe.threads]
    size, each = probe.stream_bytes, MEMORY // 3 // probe.threads // probes.CHUNK * probes.CHUNK
    walks = probe.chunks > 1
    starts = [address + t * each for t in range(probe.threads)]
    if probe.kernel.flops:
        starts = [operands + (t << 20) for t in range(probe.threads)]
        for place in starts:
            cpu._operands(probe, place)
    passes = 1
    if not walks:
        once = native.run_slices(tools, job(probe, starts, 4), cpus, 9).min() / 4
        passes = max(1, round(SLICE_S / once))
    found = []
    for turn in range(ROUNDS):
        # In main memory each side walks over a third of its own, from another place in each round.
        pieces = each // probes.CHUNK - SLICES
        first = turn * SLICES % pieces * probes.CHUNK if walks else 0
        places = [s + first for s in starts]
        third = MEMORY // 3 // probes.CHUNK * probes.CHUNK if walks else 0
        sides = [[p + side * third for p in places] for side in range(3)]
        ours, before = (
            native.run_slices(tools, job(kind, side, passes), cpus, SLICES)
            for kind, side in zip((probe, case.before), sides, strict=False)
        )
        theirs = run(reference, case, sides[2], cpus, size, passes)
        times = (ours, before, theirs)
        found.append([np.quantile(probe.work(passes) / t, 0.95) for t in times])
    return np.array(found)


def job(probe, places, passes) -> native.Job:
    walk = {"chunk": probes.CHUNK, "chunks": SLICES} if probe.chunks > 1 else {}
    return native.Job(
        kernel=probe.kernel, places=tuple(places), size=probe.stream_bytes, passes=passes, **walk
    )


def run(reference, case, places, cpus, size, passes):
    count, threads = SLICES, len(cpus)
    times = np.zeros((threads, count, 2), dtype=np.int64)
    walk = (probes.CHUNK, SLICES) if case.probe.chunks > 1 else (0, 1)
    failed = reference.run(
        ctypes.cast(getattr(reference, case.function), ctypes.c_void_p),
        ctypes.c_int64(threads),
        (ctypes.c_int * threads)(*cpus),
        (ctypes.c_void_p * threads)(*places),
        *(ctypes.c_int64(x) for x in (*walk, size, passes * case.turns, count)),
        times.ctypes.data_as(ctypes.c_void_p),
    )
    if failed:
        raise SystemExit("the reference cannot start a thread")
    return (times[:, :, 1].max(axis=0) - times[:, :, 0].min(axis=0)) * 1e-9


if __name__ == "__main__":
    os.sched_setaffinity(0, set(machine.this_machine().cpus))
    main()
