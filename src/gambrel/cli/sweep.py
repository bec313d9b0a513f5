"""``gambrel sweep``: many points at once, here or on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gambrel.analysis.question import Question
from gambrel.cli.command import HTML, JSON, POINTS, VERBOSE, command
from gambrel.cli.output import Shown, with_points


@command(
    "sweep",
    *(JSON, VERBOSE, HTML, POINTS),
    verb="sweep",
    examples="""
  gambrel sweep resnet50 --hardware h100,a100,l4 --batch 1:256 --precision fp16,int8 -o sweep.csv
  gambrel sweep resnet50 --hardware category=edge --where 'fits and expected_time_s < 33ms'
  gambrel sweep llama-3-8b --hardware h100 --phase decode --batch 1:1024:x2 --context 1k,8k,32k
  gambrel sweep resnet50 --hardware all --batch 1:64 --pareto throughput,energy --html front.html
  gambrel sweep resnet50 --hardware all --batch 1:1024 --jobs 4 -o sweep.parquet
  gambrel sweep resnet50 --hardware all --batch 1:4096 --scheduler tcp://10.0.0.1:8786 -o s.parquet

Ranges: 1:256 every one, 1:256:8 every eighth, 1:1024:x2 doubling. Every combination is a point.
Points that a device or a runtime refuses are rows whose column 'refused' says why. A run with -o
that is stopped goes on where it was when the same command is given again.
""",
)
def sweep(question: Question, output: tuple[Path, ...], **shown: Any) -> None:
    """Analyze every combination of models, devices, runtimes, number formats and sizes."""
    from gambrel.analysis.sweep.record import Sweep
    from gambrel.api.sweep import sweep as sweep_points
    from gambrel.cli.progress import counted

    question, reports = with_points(question, output)
    asked = Shown.of(**shown, output=reports, top=question.top).check(Sweep)
    with counted("points") as told:
        found = sweep_points.answer(question, told)
    asked.emit(found)
