"""``gambrel diagnose``: what makes a recorded run slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gambrel.analysis.question import Question
from gambrel.cli.command import SHOWN, argument, command
from gambrel.cli.output import Shown


@command(
    "diagnose",
    argument(
        "files",
        "TRACE [CLOCKS]...",
        about="A trace of torch.profiler, or a file of another profiler; beside it logs of "
        "nvidia-smi --format=csv or dcgmi dmon.",
        nargs=-1,
        required=True,
    ),
    *SHOWN,
    verb="import",
    words=(),
    examples="""
  gambrel diagnose trace.json
  gambrel diagnose trace.json.gz --hardware a100 --model resnet50 --batch 32
  gambrel diagnose trace.json clocks.csv
  gambrel diagnose kernels.csv --json
""",
)
def diagnose(question: Question, files: tuple[str, ...], **shown: Any) -> None:
    """Say what makes a recorded run slow: ten causes, by the time that each can give back."""
    from gambrel.analysis.samples.diagnosis import Diagnosis
    from gambrel.api.diagnosis import diagnosed

    asked = Shown.of(**shown, top=question.top).check(Diagnosis)
    asked.emit(diagnosed(question, [Path(file) for file in files]))
