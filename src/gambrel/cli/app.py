"""The tree of commands."""

from __future__ import annotations

from typing import Any, Final

import click

from gambrel.cli.command import LazyGroup

_HELP: Final = """Roofline analysis of machine-learning models.

How fast a model could run on a device, how fast it is expected to run, which resource limits it,
and what to change; per op and in total.
"""

_EPILOG: Final = "Start with: gambrel analyze resnet50 --hardware a100 --roofline"

#: Command → where it is.
COMMANDS: Final[dict[str, str]] = {
    "analyze": "analyze:analyze",
    "check": "advise:check",
    "compare": "advise:compare",
    "select": "advise:select",
    "what-if": "advise:what_if",
    "judge": "judge:judge",
    "explore": "explore:explore",
    "sweep": "sweep:sweep",
    "design": "design:design",
    "gate": "gate:gate",
    "diagnose": "diagnose:diagnose",
    "export": "export:export",
    "serve-plan": "plans:serve_plan",
    "serve-sim": "plans:serve_sim",
    "serve-split": "plans:serve_split",
    "train-plan": "plans:train_plan",
    "kv-cache": "plans:kv_cache",
    "ask": "talk:ask",
    "chat": "talk:chat",
    "hardware": "catalog:hardware",
    "models": "catalog:models",
    "runtimes": "catalog:runtimes",
    "peaks": "peaks:peaks",
    "fleet": "fleet:fleet",
    "profile": "profile:profile",
    "compare-runs": "compare_runs:compare_runs",
    "import": "import_:import_",
    "collect": "collect:collect",
    "calibrate": "calibrate:calibrate",
    "mcp": "mcp:mcp",
}


def build() -> LazyGroup:
    """The command tree, ready to be called with arguments; commands are imported when called."""
    version = click.Option(
        ["--version"],
        help="Print the version and exit.",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
    )
    return LazyGroup("gambrel", _HELP, COMMANDS, _EPILOG, params=[version])


def _print_version(ctx: click.Context, _: click.Parameter, wanted: Any) -> None:
    if wanted:
        from gambrel import __version__
        from gambrel.cli.output import write_text

        write_text(f"gambrel {__version__}")
        ctx.exit(0)
