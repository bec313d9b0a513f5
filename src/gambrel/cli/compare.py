"""``gambrel compare``: models on devices, in precisions and at batches, side by side."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gambrel.cli import choices
from gambrel.cli.asked import Asked, asks
from gambrel.cli.output import write_text
from gambrel.cli.parse import parse_batches

EXAMPLES = """Examples:

gambrel compare yolov8n --hardware jetson-orin-nano,jetson-orin-agx,coral-edge-tpu --metric latency,power,efficiency

gambrel compare resnet50,vit-b-16 --hardware a100,h100 --precision fp16,int8 --batch 1,32

gambrel compare yolov8n --hardware all --metric latency,power --html pareto.html -o pareto.svg

gambrel compare resnet50 --hardware l4,t4 --price l4=2500 --price t4=900 --metric throughput,price
"""  # noqa: E501 a command on one line can be copied


@asks
def compare(
    models: Annotated[
        str,
        typer.Argument(
            metavar="MODELS",
            help="Names (gambrel models list) or files; a list as resnet50,vit-b-16.",
            show_default=False,
        ),
    ],
    hardware: Annotated[
        str, typer.Option("--hardware", "-d", help="Devices, a list as a100,h100, or all.")
    ],
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            "-m",
            help="latency, throughput, power, energy, efficiency, memory, price; the first sorts.",
        ),
    ] = "latency,throughput,power,efficiency,memory",
    batch: Annotated[
        str | None, typer.Option("--batch", "-b", help="Items at once; a list as 1,8,64.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision", "-p", help="A list as fp16,int8; by default each device's own."
        ),
    ] = None,
    price: choices.Price = None,
    *,
    asked: Asked,
    top: Annotated[int, typer.Option(help="Rows shown; 0 all.", min=0)] = 50,
    json_: choices.Json = False,
    html: choices.Html = None,
    output: choices.Output = None,
) -> None:
    """Compare every model on every device, best first; what is unknown stays unknown."""
    from gambrel.api.advise import compare as compare_all

    charts = choices.charts_of(html, output)
    found = compare_all(
        choices.names_of(models),
        choices.devices_of(hardware),
        metric=choices.names_of(metric),
        precision=choices.names_of(precision) if precision else None,
        batch_size=parse_batches(batch) if batch else None,
        prices=choices.prices_of(price),
        **asked.arguments,
    )
    if charts:
        from gambrel.report.plot_advice import draw_comparison

        choices.write_charts(charts, draw_comparison(found))
    if json_:
        from gambrel.report.compare import to_json

        write_text(to_json(found))
    else:
        from gambrel.report import terminal_options
        from gambrel.report.compare import render

        write_text(render(found, terminal_options(sys.stdout, top=top)))
