"""Speed and memory of reading what profilers recorded: ``python benchmarks/traces.py [SCALE]``.

Files are made first, in the form that each profiler writes, and read in a process of their own, so
that its peak memory is that of the reading. A scale of 1 makes a PyTorch trace of 1 GB and a
database of 2 GB; with ``tables [SCALE]``, tables of up to 1 GB.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.traces import ncu_files

from common import report

#: Reads one file and prints seconds of the processor, peak bytes before and after, launches.
READ = """
import json, resource, sys, time
from gambrel.traces import read
import gambrel.traces.kineto.reader, gambrel.traces.ncu.reader, gambrel.traces.nsys
import gambrel.traces.rocprof, gambrel.traces.points
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
start = time.process_time()
samples = read(sys.argv[1])
print(json.dumps([time.process_time() - start, before, peak(), len(samples.launches)]))
"""

#: One step of a trace: an op within an op, its launch, its kernel, the arrow between them.
STEP = """  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 4242, "tid": 4242,
    "ts": {ts}.125, "dur": 15.500,
    "args": {{
      "External id": {outer},"Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"], "Input Strides": [[4096, 1], [4096, 1], [1]], "Input Dims": [[{m}, 4096], [4096, 4096], [4096]], "Ev Idx": {i}
    }}
  }},
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 4242, "tid": 4242,
    "ts": {ts}.625, "dur": 14.250,
    "args": {{
      "External id": {inner},"Record function id": 0, "Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"], "Input Strides": [[1], [4096, 1], [1, 4096], [], []], "Input Dims": [[4096], [{m}, 4096], [4096, 4096], [], []], "Ev Idx": {i}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 4242,
    "ts": {ts}.875, "dur": 5.125,
    "args": {{
      "External id": {inner}, "cbid": 211, "correlation": {i}
    }}
  }},
  {{
    "ph": "s", "id": {i}, "pid": 4242, "tid": 4242, "ts": {ts}.875,
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{tile}x128x64_warpgroupsize2x1x1_execute_segment_k_off_kernel__5x_cublas", "pid": 0, "tid": 7,
    "ts": {later}.250, "dur": 18.{tile},
    "args": {{
      "External id": {inner}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {i}, "registers per thread": 168, "shared memory": 213000, "blocks per SM": 1.0, "warps per SM": 12.0, "grid": [132, 1, 1], "block": [384, 1, 1], "est. achieved occupancy %": 19
    }}
  }},
  {{
    "ph": "f", "id": {i}, "pid": 0, "tid": 7, "ts": {later}.250,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}"""  # noqa: E501


def kineto(path: Path, size: int) -> None:
    """Writes a PyTorch trace of about so many bytes."""
    device = '{"id": 0, "name": "NVIDIA H100 80GB HBM3"}'
    head = f'{{\n  "schemaVersion": 1,\n  "deviceProperties": [{device}],\n'
    with path.open("w") as file:
        file.write(f'{head}  "traceEvents": [\n')
        first = 1
        while file.tell() < size:
            steps = []
            for i in range(first, first + 1000):
                ts = 1_700_000_000_000_000 + 25 * i
                steps.append(
                    STEP.format(
                        i=i,
                        ts=ts,
                        later=ts + 40,
                        outer=2 * i,
                        inner=2 * i + 1,
                        m=128 * (i % 32 + 1),
                        tile=64 * (i % 3 + 1),
                    )
                )
            first += 1000
            file.write(",\n".join(steps) + ",\n")
        file.write('  {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}\n')
        file.write('  ], "traceName": "trace.json"}\n')


def ncu(path: Path, launches: int, layout: str) -> None:
    """Writes an export of Nsight Compute with five metrics a launch."""
    n = ncu_files
    path.write_text(
        n.write(
            [
                n.Kernel(
                    f"kernel_{i % 100}<(int)64>(float*)",
                    n.fp32(i, 2 * i, 3 * i) | n.time_ns(1000 + i) | n.dram(4096 + i),
                    grid=f"({i % 7}, 1, 1)",
                )
                for i in range(launches)
            ],
            layout,
            "en_US",
        )
    )


def repeated(path: Path, small: Path, headings: int, launches: int, size: int) -> None:
    """Writes the rows of a table over and over, to so many bytes, with numbers that go on."""
    lines = small.read_text().splitlines(keepends=True)
    rows = [line.split('"', 2)[1:] for line in lines[headings:]]
    with path.open("w") as file:
        file.writelines(lines[:headings])
        first = 0
        while file.tell() < size:
            file.writelines(f'"{int(number) + first}"{rest}' for number, rest in rows)
            first += launches


def rocprof(path: Path, dispatches: int) -> None:
    """Writes counters as rocprofv3 does: one row a counter of a dispatch."""
    names = ("SQ_INSTS_VALU_FMA_F32", "SQ_INSTS_VALU_ADD_F32", "FETCH_SIZE", "WRITE_SIZE")
    with path.open("w") as file:
        file.write(
            "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,"
            "Kernel_Name,Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,SGPR_Count,"
            "Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp\n"
        )
        for i in range(dispatches):
            start = 10**12 + 5000 * i
            head = f"{i},{i},4,1,77,77,{256 * (i % 7)},void kernel_{i % 100}(float*),256,0,0,24,16"
            file.writelines(f"{head},{n},{1000 + i}.0,{start},{start + 900}\n" for n in names)


def points(path: Path, rows: int) -> None:
    """Writes a table of points with a hundred names."""
    with path.open("w") as file:
        file.write("name,flops,bytes,l2_bytes,time_us,dtype\n")
        file.writelines(f"k{i % 100},{1e9 + i},{2e6 + i},{4e6},{3.5},fp16\n" for i in range(rows))


def nsys(path: Path, kernels: int) -> None:
    """Writes a database of Nsight Systems: kernels, their launches, an NVTX range for every ten."""
    columns = (
        *("start", '"end"', "deviceId", "contextId", "greenContextId", "streamId"),
        *("correlationId", "globalPid", "demangledName", "shortName", "mangledName", "launchType"),
        *("cacheConfig", "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY"),
        *("blockZ", "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread"),
        *("localMemoryTotal", "gridId", "sharedMemoryExecuted", "graphNodeId"),
    )
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode = OFF")
    base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    names = [(i, f"void kernel_{i}<float>(float*, int)") for i in range(200)]
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
    base.execute(
        f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({', '.join(f'{c} INT' for c in columns)})"
    )
    base.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * len(columns))})",
        (
            (
                *(10**9 + 5000 * i, 10**9 + 5000 * i + 4000 + i % 900, 0, 1, None, 7, i, 3 << 48),
                *(i % 200, i % 200, i % 200, 1, 0, 64, i % 50 + 1, 1, 1, 256, 1, 1, 0, 49152, 0),
                *(200_000_000, i, 102_400, None),
            )
            for i in range(kernels)
        ),
    )
    base.execute(
        'CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, "end" INT, eventClass INT, '
        "globalTid INT, correlationId INT, nameId INT, returnValue INT, callchainId INT)"
    )
    base.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 5, 0, NULL)",
        ((10**9 + 5000 * i - 3000, 10**9 + 5000 * i - 1000, 77, i) for i in range(kernels)),
    )
    base.execute(
        'CREATE TABLE NVTX_EVENTS (start INT, "end" INT, text TEXT, globalTid INT, textId INT)'
    )
    base.executemany(
        "INSERT INTO NVTX_EVENTS VALUES (?, ?, NULL, 77, ?)",
        (
            (10**9 + 50_000 * i - 4000, 10**9 + 50_000 * i + 45_000, i % 200)
            for i in range(kernels // 10)
        ),
    )
    base.commit()
    base.close()


def measure(what: str, path: Path, size: int | None = None) -> list[object]:
    """Reads a file in a process of its own, on one core."""
    cores = {min(os.sched_getaffinity(0))} if hasattr(os, "sched_setaffinity") else None
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
    )
    seconds, before, after, launches = json.loads(done.stdout)
    size = size or path.stat().st_size
    return [
        what,
        f"{size / 1e6:,.0f} MB",
        f"{seconds:.2f}",
        f"{size / 1e6 / seconds:.0f}",
        f"{(after - before) / 1e6:,.0f}",
        f"{launches:,}",
    ]


def tables(scale: float) -> None:
    """Tables of kernels: rows in a second, and memory where there are very many."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        table, small = Path(name) / "k.csv", Path(name) / "s.csv"
        ncu(table, int(scale * 20_000), "long")
        rows.append(measure(f"ncu, long, {int(scale * 100_000):,} rows", table))
        ncu(small, int(scale * 100_000), "wide")
        rows.append(measure(f"ncu, wide, {int(scale * 100_000):,} launches", small))
        repeated(table, small, 2, int(scale * 100_000), int(scale * 1e9))
        rows.append(measure("ncu, wide, very many launches", table))
        rocprof(table, int(scale * 600_000))
        rows.append(measure(f"rocprofv3, {int(scale * 600_000):,} dispatches", table))
        points(table, int(scale * 2_000_000))
        rows.append(measure(f"points, {int(scale * 2_000_000):,}", table))
    report(
        "tables",
        "Reading tables of kernels",
        HEADINGS,
        rows,
        notes=[
            NOTE,
            "Target: 100,000 rows of ncu in 1 s. Beyond 200,000 launches those of one kernel and "
            "shape are added up.",
        ],
        packages=("gambrel", "numpy", "msgspec"),
    )


HEADINGS = ["file", "size", "s", "MB/s", "memory added, MB", "launches"]
NOTE = (
    "Seconds of the processor, pinned to one core; memory: peak of the process above what the "
    "imported package takes."
)


def main() -> None:
    if "tables" in sys.argv[1:]:
        tables(float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
        return
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "t.json"
        kineto(trace, int(scale * 1e9))
        rows.append(measure("PyTorch trace", trace))
        packed = folder / "t.json.gz"
        with trace.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        rows.append(measure("the same, .gz (size unpacked)", packed, trace.stat().st_size))
        trace.unlink()
        packed.unlink()
        base = folder / "n.sqlite"
        nsys(base, int(scale * 17_600_000))
        rows.append(measure(f"nsys, {int(scale * 17_600_000):,} kernels, NVTX", base))
    report(
        "traces",
        "Reading what profilers recorded",
        HEADINGS,
        rows,
        notes=[
            NOTE,
            "Targets: PyTorch trace of 1 GB at 80 MB/s below 1 GB of memory; a database of nsys of "
            "2 GB in 20 s below 500 MB.",
        ],
        packages=("gambrel", "numpy", "msgspec"),
    )


if __name__ == "__main__":
    main()
