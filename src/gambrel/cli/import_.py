"""``gambrel import``: what a profiler recorded, under the roofs of its device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gambrel.cli.output import write_text
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.device.model import Device

EXAMPLES = """Examples:

gambrel import kernels.csv --hardware a100

gambrel import rank0.csv rank1.csv --hardware h100 -o report.html

gambrel import kernels.csv --peak 32T --bandwidth 672G --flops gemm=17179869184 --json

gambrel import points.csv --hardware a10 --roofline --top 5
"""


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Files of a profiler; recognized by content."),
    ],
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware", "-d", help="Use the roofs of this device rather than the files' own."
        ),
    ] = None,
    peak: Annotated[str | None, typer.Option(help="Compute roof of your own, e.g. 32T.")] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Its memory roof, e.g. 672G (byte/s).")
    ] = None,
    by: Annotated[
        str, typer.Option(help="Add launches up by kernel (and launch shape), name, group, launch.")
    ] = "kernel",
    flops: Annotated[
        list[str] | None,
        typer.Option(
            help="FLOP of one launch of kernels whose name has this, NAME=NUMBER, for files "
            "without counters of work; repeatable."
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision", "-p", help="Number format of work whose file does not name one."
        ),
    ] = None,
    roofline: Annotated[
        bool, typer.Option("--roofline", "-r", help="Draw the roofline in the terminal.")
    ] = False,
    top: Annotated[int, typer.Option(help="Kernels listed; 0 lists all.", min=0)] = 15,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="Write a file; the suffix chooses: .html .svg .png .pdf .json .csv; repeatable.",
        ),
    ] = None,
) -> None:
    """Read what a profiler recorded: FLOP/s, intensity per memory level, bound, efficiency."""
    import sys

    from gambrel.analysis.samples import place
    from gambrel.report import terminal_options
    from gambrel.report.samples import check_target, render, write
    from gambrel.traces import read
    from gambrel.traces.devices import chip_of, roofs_for
    from gambrel.traces.given import with_flops, with_precision

    for path in output or []:
        check_target(path)
    chosen = _device(hardware, peak, bandwidth)
    samples = read(files, cc=chip_of(chosen))
    samples = with_flops(samples, dict(map(_assignment, flops or [])))
    samples = with_precision(samples, precision)
    device, notes = roofs_for(samples, chosen)
    standing = place(samples, device, by=by, notes=notes)
    options = terminal_options(sys.stdout, top=top)
    if json_:
        write_text(str(render(standing, "json")))
    else:
        write_text(str(render(standing, "table", options)))
        if roofline:
            write_text(str(render(standing, "roofline", options)))
    for path in output or []:
        print(f"wrote {write(standing, path)}", file=sys.stderr)


def _assignment(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
        if not name or value < 0 or value != value or value > 1e30:
            raise ValueError
    except ValueError:
        raise InputError(f"--flops {text!r}: write NAME=NUMBER, e.g. gemm=17179869184.") from None
    return name, round(value)


def _device(hardware: str | None, peak: str | None, bandwidth: str | None) -> Device | str | None:
    from gambrel.device.lookup import from_peaks
    from gambrel.units import parse_quantity

    if hardware is not None:
        if peak or bandwidth:
            raise InputError("give either --hardware or --peak and --bandwidth, not both.")
        return hardware
    if peak is None and bandwidth is None:
        return None
    if peak is None or bandwidth is None:
        raise InputError("give both --peak and --bandwidth, e.g. --peak 32T --bandwidth 672G.")
    return from_peaks(parse_quantity(peak, "rate"), parse_quantity(bandwidth, "bandwidth"))
