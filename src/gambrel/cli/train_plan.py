"""``gambrel train-plan``: a training step of a language model on many devices."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gambrel.cli import choices
from gambrel.cli.output import json_text, leave, write_text

EXAMPLES = """Examples:

gambrel train-plan llama-3.1-8b --hardware h100 --seq 8k --data 8 --zero 3 --recompute full

gambrel train-plan config.json -d h100 --seq 4k --tensor 8 --pipeline 4 --microbatches 32
--topology dgx-h100

Exit status: 1 where it does not fit, 3 where that is unknown.
"""


def train_plan(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A config.json, its folder, a .gguf (with --precision) or a name.",
            show_default=False,
        ),
    ],
    hardware: choices.Hardware,
    seq: Annotated[str, typer.Option(help="Tokens of a sequence; 8k is 8,192.")],
    sequences: Annotated[int, typer.Option(help="Of one microbatch on a replica.", min=1)] = 1,
    microbatches: Annotated[int, typer.Option(help="Passes before an update.", min=1)] = 1,
    tensor: Annotated[int, typer.Option(help="Devices that share each layer.")] = 1,
    pipeline: Annotated[int, typer.Option(help="Stages of layers.")] = 1,
    data: Annotated[int, typer.Option(help="Replicas.")] = 1,
    context: Annotated[int, typer.Option(help="Devices that share a sequence.")] = 1,
    expert: Annotated[int, typer.Option(help="Groups that divide the experts.")] = 1,
    zero: Annotated[
        int, typer.Option(help="Divided among replicas: 1 states, 2 gradients, 3 parameters.")
    ] = 0,
    recompute: Annotated[str, typer.Option(help="none, or full: keep the stream only.")] = "none",
    overlap: Annotated[
        float, typer.Option(help="Share of the exchange of gradients that is hidden.")
    ] = 0.0,
    precision: choices.Precision = None,
    topology: Annotated[str | None, typer.Option(help="A node TOML, or dgx-h100 ...")] = None,
    runtime: Annotated[str | None, typer.Option(help="vllm, sglang, tensorrt-llm ...")] = None,
    json_: choices.Json = False,
) -> None:
    """Predict a training step: time, MFU, tokens per second of a device, memory."""
    from gambrel.api.plans import train_plan as plan_training
    from gambrel.report.training import plain, render

    found = plan_training(
        model,
        hardware,
        seq=seq,
        sequences=sequences,
        microbatches=microbatches,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        context=context,
        expert=expert,
        zero=zero,
        recompute=recompute,
        overlap=overlap,
        precision=precision,
        topology=topology,
        runtime=runtime,
    )
    if json_:
        write_text(json_text(plain(found)))
    else:
        from gambrel.report.options import terminal_options

        write_text(render(found, terminal_options(sys.stdout)))
    leave(found.memory.fits)
