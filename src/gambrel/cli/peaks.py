"""``gambrel peaks``: the ceilings of this machine."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gambrel.analysis.question import PRINT
from gambrel.cli.command import SHOWN, command, flag, number, option, path
from gambrel.cli.output import Shown, progress, wrote
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.measure.records import HardwarePeaks

_HOW = "How to measure"


@command(
    "peaks",
    option("--device", help="cpu, cuda or cuda:N.", default="cpu", section=_HOW),
    number("--steps", help="Repetitions of each measurement.", default=20, least=1, section=_HOW),
    number("--warmup", help="Repetitions thrown away before.", default=5, section=_HOW),
    flag("--quick", help="Few short rounds: rougher, in seconds.", section=_HOW),
    flag("--refresh", help="Measure again even if there is a stored result.", section=_HOW),
    option(
        *("--precision", "-p"),
        help="Format of the compute roof shown first.",
        default="fp32",
        section=PRINT,
    ),
    option("--compare", help="Set the figures beside those of this device.", section=PRINT),
    path("--save", help="Write a device file (.toml)."),
    *SHOWN,
    examples="""
  gambrel peaks --device cpu
  gambrel peaks --quick --compare epyc-9755
  gambrel peaks --html peaks.html
  gambrel peaks --device cuda --save lab.toml
  gambrel analyze resnet50 --hardware this
""",
)
def peaks(
    device: str,
    steps: int,
    warmup: int,
    quick: bool,
    refresh: bool,
    precision: str,
    compare: str | None,
    save: Path | None,
    **shown: Any,
) -> None:
    """Measure the ceilings of this machine: FLOP/s per precision, bytes/s per memory level."""
    from gambrel.device.resolve import resolve_hardware
    from gambrel.measure.peaks import measure_peaks
    from gambrel.measure.peaks import quick as quickly
    from gambrel.report.answers import Peaks

    asked = Shown.of(**shown).check(Peaks)
    _check([*asked.files, *([save] if save else [])], save)
    other = resolve_hardware(compare)[0] if compare else None
    drawn = not asked.as_json and sys.stderr.isatty()
    effort = quickly(device) if quick else {"steps": steps, "warmup": warmup}
    found = measure_peaks(
        device,
        steps=effort["steps"],
        warmup=effort["warmup"],
        rounds=effort.get("rounds"),
        dtype=precision,
        refresh=refresh,
        progress=progress if drawn else None,
    )
    if drawn:
        print("\r\033[K", end="", file=sys.stderr)
    if save is not None:
        _save(found, save)
    asked.emit(Peaks(peaks=found, other=other, precision=precision))


def _check(targets: list[Path], save: Path | None) -> None:
    """Finds out before the measurement whether its results can be written."""
    from gambrel.report import check_target

    if save is not None and save.suffix != ".toml":
        raise InputError(f"{save}: a device file ends in .toml.")
    for target in targets:
        check_target(target)
        if target.exists() and not target.is_file():
            continue  # a device or a pipe
        try:
            with tempfile.NamedTemporaryFile(dir=target.resolve().parent, prefix=".gambrel-"):
                pass
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror or error}.") from None


def _save(found: HardwarePeaks, target: Path) -> None:
    import msgspec

    from gambrel.measure.convert import to_toml
    from gambrel.report.files import replace_file

    device = msgspec.structs.replace(found.to_device(), id=target.stem, aliases=())
    replace_file(target, to_toml(device).encode())
    wrote(target)
