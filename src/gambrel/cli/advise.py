"""The commands that advise: does it meet its targets, which device, what if."""

from __future__ import annotations

from typing import Any

from gambrel.analysis.question import Question
from gambrel.cli.command import SHOWN, asking, command
from gambrel.cli.output import Shown

check = asking(
    "check",
    "Check targets of latency, throughput, power, energy and memory, and say what would help.",
    exit_code=lambda found: found.verdict.exit_code,
    examples="""
  gambrel check resnet18 --hardware h100 --latency 10ms
  gambrel check yolov8n --hardware jetson-orin-nano --latency 33ms --power 15W --memory 4096MB
  gambrel check resnet50 --hardware h100 --precision int8 --throughput 60000/s
  gambrel check llama-3-8b --hardware l4 --phase decode --latency 50ms --runtime vllm
  gambrel check --spec limits.toml --json

Without --runtime every runtime of the device is tried; with --throughput and without --batch, every
batch that fits as well. Exit code: 0 PASS or MARGINAL, 1 FAIL, 2 wrong usage, 3 UNKNOWN.
""",
)


compare = asking(
    "compare",
    "Compare every model on every device, best first; what is unknown stays unknown.",
    examples="""
  gambrel compare yolov8n --hardware jetson-orin-nano,jetson-orin-agx,coral-edge-tpu \\
    --metric latency,power,efficiency
  gambrel compare resnet50,vit-b-16 --hardware a100,h100 --precision fp16,int8 --batch 1,32
  gambrel compare resnet50 --hardware a100 --runtime pytorch,torch-compile,tensorrt
  gambrel compare yolov8n --hardware all --metric latency,power --html pareto.html -o pareto.svg
  gambrel compare resnet50 --hardware l4,t4 --price l4=2500 --price t4=900 --metric throughput,price
""",
)


select = asking(
    "select",
    "Rank the devices that meet all targets; near misses and unknowns stand apart.",
    examples="""
  gambrel select yolov8n --latency 33ms --power 10W
  gambrel select resnet50 --throughput 1000fps --batch 8 --precision fp16,int8 --sort efficiency
  gambrel select yolov8n --latency 33ms --max-price 300 --price jetson-orin-nano=249 --price l4=2500
""",
)


@command(
    "what-if",
    *SHOWN,
    verb="what-if",
    examples="""
  gambrel what-if resnet50 --hardware a100 --change precision=int8 --change fuse
  gambrel what-if llama-3-8b --hardware a100 --phase decode --change weights=int4 --change kv=fp8
  gambrel what-if yolov8n --hardware l4 --change batch=8 --change hardware=h200 --html moved.html

Changes: fuse, attention, channels-last, batch=, precision=, weights=, kv=, sparsity, prune=,
checkpoint, model=, hardware=, runtime=, seq=, context=, image= and any other size of the model.
""",
)
def what_if(question: Question, **shown: Any) -> None:
    """Apply changes, analyze again, and show what they change per op and in total."""
    from gambrel.api.advise import what_if_sides
    from gambrel.report.answers import Changed

    asked = Shown.of(**shown, top=question.top).check(Changed)
    before, after, found = what_if_sides(question)
    asked.emit(Changed(found=found, before=before, after=after))
