"""``gambrel select``: the devices on which a model meets limits."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gambrel.cli import choices
from gambrel.cli.asked import Asked, asks
from gambrel.cli.output import write_text

EXAMPLES = """Examples:

gambrel select yolov8n --latency 33ms --power 10W

gambrel select resnet50 --throughput 1000fps --batch 8 --precision fp16,int8 --sort efficiency

gambrel select yolov8n --latency 33ms --max-price 300 --price jetson-orin-nano=249 --price l4=2500
"""


@asks
def select(
    model: choices.Model,
    latency: choices.Latency = None,
    throughput: choices.Throughput = None,
    power: choices.Power = None,
    energy: choices.Energy = None,
    memory: choices.Memory = None,
    max_price: Annotated[
        str | None, typer.Option(help="At most, in the currency of --price.")
    ] = None,
    price: choices.Price = None,
    hardware: Annotated[
        str,
        typer.Option("--hardware", "-d", help="Devices to choose from, a list as l4,t4, or all."),
    ] = "all",
    sort: Annotated[
        str | None,
        typer.Option(help="latency, throughput, power, energy, efficiency, memory or price."),
    ] = None,
    batch: choices.Batch = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            "-p",
            help="A list as fp16,int8, of which each device takes the best that it has.",
        ),
    ] = None,
    *,
    asked: Asked,
    top: Annotated[int, typer.Option(help="Devices shown in each group; 0 all.", min=0)] = 10,
    json_: choices.Json = False,
    html: choices.Html = None,
    output: choices.Output = None,
) -> None:
    """Rank the devices that meet all limits; near misses and unknowns stand apart."""
    from gambrel.api.advise import select as select_device

    charts = choices.charts_of(html, output)
    found = select_device(
        model,
        choices.devices_of(hardware),
        latency=latency,
        throughput=throughput,
        power=power,
        energy=energy,
        memory=memory,
        max_price=max_price,
        prices=choices.prices_of(price),
        sort=sort,
        precision=choices.names_of(precision) if precision else None,
        batch_size=batch,
        **asked.arguments,
    )
    if charts:
        from gambrel.report.plot_advice import draw_selection

        choices.write_charts(charts, draw_selection(found))
    if json_:
        from gambrel.report.select import to_json

        write_text(to_json(found))
    else:
        from gambrel.report import terminal_options
        from gambrel.report.select import render

        write_text(render(found, terminal_options(sys.stdout, top=top)))
