"""Options that several commands share, and the question that they make up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gambrel.cli.parse import parse_sizes
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.report.plot_advice import Draw

MODEL_HELP = "A name (gambrel models list), a file, file.py:function or package.module:Class."

Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP, show_default=False)]
Hardware = Annotated[
    str, typer.Option("--hardware", "-d", help="A device (gambrel hardware list), or a TOML file.")
]
Batch = Annotated[int | None, typer.Option("--batch", "-b", help="Items at once.", min=1)]
Precision = Annotated[
    str | None, typer.Option("--precision", "-p", help="fp32, tf32, fp16, bf16, fp8, int8 ...")
]
Seq = Annotated[int | None, typer.Option(help="Tokens of a sequence.")]
Context = Annotated[int | None, typer.Option(help="Cached tokens, for decode.")]
Image = Annotated[int | None, typer.Option(help="Image side in pixels.")]
Phase = Annotated[str | None, typer.Option(help="prefill or decode, for language models.")]
Size = Annotated[
    list[str] | None, typer.Option("--size", help="Any other size, NAME=NUMBER; repeatable.")
]
Runtime = Annotated[
    str | None, typer.Option(help="How it is executed: pytorch, tensorrt, vllm ...")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Allow the file to run code. Only for files you trust.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

Price = Annotated[
    list[str] | None,
    typer.Option("--price", help="What a device costs, DEVICE=NUMBER; repeatable."),
]

Html = Annotated[Path | None, typer.Option(help="Write an interactive chart.", dir_okay=False)]

Output = Annotated[
    list[Path] | None,
    typer.Option(
        "--output", "-o", help="Write a chart: .html .svg .png .pdf; repeatable.", dir_okay=False
    ),
]

Latency = Annotated[
    str | None, typer.Option(help="At most, for the whole batch, e.g. 33ms.", show_default=False)
]
Throughput = Annotated[str | None, typer.Option(help="At least, items a second, e.g. 30fps.")]
Power = Annotated[str | None, typer.Option(help="At most, e.g. 15W.")]
Energy = Annotated[str | None, typer.Option(help="At most, per item, e.g. 500mJ.")]
Memory = Annotated[str | None, typer.Option(help="At most, e.g. 4096MB or 4GiB.")]


def sizes_of(
    seq: int | None, context: int | None, image: int | None, size: Sequence[str] | None
) -> dict[str, int | None]:
    """The sizes that were given, by symbol."""
    return {"seq": seq, "context": context, "image": image, **parse_sizes(list(size or []))}


def names_of(text: str) -> tuple[str, ...]:
    """``"a, b"`` → ("a", "b"); empty parts are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def devices_of(text: str) -> tuple[str, ...] | None:
    """``"a100,h100"`` → two names; ``"all"`` is the whole catalog.

    Raises:
        InputError: No name.
    """
    if text.strip().lower() == "all":
        return None
    names = names_of(text)
    if not names:
        raise InputError("--hardware: name at least one device, e.g. --hardware a100,h100.")
    return names


def prices_of(texts: Sequence[str] | None) -> dict[str, str]:
    """``["l4=2500"]`` → {"l4": "2500"}.

    Raises:
        InputError: Not DEVICE=NUMBER.
    """
    prices = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--price {text!r}: write DEVICE=NUMBER, e.g. --price l4=2500.")
        prices[name.strip()] = value.strip()
    return prices


def charts_of(html: Path | None, output: Sequence[Path] | None) -> list[Path]:
    """The charts that were asked for; refuses, before any work, what could not be written."""
    from gambrel.report.plot_advice import check_chart

    paths = [*([html] if html else []), *(output or [])]
    if html is not None and html.suffix.lower() not in {".html", ".htm"}:
        raise InputError(f"--html {html}: name a .html file, or use --output.")
    for path in paths:
        check_chart(path)
    return paths


def write_charts(paths: Sequence[Path], draw: Draw) -> None:
    """Writes each chart, complete or not at all, and says so on stderr."""
    from gambrel.report.plot_advice import write_chart

    for path in paths:
        write_chart(path, draw)
        print(f"wrote {path}", file=sys.stderr)


def check_page(path: Path | None) -> None:
    """Refuses, before any work, a page that could not be written."""
    from gambrel.report.registry import check_target

    if path is not None:
        check_target(path)


def write_page(path: Path, text: str) -> None:
    """Writes a page, complete or not at all, and says so on stderr."""
    from gambrel.report.registry import replace_file

    replace_file(path, text.encode())
    print(f"wrote {path}", file=sys.stderr)
