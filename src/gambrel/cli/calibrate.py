"""``gambrel calibrate``: constants of the expected time from a user's own measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gambrel.cli.output import json_text, write_text

EXAMPLES = (
    "Examples: gambrel calibrate measurements.csv --device h100\n\n"
    "gambrel calibrate measurements.csv --device my-board.toml --name lab\n\n"
    "The file has the columns device, op (matmul or copy), dtype, m, n, k, bytes, and us, ms or s."
)


def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV of measured kernels.")],
    device: Annotated[
        str | None, typer.Option(help="The device; by default the one that the file names.")
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name to store under; replaces one of that name.")
    ] = "own",
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Fit expected times to measured kernels of a device, and use them from now on."""
    from gambrel.api import calibrate as calibrate_device

    sets, path = calibrate_device(file, device, name)
    if json_:
        write_text(json_text({"stored": str(path), "sets": sets}))
        return
    lines = [
        f"{s.device}: {s.form} in {s.formats[0]}, {s.points} points, {s.confidence} confidence; "
        f"measured / expected {s.low[0]:.2f} to {s.high[0]:.2f}"
        for s in sets
    ]
    write_text("\n".join([*lines, f"Stored in {path}."]) + "\n")
