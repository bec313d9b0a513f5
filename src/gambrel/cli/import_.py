"""``gambrel import``: what a profiler recorded, under the roofs of its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gambrel.cli.choices import MODEL_HELP, Batch, Context, Image, Phase, Seq
from gambrel.cli.output import write_text
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.analysis.samples import Standing
    from gambrel.analysis.samples.join import Joined
    from gambrel.analysis.samples.movement import Movement
    from gambrel.device.model import Device

EXAMPLES = """Examples:

gambrel import kernels.csv --hardware a100

gambrel import rank0.csv rank1.csv --hardware h100 -o report.html

gambrel import kernels.csv --peak 32T --bandwidth 672G --flops gemm=17179869184 --json

gambrel import points.csv --hardware a10 --roofline --top 5

gambrel import trace.json.gz --model resnet50 --batch 32 --hardware a100

gambrel import new.csv --against old.csv --sort headroom -o movement.html
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
        str,
        typer.Option(
            help="Add launches up by kernel (and launch shape), name, group, range, launch."
        ),
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
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help=f"Hold the kernels against the ops of this model. {MODEL_HELP}"
        ),
    ] = None,
    batch: Batch = None,
    seq: Seq = None,
    context: Context = None,
    image: Image = None,
    phase: Phase = None,
    train: Annotated[bool, typer.Option("--train", help="With backward and optimizer.")] = False,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Another run to compare with; repeatable for its ranks."),
    ] = None,
    sort: Annotated[
        str, typer.Option(help="What comes first: time, headroom, flops or efficiency.")
    ] = "time",
    roofline: Annotated[
        bool, typer.Option("--roofline", "-r", help="Draw the roofline in the terminal.")
    ] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Draw the instruction roofline.")
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

    from gambrel.report import terminal_options
    from gambrel.report.samples import check_target, render, write
    from gambrel.traces.devices import chip_of

    for path in output or []:
        check_target(path)
    chosen = _device(hardware, peak, bandwidth)
    reading = _Reading(
        chosen=chosen,
        cc=chip_of(chosen),
        flops=dict(map(_assignment, flops or [])),
        precision=precision,
        by=by,
        order=sort,
    )
    standing = reading.read(files)
    sizes = {"batch_size": batch, "seq": seq, "context": context, "image": image, "phase": phase}
    more: dict[str, Any] = {
        "joined": _join(standing, model, precision, train=train, **sizes),
        "movement": _movement(standing, reading, against),
    }
    options = terminal_options(sys.stdout, top=top)
    if json_:
        write_text(str(render(standing, "json", **more)))
    else:
        write_text(str(render(standing, "table", options, **more)))
        for name, wanted in (("roofline", roofline), ("instructions", instructions)):
            if wanted:
                write_text(str(render(standing, name, options)))
    for path in output or []:
        print(f"wrote {write(standing, path, **more)}", file=sys.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How files become kernels under roofs; the same for both runs of a comparison."""

    chosen: Device | str | None
    cc: str
    flops: dict[str, int]
    precision: str | None
    by: str
    order: str

    def read(self, files: Sequence[Path]) -> Standing:
        from gambrel.analysis.samples import place
        from gambrel.cli.progress import watched
        from gambrel.traces import read
        from gambrel.traces.devices import roofs_for
        from gambrel.traces.given import with_flops, with_precision

        with watched(files):
            samples = read(files, cc=self.cc)
        samples = with_precision(with_flops(samples, self.flops), self.precision)
        device, notes = roofs_for(samples, self.chosen)
        return place(samples, device, by=self.by, order=self.order, notes=notes)


def _join(
    standing: Standing, model: str | None, precision: str | None, **question: Any
) -> Joined | None:
    if model is None:
        return None
    from gambrel.analysis.samples import PROFILED
    from gambrel.analysis.samples.join import join
    from gambrel.api.analyze import analyze
    from gambrel.traces.devices import catalog_device

    device = standing.device
    if device is None or device.id == PROFILED:
        device = catalog_device(standing.samples) or device
    if device is None:
        raise InputError("--model needs a device: give --hardware, or --peak and --bandwidth.")
    return join(standing, analyze(model, device, precision=precision, **question))


def _movement(
    standing: Standing, reading: _Reading, against: Sequence[Path] | None
) -> Movement | None:
    if not against:
        return None
    from gambrel.analysis.samples.movement import compare

    return compare(reading.read(against), standing)


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
