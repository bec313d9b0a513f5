"""``gambrel profile``: where a model's time goes on this machine."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from gambrel.analysis.question import FIELDS, PRINT
from gambrel.cli.command import SHOWN, argument, command, flag, number, option, path, rows
from gambrel.cli.output import Shown, wrote
from gambrel.errors import InputError

_HOW = "How it runs"


@command(
    "profile",
    argument("model", "MODEL"),
    option("--device", help="cpu, cuda or cuda:N.", default="cpu", section=_HOW),
    option(
        *("--hardware", "-d"),
        help="Hold the ops against this device's roofs; by default this machine is measured.",
        section=_HOW,
    ),
    option(
        *("--input", "shapes"),
        help=FIELDS["input_shapes"].help,
        multiple=True,
        metavar="[NAME:]SHAPE[:DTYPE]",
        section=_HOW,
    ),
    number("--steps", help="Steps measured.", default=20, least=1, section=_HOW),
    number("--warmup", help="Steps thrown away before.", default=5, section=_HOW),
    flag("--train", help="Training steps: forward, backward, optimizer.", section=_HOW),
    option(
        *("--optimizer",),
        help="With --train: adamw, adam, sgd, sgd_momentum or none.",
        default="adamw",
        section=_HOW,
    ),
    flag(
        *("--compile", "compiled"),
        help="Run what torch.compile makes of it, by kernel.",
        section=_HOW,
    ),
    rows(10),
    option("--by", help="Rows of the table: op or module.", default="op", section=PRINT),
    flag("--compare", "compared", help="Measured beside expected and roofline times."),
    option(
        *("--roofline/--no-roofline", "-r"),
        help="Draw the ops under the roofs.",
        default=True,
        section=PRINT,
    ),
    option(
        *("--calibrate",),
        help="Fit expected times to this profile and store them under a name.",
        section=PRINT,
    ),
    path("--save", help="Write the profile as JSON, which compare-runs reads."),
    *SHOWN,
    examples="""
  gambrel profile my_model.py:build --device cpu
  gambrel profile my_model.py:build --input 8x3x224x224 --html profile.html
  gambrel profile my_model.py:build --train --by module
  gambrel profile my_model.py:build --compile --compare
  gambrel profile my_model.py:build --hardware lab.toml --json
""",
)
def profile(
    model: str,
    device: str,
    hardware: str | None,
    shapes: tuple[str, ...],
    steps: int,
    warmup: int,
    train: bool,
    optimizer: str,
    compiled: bool,
    by: str,
    compared: bool,
    calibrate: str | None,
    save: Path | None,
    **shown: Any,
) -> None:
    """Profile a model: measured time per op under the roofs, end to end, and what lies between."""
    from gambrel.report import check_target
    from gambrel.report.answers import Profiled

    asked = Shown.of(**shown).check(Profiled)
    if save is not None:
        check_target(save)
    if by not in {"op", "module"}:
        raise InputError(f"--by {by}: give op or module.")
    analyzer, notes = _analyzer(model, shapes, hardware, compiled)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        analyzer.profile(device, warmup=warmup, steps=steps, train=train, optimizer=optimizer)
    if save is not None:
        analyzer.save(save)
        wrote(save)
    if calibrate is not None:
        wrote(analyzer.calibrate(calibrate))
    warned = dict.fromkeys(str(w.message) for w in said if w.category is UserWarning)
    asked.emit(
        Profiled(
            profile=analyzer.record,
            analysis=analyzer.by_row(),
            by=by,
            compared=compared,
            notes=(*notes, *warned),
        )
    )


def _analyzer(
    model: str, shapes: tuple[str, ...], hardware: str | None, compiled: bool
) -> tuple[Any, tuple[str, ...]]:
    from gambrel.capture.files.python_source import load_target
    from gambrel.capture.inputs import need_inputs
    from gambrel.device.resolve import resolve_hardware
    from gambrel.measure.profile.analyzer import RooflineAnalyzer

    if ":" not in model:
        raise InputError(
            f"cannot run {model!r}: a profile needs a model with values; "
            "give file.py:function or package.module:Class."
        )
    roofs, notes = resolve_hardware(hardware) if hardware else (None, ())
    read = FIELDS["input_shapes"].read(shapes, "analyze", "--input") if shapes else ()
    loaded = load_target(model, read, device="cpu")
    if not loaded.args and not loaded.kwargs:
        raise need_inputs(model)
    module = loaded.model
    if compiled:
        import torch

        module = torch.compile(module)
    return RooflineAnalyzer(module, loaded.args, roofs, kwargs=loaded.kwargs), notes
