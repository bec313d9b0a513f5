"""Whose constants stand for a framework that was not named: each one's on the kernels of all.

python benchmarks/stand_in.py            the sample in benchmarks/data/kernels
python benchmarks/stand_in.py FOLDER     all held-out rows of a folder of measurements
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from calibration_rows import FORMS, Form, Rows, load  # noqa: E402
from common import report  # noqa: E402
from gambrel.analysis.estimate import Set, packaged  # noqa: E402

SAMPLE = ROOT / "benchmarks/data/kernels"
COLUMNS = ("form", "format", "device", "constants of", "MAPE", "factor", "sglang", "trtllm", "vllm")
NOTES = (
    "Shapes not fitted on. MAPE and factor: means over the frameworks, each weighing alike; factor "
    "is exp(mean |log(predicted / measured)|), which punishes too short and too long alike. The "
    "last columns: MAPE on the kernels of each.",
    "When no framework is named: where a line says `all`, constants fitted to the kernels of all, "
    "each framework weighing alike; else those that scripts/calibration_rows.py names.",
    "Facts extracted from ai-dynamo/aiconfigurator (commit 095f58a5, 2026-08-21), Apache-2.0, "
    "Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES.",
)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    lines = []
    for form in FORMS:
        if not (folder / form.file).exists():  # the sample leaves some forms out
            continue
        rows = load(folder, form)
        rows = rows.take(rows["half"] == 1)
        for s in packaged().sets:
            average = s.framework == s.describes == "any"
            named = s.framework not in ("any", "own")
            if s.form == form.name and s.points and (named or average):
                lines += line(form, s, rows)
    name = "stand_in" if folder == SAMPLE else "stand_in_all"
    report(name, "Constants of one framework on the kernels of all", COLUMNS, lines, notes=NOTES)


def line(form: Form, s: Set, rows: Rows) -> list[list[object]]:
    """One line; none where a single framework was measured."""
    formats = next(f for f in form.formats if f.names == s.formats)
    part = rows.take(formats.mask(rows) & (rows["device"] == s.device))
    stacks = part.stacks()
    if len(stacks) < 2:
        return []
    ratio = form.predict(s.constants, s.device, part) / part["seconds"]
    mape = {k: float(np.abs(ratio[part["stack"] == k] - 1).mean()) for k in stacks}
    logs = [float(np.abs(np.log(ratio[part["stack"] == k])).mean()) for k in stacks]
    return [
        [
            form.name,
            s.formats[0],
            s.device,
            "all" if s.framework == "any" else s.framework,
            f"{np.mean(list(mape.values())):.1%}",
            f"{np.exp(np.mean(logs)):.2f}",
            *(f"{mape[k]:.1%}" if k in mape else "" for k in ("sglang", "trtllm", "vllm")),
        ]
    ]


if __name__ == "__main__":
    main()
