"""``gambrel compare-runs``: two saved profiles or analyses side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gambrel.cli.output import json_text, write_text

EXAMPLES = (
    "Examples: gambrel compare-runs before.json after.json\n\n"
    "gambrel compare-runs batch1.json batch8.json --chart --output runs.html\n\n"
    "The files: gambrel profile my_model.py:build --save before.json, or "
    "gambrel analyze resnet50 --hardware a100 --output before.json"
)


def compare_runs(
    first: Annotated[Path, typer.Argument(metavar="A.json", help="A saved profile or analysis.")],
    second: Annotated[Path, typer.Argument(metavar="B.json", help="Another one.")],
    top: Annotated[int, typer.Option(help="Rows of the table; 0 shows all.", min=0)] = 10,
    chart: Annotated[
        bool, typer.Option("--chart", help="Draw the roofline with the movement of every op.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", help="Write .html, .svg, .png or .json; repeatable.", dir_okay=False
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Two runs, resolutions, batch sizes or versions: one table and one chart of what moved."""
    from gambrel.measure.runs import load_run, pair, report
    from gambrel.report import terminal_options

    for path in output or []:
        report.check(path)
    pairing = pair(load_run(first), load_run(second))
    if json_:
        write_text(json_text(report.to_data(pairing)))
    else:
        options = terminal_options(sys.stdout)
        write_text(report.render_table(pairing, top, options))
        if chart:
            write_text("\n" + report.render_terminal(pairing, options))
    for path in output or []:
        report.write(pairing, path)
        print(f"wrote {path}", file=sys.stderr)
