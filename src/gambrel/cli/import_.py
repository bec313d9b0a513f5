"""``gambrel import``: what a profiler recorded, under the roofs of its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gambrel.analysis.question import PRINT, Question
from gambrel.cli.command import FIGURE, JSON, OUTPUT, VERBOSE, argument, command, flag, option
from gambrel.cli.output import Shown, write_text, wrote
from gambrel.errors import InputError
from gambrel.fileio import check_writable

if TYPE_CHECKING:
    from gambrel.analysis.samples import Standing
    from gambrel.analysis.samples.join import JoinedRun
    from gambrel.analysis.samples.movement import Movement
    from gambrel.device.model import Device

_FILES = "Files of a profiler"


@command(
    "import",
    argument("files", "FILE...", nargs=-1, required=True),
    option(
        "--by",
        help="Add launches up by kernel (and launch shape), name, group, range, launch.",
        default="kernel",
        section=_FILES,
    ),
    option(
        "--flops",
        help="FLOP of one launch of kernels whose name has this, NAME=NUMBER, for files without "
        "counters of work; repeatable.",
        multiple=True,
        section=_FILES,
    ),
    option(
        "--against",
        help="Another run to compare with; repeatable for its ranks.",
        multiple=True,
        section=_FILES,
    ),
    option(
        "--sort",
        help="What comes first: time, headroom, flops or efficiency.",
        default="time",
        section=PRINT,
    ),
    option(
        "--annotate",
        help="Write the PyTorch trace to this file with FLOPs, bytes and share of the speed of "
        "light of each kernel, for Perfetto.",
        section=_FILES,
    ),
    flag("--roofline", "-r", help="Draw the roofline in the terminal."),
    flag("--instructions", help="Draw the instruction roofline."),
    *(JSON, VERBOSE, OUTPUT, FIGURE),
    verb="import",
    words=(),
    examples="""
  gambrel import kernels.csv --hardware a100
  gambrel import rank0.csv rank1.csv --hardware h100 -o report.html
  gambrel import kernels.csv --peak 32T --bandwidth 672G --flops gemm=17179869184 --json
  gambrel import points.csv --hardware a10 --roofline --top 5
  gambrel import trace.json.gz --model resnet50 --batch 32 --hardware a100
  gambrel import new.csv --against old.csv --sort headroom -o movement.html
  gambrel import trace.json.gz --hardware h100 --annotate annotated.json
""",
)
def import_(
    question: Question,
    files: tuple[str, ...],
    by: str,
    flops: tuple[str, ...],
    against: tuple[str, ...],
    sort: str,
    annotate: str | None,
    instructions: bool,
    **shown: Any,
) -> None:
    """Read what a profiler recorded: FLOP/s, intensity per memory level, bound, efficiency."""
    from gambrel.report import render
    from gambrel.report.answers import Recorded
    from gambrel.traces.devices import chip_of

    asked = Shown.of(**shown, top=question.top).check(Recorded)
    chosen = _device(question)
    reading = _Reading(
        chosen=chosen,
        chip=chip_of(chosen),
        flops=dict(map(_assignment, flops)),
        precision=question.precision,
        by=by,
        order=sort,
    )
    target = None if annotate is None else _annotated(files, annotate)
    standing = reading.read([Path(file) for file in files])
    if target is not None:
        _annotate(standing, Path(files[0]), target)
    found = Recorded(
        standing=standing,
        joined=_join(standing, question),
        movement=_movement(standing, reading, [Path(file) for file in against]),
    )
    asked.emit(found)
    if instructions and not asked.as_json:
        write_text(str(render(found, "instructions", asked.options())))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How files become kernels under roofs; the same for both runs of a comparison."""

    chosen: Device | str | None
    chip: str
    flops: dict[str, int]
    precision: str | None
    by: str
    order: str

    def read(self, files: Sequence[Path]) -> Standing:
        from gambrel.analysis.samples import place
        from gambrel.cli.progress import watched
        from gambrel.traces import read
        from gambrel.traces.devices import roofs_for
        from gambrel.traces.user_work import with_flops, with_precision

        with watched(files):
            samples = read(files, chip=self.chip)
        samples = with_precision(with_flops(samples, self.flops), self.precision)
        device, notes = roofs_for(samples, self.chosen)
        return place(samples, device, by=self.by, order=self.order, notes=notes)


def _annotated(files: Sequence[str], target: str) -> Path:
    if len(files) != 1:
        raise InputError("--annotate takes one trace; name one file.")
    check_writable(Path(target))
    return Path(target)


def _annotate(standing: Standing, source: Path, target: Path) -> None:
    """Writes the trace again with what its ops could be."""
    from gambrel.cli.progress import watched
    from gambrel.traces.annotate import annotate
    from gambrel.traces.kineto.reader import FORMAT

    if standing.samples.format != FORMAT:
        raise InputError(
            f"--annotate takes a trace of torch.profiler; {source} is {standing.samples.format}."
        )
    with watched([source]):
        added = annotate(source, target, standing.device)
    rest = f", {added.without:,} kernels without known work" if added.without else ""
    wrote(f"{target}: {added.spans:,} ops or kernels annotated{rest}")


def _join(standing: Standing, question: Question) -> JoinedRun | None:
    if question.model is None:
        return None
    from gambrel.analysis.samples import PROFILED
    from gambrel.analysis.samples.join import join
    from gambrel.api.analyze import answers
    from gambrel.traces.devices import catalog_device

    device = standing.device
    if device is None or device.id == PROFILED:
        device = catalog_device(standing.samples) or device
    if device is None:
        raise InputError("--model needs a device: give --hardware, or --peak and --bandwidth.")
    asked = replace(question, hardware=device, peak=None, bandwidth=None)
    return join(standing, answers(asked)[0])


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


def _device(question: Question) -> Device | str | None:
    """The device whose roofs are to be used; None for the files' own."""
    from gambrel.device.resolve import asked_device

    q = question
    if q.peak is None and q.bandwidth is None:
        return q.hardware  # type: ignore[no-any-return]  # a name
    return asked_device(q.hardware, q.peak, q.bandwidth)[0]
