"""``gambrel check``: does a model on a device meet limits? Exit code 0, 1 or 3."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gambrel.cli import choices
from gambrel.cli.asked import Asked, asks
from gambrel.cli.output import write_text

EXAMPLES = """Examples:

gambrel check resnet18 --hardware h100 --latency 10ms

gambrel check yolov8n --hardware jetson-orin-nano --latency 33ms --power 15W --memory 4096MB

gambrel check llama-3-8b --hardware l4 --phase decode --latency 50ms --runtime torch-compile

gambrel check --spec limits.toml --json

Exit code: 0 PASS or MARGINAL, 1 FAIL, 2 wrong usage, 3 UNKNOWN.
"""


@asks
def check(
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help=choices.MODEL_HELP, show_default=False),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option("--hardware", "-d", help="A device (gambrel hardware list), or a TOML file."),
    ] = None,
    latency: choices.Latency = None,
    throughput: choices.Throughput = None,
    power: choices.Power = None,
    energy: choices.Energy = None,
    memory: choices.Memory = None,
    spec: Annotated[
        Path | None,
        typer.Option(help="A requirements file (TOML); options given here win.", dir_okay=False),
    ] = None,
    batch: choices.Batch = None,
    precision: choices.Precision = None,
    *,
    asked: Asked,
    json_: choices.Json = False,
) -> None:
    """Check limits on latency, throughput, power, energy and memory, and say what would help."""
    from gambrel.api.advise import check as check_model

    found = check_model(
        model,
        hardware,
        latency=latency,
        throughput=throughput,
        power=power,
        energy=energy,
        memory=memory,
        spec=spec,
        batch_size=batch,
        precision=precision,
        **asked.arguments,
    )
    if json_:
        from gambrel.report.check import to_json

        write_text(to_json(found))
    else:
        from gambrel.report import terminal_options
        from gambrel.report.check import render

        write_text(render(found, terminal_options(sys.stdout)))
    raise typer.Exit(found.verdict.exit_code)
