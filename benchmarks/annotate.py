"""Speed and memory of annotating a trace: ``python benchmarks/annotate.py [SCALE]``.

A scale of 1 makes a PyTorch trace of 1 GB. Everything runs on one core, each in a process of its
own, and is compared with decoding a tenth of the same text by the standard library in the same run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import report
from traces import kineto

#: Prints seconds of the processor, and peak bytes before and after.
STEP = """
import json, resource, sys, time
from pathlib import Path
from gambrel.device.lookup import find
from gambrel.traces import read
import gambrel.traces.kineto.reader
from gambrel.traces.annotate import annotate
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
device = find("h100-sxm5-80gb").device
source, target = map(Path, sys.argv[1:])
before, start = peak(), time.process_time()
{work}
print(json.dumps([time.process_time() - start, before, peak()]))
"""
WORK = {
    "json.loads": "json.loads(source.read_bytes())",
    "gambrel import": "read(source)",
    "annotate": "annotate(source, target, device)",
}


def measured(work: str, source: Path, target: Path) -> list[float]:
    """CPU seconds, peak before and after, on one core."""
    command = [sys.executable, "-c", STEP.format(work=WORK[work]), str(source), str(target)]
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(json.loads(done.stdout))


def main() -> None:
    """Makes the trace, runs each step, writes the table."""
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    rows, speeds = [], {}
    with tempfile.TemporaryDirectory() as name:
        trace, tenth, target = (Path(name) / f for f in ("t.json", "s.json", "a.json"))
        kineto(trace, int(scale * 1e9))
        kineto(tenth, int(scale * 1e8))
        for work in WORK:
            source = tenth if work == "json.loads" else trace
            seconds, before, after = measured(work, source, target)
            size = source.stat().st_size / 1e6
            speeds[work] = size / seconds
            ratio = speeds[work] / speeds["json.loads"]
            rows.append(
                [
                    work,
                    f"{size:,.0f} MB",
                    f"{seconds:.1f}",
                    f"{speeds[work]:.0f}",
                    f"{ratio:.1f}",
                    f"{(after - before) / 1e6:,.0f}",
                ]
            )
        written = target.stat().st_size / 1e6
    report(
        "annotate",
        "Annotating a trace",
        ["step", "size", "CPU s", "MB/s", "of json.loads", "memory added, MB"],
        rows,
        notes=[
            f"The annotated file has {written:,.0f} MB. Seconds of the processor on one core; on a "
            "busy machine all steps are slower alike, so compare the ratios.",
            "Target: 60 MB/s.",
        ],
        packages=("gambrel", "numpy", "msgspec"),
    )


if __name__ == "__main__":
    main()
