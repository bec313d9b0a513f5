"""The tree of commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gambrel.cli import (
    analyze,
    calibrate,
    check,
    collect,
    compare,
    hardware,
    import_,
    models,
    peaks,
    profile,
    select,
    what_if,
)
from gambrel.cli.output import write_text

#: What the parser raises for a wrong option or argument, in any version of typer.
USAGE_ERRORS: tuple[Any, ...] = tuple(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)

_HELP = """Roofline analysis of machine-learning models.

How fast a model could run on a device, which resource limits it, and what to change; per op and
in total.
"""

_EPILOG = "Start with: gambrel analyze resnet50 --hardware a100 --roofline"


def build() -> Any:
    """The command tree, ready to be called with arguments."""
    app = typer.Typer(
        help=_HELP,
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    app.command("analyze", epilog=analyze.EXAMPLES)(analyze.analyze)
    app.command("calibrate", epilog=calibrate.EXAMPLES)(calibrate.calibrate)
    app.command("check", epilog=check.EXAMPLES)(check.check)
    app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
    app.command("select", epilog=select.EXAMPLES)(select.select)
    app.command("what-if", epilog=what_if.EXAMPLES)(what_if.what_if)
    app.command("import", epilog=import_.EXAMPLES)(import_.import_)
    app.command("peaks", epilog=peaks.EXAMPLES)(peaks.peaks)
    app.command("profile", epilog=profile.EXAMPLES)(profile.profile)
    app.add_typer(collect.app, name="collect")
    app.add_typer(hardware.app, name="hardware")
    app.add_typer(models.app, name="models")
    return typer.main.get_command(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from gambrel import __version__

        write_text(f"gambrel {__version__}")
        raise typer.Exit(0)


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and leave.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Carries the options of the program itself; the version is printed by its callback."""
