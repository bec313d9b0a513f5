"""``gambrel kv-cache``: the key/value cache of a language model, and what fits."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gambrel.cli import choices
from gambrel.cli.output import json_text, leave, write_text

EXAMPLES = """Examples:

gambrel kv-cache llama-3.1-8b --hardware h100 --batch 64 --context 8k

gambrel kv-cache config.json --context 128k --precision bf16,kv=fp8 --windowed window

gambrel kv-cache model-q4_k_m.gguf --hardware rtx-4090 --context 32k --json

Exit status with --hardware: 1 where it does not fit, 3 where that is unknown.
"""


def kv_cache(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A config.json, its folder, a .gguf or a name.",
            show_default=False,
        ),
    ],
    context: Annotated[str, typer.Option(help="Tokens of a sequence; 8k is 8,192.")] = "8k",
    batch: Annotated[int, typer.Option("--batch", "-b", help="Sequences at once.", min=1)] = 1,
    hardware: Annotated[
        str | None,
        typer.Option("--hardware", "-d", help="A device: says what fits beside weights."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", "-p", help="For example fp8, or bf16,kv=fp8.")
    ] = None,
    page: Annotated[int, typer.Option(help="Tokens of a page of the cache.")] = 16,
    windowed: Annotated[
        str, typer.Option(help="Pages of windowed layers: full, or window.")
    ] = "full",
    utilization: Annotated[float, typer.Option(help="Share of memory the engine may use.")] = 0.9,
    json_: choices.Json = False,
) -> None:
    """Count the key/value cache: needed and reserved bytes, largest batch and context."""
    from gambrel.api.plans import kv_cache as count_cache

    found = count_cache(
        model,
        context=context,
        batch=batch,
        hardware=hardware,
        precision=precision,
        page=page,
        windowed=windowed,
        utilization=utilization,
    )
    if json_:
        from gambrel.report.kv_cache import to_data

        write_text(json_text(to_data(found)))
    else:
        from gambrel.report import terminal_options
        from gambrel.report.kv_cache import render

        write_text(render(found, terminal_options(sys.stdout)))
    if hardware is not None:
        leave(found.fits)
