"""``gambrel profile``: where a model's time goes on this machine."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from gambrel.cli.output import write_text
from gambrel.cli.parse import parse_shape
from gambrel.errors import InputError

EXAMPLES = (
    "Examples: gambrel profile my_model.py:build --device cpu\n\n"
    "gambrel profile my_model.py:build --input 8x3x224x224 --html profile.html\n\n"
    "gambrel profile my_model.py:build --train --by module\n\n"
    "gambrel profile my_model.py:build --compile --compare\n\n"
    "gambrel profile my_model.py:build --hardware lab.toml --json"
)


def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="file.py:function or package.module:Class, as for analyze.",
            show_default=False,
        ),
    ],
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            "-d",
            help="Hold the ops against this device's roofs; by default this machine is measured.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--input", help="Shape of an example input, e.g. 1x3x224x224; repeatable."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps measured.", min=1)] = 20,
    warmup: Annotated[int, typer.Option(help="Steps thrown away before.", min=0)] = 5,
    top: Annotated[int, typer.Option(help="Rows of the table; 0 shows all.", min=0)] = 10,
    train: Annotated[
        bool, typer.Option("--train", help="Training steps: forward, backward, optimizer.")
    ] = False,
    optimizer: Annotated[
        str, typer.Option(help="With --train: adamw, adam, sgd, sgd_momentum or none.")
    ] = "adamw",
    compile_: Annotated[
        bool, typer.Option("--compile", help="Run what torch.compile makes of it, by kernel.")
    ] = False,
    by: Annotated[str, typer.Option(help="Rows of the table: op or module.")] = "op",
    compare: Annotated[
        bool, typer.Option("--compare", help="Measured beside expected and bound times.")
    ] = False,
    roofline: Annotated[
        bool, typer.Option("--roofline/--no-roofline", "-r", help="Draw the ops under the roofs.")
    ] = True,
    calibrate: Annotated[
        str | None,
        typer.Option(help="Fit expected times to this profile and store them under a name."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page: chart, modules, ops.", dir_okay=False)
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the profile as JSON.", dir_okay=False)
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Profile a model: measured time per op under the roofs, end to end, and what lies between."""
    for path in filter(None, (html, save)):
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}.")
    if by not in {"op", "module"}:
        raise InputError(f"--by {by}: give op or module.")
    analyzer, notes = _analyzer(model, shape or [], hardware, compile_)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        analyzer.profile(device, warmup=warmup, steps=steps, train=train, optimizer=optimizer)
    _keep(analyzer, html, save, calibrate)
    if json_:
        write_text(analyzer.to_json())
        return
    from gambrel.measure.profile import text
    from gambrel.measure.profile.record import Comparison
    from gambrel.report import terminal_options

    options = terminal_options(sys.stdout)
    found, whole = analyzer.results, analyzer.totals

    if by == "module":
        write_text(text.by_module(analyzer.modules, found, whole, top, options))
    else:
        write_text(text.summary(found, whole, top, options))
    if roofline and found:
        write_text("\n" + analyzer.roofline(options))
    if compare:
        compared = Comparison(points=tuple(found), totals=whole)
        write_text("\n" + text.comparison(compared, top, options))
    warned = dict.fromkeys(str(w.message) for w in said if w.category is UserWarning)
    if notes or warned:
        write_text(text.paragraphs([("note:", note) for note in (*notes, *warned)], options))


def _keep(analyzer: Any, html: Path | None, save: Path | None, calibrate: str | None) -> None:
    if html is not None:
        _write(html, analyzer.to_html())
    if save is not None:
        analyzer.save(save)
        print(f"wrote {save}", file=sys.stderr)
    if calibrate is not None:
        print(f"wrote {analyzer.calibrate(calibrate)}", file=sys.stderr)


def _analyzer(
    model: str, shapes: list[str], hardware: str | None, compiled: bool
) -> tuple[Any, tuple[str, ...]]:
    from gambrel.capture.files.python_source import load_target
    from gambrel.device.resolve import resolve_hardware
    from gambrel.measure.profile.analyzer import RooflineAnalyzer

    if ":" not in model:
        raise InputError(
            f"cannot run {model!r}: a profile needs a model with values; "
            "give file.py:function or package.module:Class."
        )
    roofs, notes = resolve_hardware(hardware) if hardware else (None, ())
    loaded = load_target(model, input_shapes=tuple(parse_shape(text) for text in shapes))
    module = loaded.model
    if compiled:
        import torch

        module = torch.compile(module)
    return RooflineAnalyzer(module, loaded.args, roofs, kwargs=loaded.kwargs), notes


def _write(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
    print(f"wrote {path}", file=sys.stderr)
