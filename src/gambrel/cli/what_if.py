"""``gambrel what-if``: the same question with changes, and where the answers differ."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gambrel.cli import choices
from gambrel.cli.asked import Asked, asks
from gambrel.cli.output import write_text

EXAMPLES = """Examples:

gambrel what-if resnet50 --hardware a100 --change precision=int8 --change fuse

gambrel what-if llama-3-8b --hardware a100 --phase decode --change weights=int4 --change kv=fp8

gambrel what-if yolov8n --hardware l4 --change batch=8 --change hardware=h200 --html moved.html

Changes: fuse, attention, channels-last, batch=, precision=, weights=, kv=, sparsity, prune=,
checkpoint, model=, hardware=, runtime=, seq=, context=, image= and any other size of the model.
"""


@asks
def what_if(
    model: choices.Model,
    hardware: choices.Hardware,
    change: Annotated[
        list[str],
        typer.Option("--change", "-c", help="E.g. precision=int8, fuse, batch=8; repeatable."),
    ],
    batch: choices.Batch = None,
    precision: choices.Precision = None,
    *,
    asked: Asked,
    top: Annotated[int, typer.Option(help="Ops shown; 0 all.", min=0)] = 10,
    json_: choices.Json = False,
    html: choices.Html = None,
    output: choices.Output = None,
) -> None:
    """Apply changes, analyze again, and show what they change per op and in total."""
    from gambrel.api.advise import what_if_sides

    charts = choices.charts_of(html, output)
    before, after, found = what_if_sides(
        model,
        hardware,
        change,
        batch_size=batch,
        precision=precision,
        **asked.arguments,
    )
    if charts:
        from gambrel.report.plot_advice import draw_whatif

        choices.write_charts(charts, draw_whatif(before, after, found))
    if json_:
        from gambrel.report.whatif import to_json

        write_text(to_json(found))
    else:
        from gambrel.report import terminal_options
        from gambrel.report.whatif import render

        write_text(render(found, terminal_options(sys.stdout, top=top)))
