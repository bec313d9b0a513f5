"""Feeds damaged files of every format to the readers: ``python scripts/fuzz_traces.py 100000``.

Whatever a file holds, reading gives samples or one `GambrelError` of one line, soon and in bounded
memory. Seeds are the files of the tests' generators; an execution damages one of them with a few
edits (bytes, numbers, delimiters, pieces of other seeds). What fails is kept beside the results.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import random
import re
import resource
import sqlite3
import sys
import tempfile
import time
import traceback
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.traces import kineto_files, ncu_files
from tests.traces.test_nsys import make as make_nsys
from tests.traces.test_tables import PERF

from fuzzing import bounded, in_time, refused
from gambrel.analysis.samples import place
from gambrel.device.lookup import find
from gambrel.errors import GambrelError
from gambrel.report import render
from gambrel.report.answers import Recorded
from gambrel.traces import read

TOKENS = (
    *(b'"', b",", b";", b"\n", b"\r\n", b"\t", b"0", b"-", b"1e308", b"9" * 40, b"\0", b"[[[["),
    *(b"{", b"}", b"null", b"nan", b"(", b")", b".", b"\xff\xfe", b"\xef\xbb\xbf", b"ID", b" "),
    *(b"<script>", b"\x1b[31m", b"\\u0000", b"Infinity", b"n/a", b"no data", b"(1; 2)"),
)
AMD = (
    "Kernel_Name,Dispatch_ID,Start_Timestamp,End_Timestamp,SQ_INSTS_VALU_ADD_F32,"
    "SQ_INSTS_VALU_MFMA_MOPS_F16,TCC_EA_RDREQ_sum,TCC_EA_RDREQ_32B_sum,TCC_EA_WRREQ_sum,"
    "TCC_EA_WRREQ_64B_sum\nk.kd,1,2,30,4,9,5,1,2,2\nj,2,40,50,4,0,5,1,2,2\n",
    "Correlation_Id,Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,"
    "End_Timestamp\n1,1,k,SQ_INSTS_VALU_FMA_F64,4,0,500\n1,1,k,SQ_INSTS_VALU_ADD_F64,1,0,500\n",
    "Name,Calls,TotalDurationNs,AverageNs,Percentage\nk,4,8000,2000,100\n",
    "device,HBMBw,L2Bw,L1Bw,LDSBw,FP32Flops,FP64Flops,MFMAF16Flops\n0,1388,5017,9227,17714,2,3,4\n",
)
LIKWID = (
    "TABLE,Region main,Group 1 Metric,MEM_DP,5,\nMetric,HWThread 0,HWThread 1\n"
    "Runtime (RDTSC) [s],0.5,0.5\nDP [MFLOP/s],1000,3000\nMemory data volume [GBytes],1.5,0\n"
)
POINTS = (
    "name,flops,bytes,time_us,dtype\na,1e9,2e6,3,fp16\nb,0,4,5,\n",
    "name;flops (G);dram_gb;time (ms)\ngemm;2,5;0,1;1,25\n",
    '[{"name": "a", "flops": 5, "bytes": 3, "time": 2}]',
    "label,peak_flops,peak_bandwidth\nmine,1e12,5e11\n",
)


def seeds(folder: Path) -> dict[str, list[bytes]]:
    """Files by format."""
    n, k = ncu_files, kineto_files
    kernels = [
        n.Kernel(
            "void k<(int)3>(float*)",
            n.fp32(1, 2, 3)
            | n.time_ns(1000)
            | n.dram(4096)
            | {
                "sm__ops_path_tensor_src_fp16_dst_fp32.sum": (4, "op"),
                "lts__t_sectors_srcunit_tex.sum": (7, "sector"),
                "sm__cycles_elapsed.avg.per_second": (1.3e9, "hz"),
                "device__attribute_multiprocessor_count": (108, ""),
                "device__attribute_clock_rate": (1_410_000, ""),
                "device__attribute_memory_clock_rate": (1_593_000, ""),
                "device__attribute_global_memory_bus_width": (5120, ""),
            },
        ),
        n.Kernel("b", n.fp32(1, 0, 3) | n.time_ns(10), texts={"dram__bytes.sum": "n/a"}),
    ]
    conv = (
        [[1, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], []],
        ["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"],
        ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "1"],
    )
    events = [
        *(k.mm(0, 5), k.launch(3, 77), k.kernel("gemm", 100, 20, 77)),
        *(k.op("aten::conv2d", 50, 9, 9, *conv), k.kernel("c", 200, 3, 4, 9)),
        k.kernel("Memcpy HtoD", 300, 20, 3, cat="gpu_memcpy"),
    ]
    trace = k.trace(events).encode()
    databases = [make_nsys(folder / "seed.sqlite").read_bytes()]
    databases += [_database(folder, random.Random(i)) for i in range(200)]
    return {
        "ncu": [
            n.write(kernels, layout, locale, units).encode()
            for layout in n.LAYOUTS
            for locale in n.LOCALES
            for units in n.UNITS
        ],
        "kineto": [trace, gzip.compress(trace), trace.replace(b", ", b",\n  ")],
        "nsys": databases,
        "rocprof": [text.encode() for text in AMD],
        "perf": [PERF.encode(), PERF.replace(",", ";").encode()],
        "likwid": [LIKWID.encode()],
        "points": [text.encode() for text in POINTS],
    }


def _database(folder: Path, rng: random.Random) -> bytes:
    """A database with some cells of other types and sizes, or without some columns."""
    path = make_nsys(folder / f"seed{rng.random()}.sqlite")
    with closing(sqlite3.connect(path)) as base:
        tables = [row[0] for row in base.execute("SELECT name FROM sqlite_master")]
        for _ in range(rng.randrange(1, 5)):
            table = rng.choice(tables)
            columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
            column = rng.choice(columns)
            if rng.random() < 0.2 and len(columns) > 1:
                base.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
            else:
                value = rng.choice((None, -1, 0, 2**63 - 1, -(2**63), 1e300, "x\n<b>", b"\xff\0"))
                base.execute(f'UPDATE {table} SET "{column}" = ? WHERE rowid % 2', (value,))
        base.commit()
    data = path.read_bytes()
    path.unlink()
    return data


def revalue(data: bytes, rng: random.Random) -> bytes:
    """Other values in a text that stays well-formed JSON."""
    found = rng.choice(list(VALUE.finditer(data)) or [re.match(b"", data)])
    return data[: found.start()] + rng.choice(VALUES) + data[found.end() :]


#: A value of JSON behind its key, and what to put there.
VALUE = re.compile(rb'(?<=: )("[^"\\]*"|-?[0-9.]+)')
VALUES = (
    *(b"-1", b"0", b"1e308", b"null", b"true", b'"x"', b"[]", b"{}", b'"7"', b"1e-320"),
    *(b"99999999999999999999", b'"\\u0000<b>"', b'"NaN"', b"[[1, 2], [3]]", b'"cpu_op"'),
    *(b'"kernel"', b"[[[]]]", b'["float"]', b"-0.0"),
)


def damage(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A few edits of a file."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 10))):
        at, kind = rng.randrange(len(out) + 1), rng.random()
        if kind < 0.2:
            out[at : at + rng.randrange(1, 30)] = b""
        elif kind < 0.6:
            out[at : at + rng.choice((0, 1, 3))] = rng.choice(TOKENS)
        elif kind < 0.75 and at < len(out):
            out[at] = rng.randrange(256)
        elif kind < 0.8:
            del out[at:]
        else:
            start = rng.randrange(len(other) + 1)
            out[at:at] = other[start : start + rng.randrange(60)]
    return bytes(out)


def execute(path: Path, number: int, device: object) -> str:
    """Reads one file and, now and then, renders it; says how it ended."""
    try:
        standing = place(read(path), device if number % 2 else None)  # type: ignore[arg-type]
        if number % 20 == 0:
            for name in ("json", "table", "csv", "roofline"):
                render(Recorded(standing=standing), name)
        if number % 5000 == 0:
            render(Recorded(standing=standing), "html")
    except GambrelError as error:
        refused(error)
        return "refused"
    return "read"


def main() -> None:
    """Runs the executions that were asked for and prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("executions", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one format")
    args = parser.parse_args()
    bounded()
    with tempfile.TemporaryDirectory() as name:
        ended = run(Path(name), args.executions, args.seed, args.only)
    sys.exit(ended)


def run(folder: Path, executions: int, seed: int, only: str | None) -> int:
    """Executes; returns the number of failures of different kinds."""
    rng = random.Random(seed)
    known = seeds(folder)
    names = [only] if only else list(known)
    every = [data for found in known.values() for data in found]
    device = find("a100-sxm4-80gb").device
    count: collections.Counter[str] = collections.Counter()
    failed: dict[str, int] = {}
    slowest, begun = 0.0, time.monotonic()
    path = folder / "input"
    for number in range(1, executions + 1):
        kind = names[number % len(names)]
        data = rng.choice(known[kind])
        if data[:1] in b"[{" and rng.random() < 0.7:
            for _ in range(rng.choice((1, 2, 4))):
                data = revalue(data, rng)
        elif kind != "nsys" or rng.random() < 0.5:
            data = damage(data, rng.choice(every), rng)
        path.write_bytes(data)
        started = time.monotonic()
        try:
            with in_time():
                count[f"{kind} {execute(path, number, device)}"] += 1
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
            count["failed"] += 1
            if failed.setdefault(key, number) == number:
                Path(f"fuzz-{seed}-{number}-{kind}").write_bytes(data)
                print(f"{key}: {error!s:.200}", flush=True)
        slowest = max(slowest, time.monotonic() - started)
        if number % 50_000 == 0 or number == executions:
            report(number, count, slowest, time.monotonic() - begun)
    return len(failed)


def report(number: int, count: collections.Counter[str], slowest: float, spent: float) -> None:
    """Prints one line of figures."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    parts = ", ".join(f"{name} {n:,}" for name, n in sorted(count.items()))
    print(
        f"{number:,} executions in {spent:.0f} s, slowest {slowest:.2f} s, peak {peak:.0f} MB: "
        f"{parts}",
        flush=True,
    )


if __name__ == "__main__":
    main()
