"""``gambrel hardware``: the catalog of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gambrel.cli.output import json_text, write_text

if TYPE_CHECKING:
    from gambrel.report import Options

app = typer.Typer(
    help="The catalog of devices: peaks, bandwidths, where each number comes from.",
    epilog="Examples: gambrel hardware list --category edge\n\ngambrel hardware show h100",
    no_args_is_help=True,
)


@app.command(
    "list",
    epilog="Examples: gambrel hardware list --vendor nvidia --sort bandwidth\n\n"
    "gambrel hardware list --category edge --max-tdp 30W",
)
def list_(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Only devices whose name has this.")
    ] = None,
    vendor: Annotated[str | None, typer.Option(help="Only this maker.")] = None,
    category: Annotated[
        str | None, typer.Option(help="Only this class, e.g. 'datacenter gpu', edge, tpu, cpu.")
    ] = None,
    min_memory: Annotated[str | None, typer.Option(help="At least, e.g. 24GiB.")] = None,
    max_tdp: Annotated[str | None, typer.Option(help="At most, e.g. 75W.")] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            "-p",
            help="Format of the peak and ridge columns; by default each device's own.",
        ),
    ] = None,
    sort: Annotated[
        str, typer.Option(help="name, year, peak, bandwidth, memory, tdp or ridge.")
    ] = "name",
    reverse: Annotated[bool, typer.Option("--reverse", help="Smallest first / Z to A.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List devices: dense peak, bandwidth, ridge point, memory, TDP."""
    from gambrel.device.listing import Filter, list_rows

    rows = list_rows(
        Filter(
            text=text,
            vendor=vendor,
            category=category,
            min_memory=min_memory,
            max_tdp=max_tdp,
        ),
        precision=precision,
        sort=sort,
        reverse=reverse,
    )
    if json_:
        write_text(json_text(rows))
        return
    from gambrel.report.hardware import render_list

    write_text(render_list(rows, _options()))


@app.command(
    "show",
    epilog="Examples: gambrel hardware show h100\n\ngambrel hardware show my-board.toml --json",
)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A device or a TOML file.")],
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show every ceiling of a device with its source, and explain sparse figures."""
    from gambrel.device.resolve import resolve_hardware

    device, notes = resolve_hardware(name)
    if json_:
        write_text(json_text(device))
        return
    from gambrel.report.hardware import render_device

    write_text(render_device(device, notes, _options()))


def _options() -> Options:
    import sys

    from gambrel.report import terminal_options

    return terminal_options(sys.stdout)
