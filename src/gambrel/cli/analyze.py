"""``gambrel analyze``: where a model stands under a device's roofline."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from gambrel.analysis.question import PRINT, Question
from gambrel.cli.command import SHOWN, command, flag, option, path
from gambrel.cli.output import Shown, wrote
from gambrel.errors import InputError

_CHECKPOINT = (
    "With --train: memory when activations are computed again in backward; 'auto', or module paths "
    "of the blocks, e.g. 'encoder.layer.*'."
)


@command(
    "analyze",
    flag("--roofline", "-r", help="Draw the roofline in the terminal."),
    flag("--recommend", help="List changes with their predicted gain; in files and JSON as well."),
    flag("--levels", help="Show the traffic of each memory level; charts as well."),
    flag("--memory", "timeline", help="Draw the memory over the run, and what its peak holds."),
    option("--checkpoint", help=_CHECKPOINT, section=PRINT),
    path("--memory-plot", help="Write the memory plot: .svg .png .pdf .html."),
    path(
        "--pictures", help="Of a language model: write intensity, time and cache: .svg .png .pdf."
    ),
    *SHOWN,
    verb="analyze",
    examples="""
  gambrel analyze resnet50 --hardware a100 --roofline
  gambrel analyze resnet50 --hardware a100 --batch 1,8,64 --precision fp16 --html report.html
  gambrel analyze resnet50 --hardware jetson-orin-agx --runtime tensorrt --precision int8 --batch 8
  gambrel analyze llama-3-8b --hardware h100 --phase decode --context 4096 --batch 16
  gambrel analyze model.gguf --hardware rtx-4090 --phase decode --context 4096 --pictures cache.svg
  gambrel analyze stable-diffusion-xl --hardware h100 --size steps=30 --image 1024
  gambrel analyze config.json --hardware h200 --phase decode --precision w4a16,kv=fp8
  gambrel analyze my_model.py:build --hardware l4 --input 1x3x224x224
  gambrel analyze resnet50 --peak 989T --bandwidth 3.35T --json
""",
)
def analyze(
    question: Question,
    timeline: bool,
    checkpoint: str | None,
    memory_plot: Path | None,
    pictures: Path | None,
    **shown: Any,
) -> None:
    """Analyze a model on a device: expected time, what limits it, roofline, per op and in total."""
    from gambrel.analysis.result import Analysis
    from gambrel.api.analyze import answers
    from gambrel.report import write
    from gambrel.report.answers import Analyses, Memory, Pictures

    several = len(question.several("batch_size")) > 1
    asked = Shown.of(**shown, top=question.top).check(Analyses if several else Analysis)
    _check_single(memory_plot, several, Memory)
    _check_single(pictures, several, Pictures)
    with redirect_stdout(sys.stderr):  # what a user's own model prints is not part of the report
        found = answers(question, levels=asked.shows_levels)
    asked.emit(found)
    blocks: bool | str = {None: False, "auto": True}.get(checkpoint, checkpoint or "")
    for one in found if (timeline or checkpoint is not None) and not asked.as_json else ():
        Shown(more=asked.more).emit(Memory(analysis=one, checkpoint=blocks))
    for target, drawn in (
        (memory_plot, Memory(analysis=found[0], checkpoint=blocks)),
        (pictures, Pictures(analysis=found[0])),
    ):
        if target is not None:
            wrote(write(drawn, target))


def _check_single(target: Path | None, several: bool, record: type) -> None:
    from gambrel.report import check_file

    if target is None:
        return
    check_file(target, record)
    if several:
        raise InputError(f"{target}: this format shows one analysis; give one --batch.")
