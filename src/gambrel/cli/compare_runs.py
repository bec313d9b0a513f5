"""``gambrel compare-runs``: two saved profiles or analyses side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gambrel.cli.command import SHOWN, argument, command, flag, rows
from gambrel.cli.output import Shown


@command(
    "compare-runs",
    argument("first", "A.json"),
    argument("second", "B.json"),
    rows(10),
    flag("--chart", "roofline", help="Draw the roofline with the movement of every op."),
    *SHOWN,
    examples="""
  gambrel compare-runs before.json after.json
  gambrel compare-runs batch1.json batch8.json --chart --output runs.html

The files: gambrel profile my_model.py:build --save before.json, or
gambrel analyze resnet50 --hardware a100 --output before.json
""",
)
def compare_runs(first: str, second: str, **shown: Any) -> None:
    """Two runs, resolutions, batch sizes or versions: one table and one chart of what moved."""
    from gambrel.measure.runs import load_run, pair
    from gambrel.measure.runs.pair import Pairing

    asked = Shown.of(**shown).check(Pairing)
    asked.emit(pair(load_run(Path(first)), load_run(Path(second))))
