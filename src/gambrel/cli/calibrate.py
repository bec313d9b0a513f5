"""``gambrel calibrate``: constants of the expected time from a user's own measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gambrel.cli.output import json_text, progress, write_text
from gambrel.errors import InputError

EXAMPLES = (
    "Examples: gambrel calibrate measurements.csv --device h100\n\n"
    "gambrel calibrate measurements.csv --device my-board.toml --name lab\n\n"
    "gambrel calibrate --measure\n\n"
    "Then: gambrel analyze resnet50 --hardware this --precision fp32\n\n"
    "The file has the columns device, op (matmul or copy), dtype, m, n, k, bytes, and us, ms or s."
)


def calibrate(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A CSV of measured kernels.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time the kernels of this machine's processor.")
    ] = False,
    precision: Annotated[
        str, typer.Option("--precision", "-p", help="With --measure: number formats.")
    ] = "fp32,bf16",
    device: Annotated[
        str | None, typer.Option(help="The device; by default the one that the file names.")
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name to store under; replaces one of that name.")
    ] = "own",
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Fit expected times to measured kernels of a device, and use them from now on."""
    if (file is None) is not measure:
        raise InputError("give a FILE of measured kernels, or --measure for this machine.")
    if file is None:
        _measured(device, name, precision, json_)
        return
    from gambrel.api.analyze import calibrate as calibrate_device

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


def _measured(device: str | None, name: str, precision: str, json_: bool) -> None:
    import sys
    import warnings

    from gambrel.device.resolve import resolve_hardware
    from gambrel.measure.calibrate import calibrate_machine

    here = resolve_hardware(device)[0] if device else None
    shown = not json_ and sys.stderr.isatty()
    formats = tuple(filter(None, (p.strip() for p in precision.split(","))))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found, path = calibrate_machine(
            "this" if name == "own" else name,
            formats,
            device=here,
            progress=progress if shown else None,
        )
    doubts = dict.fromkeys(str(w.message) for w in said if w.category is UserWarning)
    if shown:
        print("\r\033[K", end="", file=sys.stderr)
    if json_:
        write_text(json_text({"stored": str(path), "kernels": found, "doubts": list(doubts)}))
        return
    lines = [
        f"{k.key}: {k.points} points; measured / expected {k.low:.2f} to {k.high:.2f}"
        for k in found
    ]
    write_text("\n".join([*lines, *(f"note: {d}" for d in doubts), f"Stored in {path}."]) + "\n")
