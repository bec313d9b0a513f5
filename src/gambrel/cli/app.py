"""The tree of commands."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, Final

import typer

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


#: Command → module of this package; a module with an ``app`` is a group of commands.
COMMANDS: Final[dict[str, str]] = {
    "analyze": "analyze",
    "check": "check",
    "compare": "compare",
    "select": "select",
    "serve-plan": "serve_plan",
    "kv-cache": "kv_cache",
    "train-plan": "train_plan",
    "what-if": "what_if",
    "ask": "ask",
    "chat": "chat",
    "import": "import_",
    "collect": "collect",
    "calibrate": "calibrate",
    "peaks": "peaks",
    "profile": "profile",
    "compare-runs": "compare_runs",
    "hardware": "hardware",
    "models": "models",
    "mcp": "mcp",
}


def build(wanted: str = "") -> Any:
    """The command tree, ready to be called with arguments.

    Args:
        wanted: The command that will be called; then only its module is imported. Anything else
            builds the whole tree, as help and messages about unknown commands need it.
    """
    app = typer.Typer(
        help=_HELP,
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    _register(app, [wanted] if wanted in COMMANDS else COMMANDS)
    return typer.main.get_command(app)


def _register(app: typer.Typer, names: Iterable[str]) -> None:
    for name in names:
        module = import_module(f"gambrel.cli.{COMMANDS[name]}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name, epilog=module.EXAMPLES)(getattr(module, COMMANDS[name]))


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
