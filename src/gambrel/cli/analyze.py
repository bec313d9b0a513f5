"""``gambrel analyze``: where a model stands under a device's roofline."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gambrel.cli.choices import Runtime
from gambrel.cli.memory import MemoryView
from gambrel.cli.output import check_outputs, emit, print_json
from gambrel.cli.parse import parse_batches, parse_shape, parse_sizes
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.device.model import Device

EXAMPLES = """Examples:

gambrel analyze resnet50 --hardware a100 --roofline

gambrel analyze resnet50 --hardware a100 --batch 1,8,64 --precision fp16 --html report.html

gambrel analyze llama-3-8b --hardware h100 --phase decode --context 4096 --batch 16

gambrel analyze model.gguf --hardware rtx-4090 --phase decode --context 4096 --pictures cache.svg

gambrel analyze stable-diffusion-xl --hardware h100 --size steps=30 --image 1024

gambrel analyze config.json --hardware h200 --phase decode --precision w4a16,kv=fp8

gambrel analyze my_model.py:build --hardware l4 --input 1x3x224x224

gambrel analyze resnet50 --peak 989T --bandwidth 3.35T --json
"""


def analyze(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A name (gambrel models list), a file (.pt2, .pt, config.json), "
            "file.py:function or package.module:Class.",
            show_default=False,
        ),
    ],
    hardware: Annotated[
        str | None,
        typer.Option("--hardware", "-d", help="A device (gambrel hardware list), or a TOML file."),
    ] = None,
    batch: Annotated[
        str | None, typer.Option("--batch", "-b", help="Items at once; a list as 1,8,64.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            "-p",
            help="fp32, tf32, fp16, bf16, fp8, int8 ...; of a language model's config.json part by "
            "part as well: w4a16,kv=fp8.",
        ),
    ] = None,
    seq: Annotated[int | None, typer.Option(help="Tokens of a sequence.")] = None,
    context: Annotated[int | None, typer.Option(help="Cached tokens, for decode.")] = None,
    image: Annotated[int | None, typer.Option(help="Image side in pixels.")] = None,
    phase: Annotated[
        str | None, typer.Option(help="prefill or decode, for language models.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option("--size", help="Any other size, NAME=NUMBER; repeatable.")
    ] = None,
    peak: Annotated[
        str | None, typer.Option(help="Compute roof of a device of your own, e.g. 989T.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Its memory roof, e.g. 3.35T (byte/s).")
    ] = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Use the structured-sparsity peaks.")
    ] = False,
    engine: Annotated[
        str | None, typer.Option(help="Hold matrix work against this engine only, e.g. dla.")
    ] = None,
    causal: Annotated[
        str, typer.Option(help="Causal attention: half counts S(S+1)/2 pairs, full S^2.")
    ] = "half",
    runtime: Runtime = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--input", help="Shape of an example input, e.g. 1x3x224x224; repeatable."),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Include backward and optimizer (models as code).")
    ] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Allow the file to run code. Only for files you trust.")
    ] = False,
    roofline: Annotated[
        bool, typer.Option("--roofline", "-r", help="Draw the roofline in the terminal.")
    ] = False,
    levels: Annotated[
        bool,
        typer.Option("--levels", help="Show the traffic of each memory level; charts as well."),
    ] = False,
    warm: Annotated[
        bool, typer.Option("--warm", help="For --levels: caches hold what an earlier run left.")
    ] = False,
    memory: Annotated[
        bool,
        typer.Option("--memory", help="Draw the memory over the run, and what its peak holds."),
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="With --train: memory when activations are computed again in backward; 'auto', or "
            "module paths of the blocks, e.g. 'encoder.layer.*'."
        ),
    ] = None,
    memory_plot: Annotated[
        Path | None,
        typer.Option(help="Write the memory plot: .svg .png .pdf .html.", dir_okay=False),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            help="Language models: write intensity over batch and context, time by layer type and "
            "cache against capacity: .svg .png .pdf.",
            dir_okay=False,
        ),
    ] = None,
    recommend: Annotated[
        bool,
        typer.Option(
            "--recommend", help="List changes with their predicted gain; in files and JSON as well."
        ),
    ] = False,
    top: Annotated[int, typer.Option(help="Rows of the op table; 0 shows all.", min=0)] = 10,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write an interactive page.", dir_okay=False)
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="Write a file; the suffix chooses: .html .svg .png .pdf .json .csv .md; "
            "repeatable.",
        ),
    ] = None,
) -> None:
    """Analyze a model on a device: work, traffic, bounds and what limits, per op and in total."""
    from gambrel.api.analyze import Question, answer

    question = Question(
        model=model,
        hardware=_device(hardware, peak, bandwidth),
        batches=parse_batches(batch) if batch is not None else (None,),
        precision=precision,
        sizes={"seq": seq, "context": context, "image": image, **parse_sizes(size or [])},
        input_shapes=tuple(parse_shape(text) for text in shape or []),
        phase=phase,
        train=train,
        sparsity=sparse,
        engine=engine,
        causal=causal,
        trust=trust,
        runtime=runtime,
        warm=warm,
    )
    memory_view = MemoryView(shown=memory, checkpoint=checkpoint, path=memory_plot)
    memory_view.check(len(question.batches))
    if pictures is not None:
        _check_pictures(pictures, len(question.batches))
    files = [*([html] if html else []), *(output or [])]
    check_outputs(files, len(question.batches), page=html)
    with redirect_stdout(sys.stderr):  # what a user's own model prints is not part of the report
        analyses = answer(question)
    if json_:
        print_json(analyses, files, levels=levels, recommend=recommend)
    else:
        emit(analyses, files, top=top, roofline=roofline, recommend=recommend, levels=levels)
    memory_view.show(analyses, quiet=json_)
    if pictures is not None:
        from gambrel.report.llm_files import write_pictures

        print(f"wrote {write_pictures(analyses[0], pictures)}", file=sys.stderr)


def _check_pictures(path: Path, count: int) -> None:
    from gambrel.report.llm_files import check_pictures_path

    check_pictures_path(path)
    if count > 1:
        raise InputError(f"{path}: the pictures show one analysis, not {count}.")


def _device(hardware: str | None, peak: str | None, bandwidth: str | None) -> str | Device:
    from gambrel.device.lookup import from_peaks
    from gambrel.units import parse_quantity

    if hardware is not None:
        if peak is not None or bandwidth is not None:
            raise InputError("give either --hardware or --peak and --bandwidth, not both.")
        return hardware
    if peak is None or bandwidth is None:
        raise InputError(
            "which device? Give --hardware NAME (see 'gambrel hardware list'), "
            "or --peak 989T --bandwidth 3.35T."
        )
    return from_peaks(parse_quantity(peak, "rate"), parse_quantity(bandwidth, "bandwidth"))
