"""``gambrel collect``: the commands that record what ``gambrel import`` reads."""

from __future__ import annotations

from typing import Annotated

import typer

from gambrel.cli.output import write_text

app = typer.Typer(
    help="Print the command that records a run for 'gambrel import'.",
    epilog="Example: gambrel collect ncu --hardware h100",
    no_args_is_help=True,
)


@app.callback()
def _collect() -> None:
    """Keeps `ncu` a command of its own while it is the only one."""


@app.command(
    "ncu",
    epilog="Examples: gambrel collect ncu --hardware a100\n\n"
    "gambrel collect ncu --hardware h100 -- python train.py > collect.sh",
)
def ncu(
    hardware: Annotated[
        str, typer.Option("--hardware", "-d", help="The device on which it will run.")
    ],
    program: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PROGRAM...]", help="What to run.")
    ] = None,
) -> None:
    """Print Nsight Compute's command with the metrics that this chip has."""
    from gambrel.device.lookup import find
    from gambrel.traces.collect import compute_capability, ncu_command

    device = find(hardware).device
    command = ncu_command(compute_capability(device), program or ())
    write_text(f"{command}\ngambrel import kernels.csv --hardware {device.id} -o roofline.html\n")
