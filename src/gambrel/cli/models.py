"""``gambrel models``: the models that are built in."""

from __future__ import annotations

from typing import Annotated

import typer

from gambrel.cli.output import json_text, write_text

app = typer.Typer(
    help="The models that are built in.",
    epilog="Example: gambrel models list llama",
    no_args_is_help=True,
)


@app.command("list", epilog="Example: gambrel models list llama")
def list_(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Only models whose name has this.")
    ] = None,
    family: Annotated[str | None, typer.Option(help="Only this family.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the built-in models: parameters, FLOPs at default sizes, sizes that may be chosen."""
    from gambrel.capture.zoo import search

    rows = search(text, family)
    if json_:
        write_text(json_text(rows))
        return
    import sys

    from gambrel.report import terminal_options
    from gambrel.report.models import render_list

    write_text(render_list(rows, terminal_options(sys.stdout)))
    if family is None:
        _print_language_models(text)


def _print_language_models(text: str | None) -> None:
    """The models whose workload is built from their published configuration."""
    from gambrel.llm.known import names

    found = [name for name in names() if text is None or text.lower() in name]
    if found:
        write_text(
            "\nFrom their published configuration, in any phase (--phase prefill or decode): "
            + ", ".join(found)
            + "."
        )
