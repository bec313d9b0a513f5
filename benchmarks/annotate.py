"""Speed of annotating a trace: ``python benchmarks/annotate.py``; CPU time, one core."""

import json
import tempfile
import time
from pathlib import Path

from gambrel.device.lookup import find
from gambrel.traces.annotate import annotate

SHAPES = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"]}


def events(count: int) -> list[dict]:
    """Ops with a kernel each, as torch writes them."""
    made = []
    for i in range(count):
        op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 20.0 * i,
              "dur": 15.0, "args": {"External id": i, "Record function id": i, **SHAPES,
              "Concrete Inputs": ["", ""], "Sequence number": i, "Fwd thread id": 0}}  # fmt: skip
        kernel = {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x128_nn", "pid": 0, "tid": 7,
                  "ts": 20.0 * i + 5, "dur": 12.0, "args": {"External id": i, "correlation": i,
                  "device": 0, "stream": 7, "grid": [4, 4, 1], "block": [256, 1, 1],
                  "registers per thread": 122, "est. achieved occupancy %": 12}}  # fmt: skip
        made += [op, kernel]
    return made


with tempfile.TemporaryDirectory() as folder:
    source = Path(folder) / "a.json"
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events(100_000)}))
    size = source.stat().st_size / 1e6
    wall, used = time.perf_counter(), time.process_time()
    annotate(source, Path(folder) / "b.json", find("a100-sxm4-80gb").device)
    wall, used = time.perf_counter() - wall, time.process_time() - used
print(f"{size:.0f} MB in {used:.1f} s CPU, {wall:.1f} s: {size / used:.0f} MB/s of CPU time")
