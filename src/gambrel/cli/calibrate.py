"""``gambrel calibrate``: constants of the expected time from a user's own measurements."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gambrel.cli.command import SHOWN, argument, command, flag, option
from gambrel.cli.output import Shown, progress
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.report.answers import Calibrated

_WHAT = "What is measured"


@command(
    "calibrate",
    argument("file", "[FILE]", required=False),
    flag("--measure", help="Time the kernels of this machine's processor.", section=_WHAT),
    option(
        *("--precision", "-p"),
        help="With --measure: number formats.",
        default="fp32,bf16",
        section=_WHAT,
    ),
    option(
        *("--device", "-d", "--hardware"),
        help="The device; by default the one that the file names.",
        section=_WHAT,
    ),
    option(
        "--runtime",
        help="What ran the models of the file; by default what people use on the device.",
        section=_WHAT,
    ),
    option(
        "--name",
        help="Name to store under; replaces one of that name.",
        default="own",
        section=_WHAT,
    ),
    *SHOWN,
    examples="""
  gambrel calibrate measurements.csv --device h100
  gambrel calibrate measurements.csv --device my-board.toml --name lab
  gambrel calibrate models.csv --device snapdragon-8-elite
  gambrel calibrate models.csv --device l4 --runtime tensorrt
  gambrel calibrate --measure
  gambrel analyze resnet50 --hardware this --precision fp32

A file of kernels has the columns device, op (matmul or copy), dtype, m, n, k, bytes, and us, ms or
s. A file of whole models has model, ms (or us, s), and optionally batch, precision, device,
runtime, and for language models phase, seq and context. Rows of another device or runtime are left
out. Four small models are enough for any device: resnet50,
mnasnet-0.5, convnext-tiny, real-esrgan-general.
""",
)
def calibrate(
    file: str | None,
    measure: bool,
    precision: str,
    device: str | None,
    runtime: str | None,
    name: str,
    **shown: Any,
) -> None:
    """Fit expected times to measured kernels or models of a device, and use them from now on."""
    from gambrel.report.answers import Calibrated

    asked = Shown.of(**shown).check(Calibrated)
    if (file is None) is not measure:
        raise InputError("give a FILE of measured kernels, or --measure for this machine.")
    if file is None:
        asked.emit(_measured(device, name, precision, quiet=asked.as_json))
    else:
        asked.emit(_fitted(Path(file), device, name, runtime))


def _fitted(file: Path, device: str | None, name: str, runtime: str | None) -> Calibrated:
    from gambrel.analysis.estimate.user_models import holds_models
    from gambrel.api.analyze import calibrate as calibrate_device
    from gambrel.report.answers import Calibrated, CalibratedClass

    if holds_models(file):
        return _models(file, device, name, runtime)
    if runtime is not None:
        raise InputError("--runtime is for a file of whole models; this one has kernels.")
    sets, path = calibrate_device(file, device, name)
    classes = tuple(
        CalibratedClass(
            name=f"{s.device} {s.form} {s.formats[0]}",
            points=s.points,
            low_ratio=s.low[0],
            high_ratio=s.high[0],
            confidence=s.confidence,
        )
        for s in sets
    )
    return Calibrated(stored=str(path), classes=classes)


def _models(file: Path, device: str | None, name: str, runtime: str | None) -> Calibrated:
    from gambrel.api.calibration import calibrate_models
    from gambrel.report.answers import Calibrated, CalibratedClass

    found, path, warnings = calibrate_models(file, device, name, runtime)
    held = found.held_out
    one = CalibratedClass(
        name=f"{found.device}, {found.runtime}, {found.models} models",
        points=found.rows,
        low_ratio=found.low,
        high_ratio=found.high,
        confidence=found.confidence,
    )
    note = "One model says nothing of its error on others; four small ones would."
    if held is not None:
        note = f"Each model predicted from the others: {held.mape:.0%} mean error."
    return Calibrated(stored=str(path), classes=(one,), warnings=warnings, notes=(note,))


def _measured(device: str | None, name: str, precision: str, *, quiet: bool) -> Calibrated:
    from gambrel.device.resolve import resolve_hardware
    from gambrel.measure.calibrate import calibrate_machine
    from gambrel.report.answers import Calibrated, CalibratedClass

    here = resolve_hardware(device)[0] if device else None
    shown = not quiet and sys.stderr.isatty()
    formats = tuple(filter(None, (p.strip() for p in precision.split(","))))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted, path = calibrate_machine(
            "this" if name == "own" else name,
            formats,
            device=here,
            progress=progress if shown else None,
        )
    if shown:
        print("\r\033[K", end="", file=sys.stderr)
    return Calibrated(
        stored=str(path),
        classes=tuple(
            CalibratedClass(name=k.key, points=k.points, low_ratio=k.low, high_ratio=k.high)
            for k in fitted
        ),
        warnings=tuple(dict.fromkeys(str(w.message) for w in said if w.category is UserWarning)),
    )
