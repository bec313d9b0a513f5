"""Ceilings of one core: gambrel's loops against a C reference, alternating within one run.

The reference is compiled here with gcc -O3 -march=native. Both run on the same memory, in slices of
about half a millisecond; the figure is the 95% quantile of all slices of a side.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import report
from gambrel.measure import ir, machine, native, probes
from gambrel.measure.arena import arena

ROUNDS = 12
SLICES = 25
SLICE_S = 0.5e-3
HERE = Path(__file__).parent


def main() -> None:
    tools, here = native.compiler(), machine.this_machine()
    if tools.width != 64:
        sys.exit("the reference is written for 64-byte vectors")
    rows = []
    with tempfile.TemporaryDirectory() as folder, arena(1 << 30) as memory:
        reference = build(Path(folder))
        for label, kernel, name, size, chunks in cases(here):
            ours, theirs = alternate(
                (tools, reference, here.cpus[:1]), memory.address, kernel, name, size, chunks
            )
            rows.append([label, f"{ours / 1e9:.1f}", f"{theirs / 1e9:.1f}", f"{ours / theirs:.3f}"])
    load = machine.load()
    report(
        "peaks",
        "Ceilings of one core against C",
        ["ceiling", "gambrel", "C reference", "ratio"],
        rows,
        notes=[
            "GFLOP/s and GB/s, 95% quantile of "
            f"{ROUNDS} x {SLICES} slices of {SLICE_S * 1e3} ms, alternating; load {load:.1f}.",
            "Target: 0.97 for FMA, 0.95 for bandwidth. Triad and copy of main memory write "
            "through the caches on both sides; ours ask for data in advance.",
        ],
    )


def cases(here: machine.Machine):
    for dtype in ("fp32", "fp64"):
        yield f"{dtype} FMA", ir.fma(dtype, 64), f"fma_{dtype}", 0, 1
    caches = {c.name: c.size_bytes for c in here.caches}
    sizes = {"L1": int(caches["L1"] * 0.65), "L2": int(caches["L2"] * 0.6), "L3": 8 * caches["L2"]}
    for level, whole in sizes.items():
        for mix in ("read", "write", "copy", "triad", "update"):
            yield f"{level} {mix}", ir.memory(mix, 64), f"{mix}_", whole, 1
    for mix in ("read", "write", "copy", "triad", "update"):
        chunks = (1 << 30) // probes.CHUNK
        kernel = ir.memory(mix, 64, ahead=probes.AHEAD)
        yield f"DRAM {mix}", kernel, f"{mix}_", probes.CHUNK, chunks


def build(folder: Path) -> ctypes.CDLL:
    library = folder / "reference.so"
    flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast"]
    source = str(HERE / "peaks_reference.c")
    subprocess.run(["gcc", *flags, "-shared", "-fPIC", source, "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def alternate(sides, address, kernel, name, whole, chunks):
    tools, reference, cpus = sides
    function = getattr(reference, name)
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    size = whole // kernel.streams // 1024 * 1024 if kernel.streams else 0
    # One pass of the reference's arithmetic loop is 8 x 12 vectors, of ours 64 x 24.
    turns = 16 if kernel.flops else 1
    work = kernel.flops or kernel.moved * size
    passes = 1
    if chunks == 1:
        job = native.Job(kernel=kernel, places=(address,), size=size, passes=4)
        once = native.run_slices(tools, job, cpus, 9).min() / 4
        passes = max(1, round(SLICE_S / once))
    ours, theirs = [], []
    for turn in range(ROUNDS):
        # In main memory each side walks over a half of its own, from another place in each round.
        first = turn * SLICES % (chunks // 2 - SLICES) * probes.CHUNK if chunks > 1 else 0
        walk = {"chunk": probes.CHUNK, "chunks": SLICES} if chunks > 1 else {}
        job = native.Job(kernel=kernel, places=(address + first,), size=size, passes=passes, **walk)
        ours += list(native.run_slices(tools, job, cpus, SLICES))
        other = address + first + chunks // 2 * probes.CHUNK
        for i in range(SLICES):
            place = other + i * probes.CHUNK if chunks > 1 else address
            theirs.append(function(place, size, passes * turns))
    rate = [float(np.quantile(work * passes / np.array(t), 0.95)) for t in (ours, theirs)]
    return rate[0], rate[1]


if __name__ == "__main__":
    os.sched_setaffinity(0, {machine.this_machine().cpus[0]})
    main()
