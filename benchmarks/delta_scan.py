"""The gated delta rule: measured times of its kernels, and as they are expected.

    python benchmarks/delta_scan.py

Three numbers of cycles were fitted to these rows (gambrel.analysis.estimate.scan_forms).
benchmarks/accuracy/delta_rule.py scores measured kernels to which nothing was fitted.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import report

from gambrel.analysis.estimate.estimator import Estimator
from gambrel.analysis.measures import Estimate
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.catalog import load
from gambrel.llm.build import build
from gambrel.llm.known import spec_of
from gambrel.llm.precision import Precisions
from gambrel.llm.step import ForwardPass, decode, prefill

ROWS = Path(__file__).parent / "data" / "delta_scan" / "rows.csv"


def rows() -> Iterator[dict[str, str]]:
    """The published times."""
    with ROWS.open(newline="") as file:
        yield from csv.DictReader(file)


def expected(row: dict[str, str], runtime: str = "sglang") -> Estimate:
    """The op of a layer as the estimator has it."""
    batch, tokens = int(row["batch"]), int(row["tokens"])
    step: ForwardPass = prefill(batch, tokens) if tokens > 1 else decode(batch, 2)
    config = {
        "model_type": "qwen3_5_text",
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 1024,
        "vocab_size": 1024,
        "linear_num_key_heads": int(row["key_heads"]),
        "linear_num_value_heads": int(row["heads"]),
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "torch_dtype": "bfloat16",
    }
    spec = spec_of(config)
    assert spec is not None
    settings = Settings(runtime=runtime)
    workload = build(spec, step, Precisions.parse("bf16", "bf16"))
    bench = Workbench(workload, {}, settings.conventions)
    machine = Machine(load(row["device"]), settings)
    chosen = machine.chosen(bench.workload, settings)
    engine = chosen.runtime.runtime
    items = bench.table(chosen.precision, machine.plan(engine)).items
    item = next(i for i in items if i.view.kind == "delta_scan")
    found = Estimator(machine.roofs, framework=engine.constants[0]).estimate(
        item.view, item.cost, 0.0, 1
    )
    assert found is not None
    return found


def main() -> None:
    """Prints the table and stores it."""
    groups = defaultdict[tuple[str, ...], list[float]](list)
    for row in rows():
        key = row["phase"], row["device"], row["source"]
        groups[key].append(expected(row).value / float(row["seconds"]))
    report(
        "delta_scan",
        "Kernels of the gated delta rule, expected against published",
        ["phase", "device", "source", "rows", "mean error", "median ratio"],
        [
            [
                *key,
                str(len(ratios)),
                f"{statistics.mean(abs(r - 1) for r in ratios):.0%}",
                f"{statistics.median(ratios):.2f}",
            ]
            for key, ratios in sorted(groups.items())
        ],
    )


if __name__ == "__main__":
    main()
