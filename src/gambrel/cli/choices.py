"""Options that several commands share, and the question that they make up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gambrel.cli.parse import parse_batches, parse_sizes

if TYPE_CHECKING:
    from gambrel.api import Question

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
Stack = Annotated[
    str, typer.Option(help="How ops become kernels: eager, compiled, epilogue or ideal.")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Allow the file to run code. Only for files you trust.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

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


def batches_of(text: str | None) -> tuple[int | None, ...]:
    """``"1,8"`` → (1, 8); nothing means the model's own."""
    return parse_batches(text) if text else (None,)


def names_of(text: str) -> tuple[str, ...]:
    """``"a, b"`` → ("a", "b"); empty parts are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def question_of(
    model: str,
    hardware: str,
    sizes: dict[str, int | None],
    batch: int | None = None,
    precision: str | None = None,
    phase: str | None = None,
    stack: str = "eager",
    trust: bool = False,
) -> Question:
    """The question about one model on one device."""
    from gambrel.api import Question

    return Question(
        model=model,
        hardware=hardware,
        batches=(batch,),
        precision=precision,
        sizes=sizes,
        phase=phase,
        stack=stack,
        trust=trust,
    )
