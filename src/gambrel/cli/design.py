"""``gambrel design``: a device that does not exist yet, under models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gambrel.analysis.question import PRINT, Question
from gambrel.cli.command import (
    FIGURE,
    HTML,
    JSON,
    POINTS,
    VERBOSE,
    argument,
    command,
    option,
    path,
)


@command(
    "design",
    argument("more", "[PARAMETER=VALUES]...", nargs=-1, about="More axes, as --sweep takes them."),
    *(JSON, VERBOSE, HTML, POINTS, FIGURE),
    path("--export", help="Write the design's accelerator for another explorer (--to)."),
    option("--to", help="Which explorer: zigzag or timeloop.", section=PRINT, metavar="FORMAT"),
    verb="design",
    examples="""
  gambrel design tpu-v1-like --models resnet50
  gambrel design npu.toml --models resnet50,mobilenet-v2 --sweep rows=64:512:x2 sram=1MiB:64MiB:x2
  gambrel design npu.toml --models bert-base --seq 128 --sweep dram=lpddr5,hbm3 --html front.html
  gambrel design npu.toml --models resnet50 --sweep sram=64KiB:64MiB:x1.1 -o points.parquet
  gambrel design npu.toml --models resnet50 --export npu.yaml --to zigzag
  gambrel design npu.toml --models resnet50 --sweep rows=8:512 --where 'within and power_w < 5W'

Ranges: 64:512 in steps of one, 64:512:64, and 64:512:x2 doubling; 1M is 1e6, 1MiB is 2^20. Every
combination is a point. Points beyond a budget of the file are left out unless --where says
otherwise. A run with -o .parquet, .csv or .jsonl that is stopped goes on when it is given again.
""",
)
def design(
    question: Question,
    more: tuple[str, ...],
    output: tuple[Path, ...],
    export: Path | None,
    to: str | None,
    **shown: Any,
) -> None:
    """Sweep the parameters of a device that does not exist yet."""
    import dataclasses

    from gambrel.advise.design.record import DesignStudy
    from gambrel.api.design import design as answer_design
    from gambrel.cli.output import Shown, with_points
    from gambrel.cli.progress import counted

    question, reports = with_points(question, output)
    asked = Shown.of(**shown, output=reports, top=question.top).check(DesignStudy)
    question = dataclasses.replace(question, axes=(*question.axes, *more))
    with counted("points") as told:
        found = answer_design.answer(question, told)
    if export is not None:
        from gambrel.report.exports import export as write_accelerator

        write_accelerator(found, export, to)
    asked.emit(found)
