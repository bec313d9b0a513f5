"""Size of a page of many ops, time to write it, and time of a search and a zoom in chromium.

python benchmarks/page.py [--ops 10000]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

import gambrel
from gambrel.analysis.result import Analysis, OpResult
from gambrel.report import render

sys.path.insert(0, str(Path(__file__).parents[1]))

#: Times an act from its event to the frame after it.
TIMED = """async (act) => {
  const frame = () => new Promise((r) => requestAnimationFrame(() => setTimeout(r)));
  await frame();
  const acts = {
    search: (i) => {
      const field = document.querySelector(".linked input[type=search]");
      field.value = "unit" + i;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    },
    zoom: (i) => document.querySelector("canvas").dispatchEvent(
      new KeyboardEvent("keydown", { key: i % 2 ? "+" : "-", bubbles: true })),
    sort: (i) => document.querySelectorAll(".linked thead button")[i % 8].click(),
  };
  const times = [];
  for (let i = 0; i < 20; i++) {
    const start = performance.now();
    acts[act](i);
    await frame();
    times.push(performance.now() - start);
  }
  return times;
}"""


def scaled(op: OpResult, i: int) -> OpResult:
    """The op under another name and with other figures, so that no two rows are alike."""
    m, by = op.measures, 1 + i / 997
    seconds = m.roofline_time_s
    expected = m.expected_time_s
    measures = msgspec.structs.replace(
        m,
        matrix_flops=int(m.matrix_flops * by),
        vector_flops=int(m.vector_flops * by),
        read_bytes=int(m.read_bytes * by),
        write_bytes=int(m.write_bytes * by),
        roofline_time_s=None if seconds is None else seconds * by,
        expected_time_s=None if expected is None else expected.times(by),
    )
    path = f"unit{i}x.{op.name}"
    return msgspec.structs.replace(op, name=path, module=f"unit{i // 50}x", measures=measures)


def large(count: int) -> Analysis:
    """An analysis of so many different ops."""
    base = gambrel.analyze("resnet50", "a100-sxm4-80gb")
    ops = tuple(scaled(base.ops[i % len(base.ops)], i) for i in range(count))
    return msgspec.structs.replace(base, ops=ops, workload=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=10_000)
    analysis = large(parser.parse_args().ops)
    times = []
    for _ in range(3):
        start = time.process_time()
        text = str(render(analysis, "html"))
        times.append(time.process_time() - start)
    print(f"{len(analysis.ops):,} different ops: {len(text.encode()) / 1e6:.2f} MB")
    print(f"written in {min(times):.2f} s of the processor (best of 3)")
    from tests.report.browser import Reader, chromium

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        reader = Reader(browser)
        start = time.perf_counter()
        tab = reader.open(text, Path(folder))
        print(f"opened in {time.perf_counter() - start:.2f} s")
        for act in ("zoom", "sort", "search"):
            found = sorted(tab.evaluate(TIMED, act))
            middle, last = statistics.median(found), found[int(0.95 * len(found))]
            print(f"{act}: median {middle:.0f} ms, p95 {last:.0f} ms to the next frame")


if __name__ == "__main__":
    main()
