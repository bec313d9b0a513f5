"""``gambrel export``: an analysis in the formats of other tools."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from gambrel.analysis.question import PRINT, Question
from gambrel.cli.command import command, option, path
from gambrel.cli.output import write_text
from gambrel.errors import InputError

_TO = (
    "Format: perfetto (predicted timeline), onnx (annotated graph for Netron), timeloop, zigzag "
    "(loop nests), chakra (execution trace); by default that of the file's ending."
)


@command(
    "export",
    option("--to", help=_TO, section=PRINT, metavar="FORMAT"),
    path("--output", "-o", "target", help="The file to write.", required=True),
    verb="analyze",
    examples="""
  gambrel export resnet50 --hardware a100 --to perfetto -o trace.json
  gambrel export model.tflite --hardware coral-edge-tpu -o annotated.onnx
  gambrel export resnet50 --hardware a100 --batch 8 --to timeloop -o layers.yaml
  gambrel export resnet50 --hardware a100 --to zigzag -o workload.yaml
  gambrel export llama-3-8b --hardware h100 --phase decode -o decode.et
""",
)
def export(question: Question, to: str | None, target: Path) -> None:
    """Write an analysis for another tool: Perfetto, Netron, Timeloop, ZigZag, Chakra."""
    from gambrel.api.analyze import answers
    from gambrel.report.exports import export as write
    from gambrel.report.exports import exporter_of

    chosen = exporter_of(target, to)
    if len(question.several("batch_size")) > 1:
        raise InputError("export takes one batch: give one --batch.")
    with redirect_stdout(sys.stderr):  # what a user's own model prints is not part of the answer
        analysis = answers(question)[0]
    write_text(f"wrote {write(analysis, target, to)}: {chosen.about}")
