"""``gambrel serve-plan``: devices, layout and batch for a language model under a promise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gambrel.cli import choices
from gambrel.cli.output import json_text, leave, write_text
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.llm.serving.records import Plan
    from gambrel.llm.sharding import Sharding

EXAMPLES = """Examples:

gambrel serve-plan config.json --hardware h200 --max-devices 8 --input 8k --output 1k --tpot 30ms
--ttft 1s --price 3.5/h

gambrel serve-plan llama-3.1-70b --hardware h100,h200,b200 --max-devices 64 --input 1k --output 1k
--precision fp8 --tpot 20ms

gambrel serve-plan deepseek-v3 -d h200 --input 4k --output 1k --tensor 8 --expert 8
--attention-data 8 --concurrency 256 --decode step.html

gambrel serve-plan llama-3.1-70b -d h100 --input 2k --output 500 --rate 20/s --speculate 3
--acceptance 0.7 --draft llama-3.1-8b

Exit status: 1 where nothing keeps the promise.
"""


def serve_plan(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A config.json, its folder, a .gguf (with --precision) or a name.",
            show_default=False,
        ),
    ],
    input_: Annotated[str, typer.Option("--input", help="Tokens of a prompt; 8k is 8,192.")],
    output: Annotated[str, typer.Option("--output", help="Tokens of an answer.")],
    hardware: Annotated[
        str, typer.Option("--hardware", "-d", help="Devices to compare, a list as h100,h200.")
    ],
    max_devices: Annotated[int, typer.Option(help="All replicas together.", min=1)] = 8,
    ttft: Annotated[str | None, typer.Option(help="Time to first token, at most.")] = None,
    tpot: Annotated[
        str | None, typer.Option(help="Time per output token after the first, at most.")
    ] = None,
    precision: Annotated[
        list[str] | None,
        typer.Option("--precision", "-p", help="fp8, w4a16, bf16,kv=fp8 ...; repeatable."),
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Requests in flight.", min=1)] = None,
    rate: Annotated[str | None, typer.Option(help="Requests a second, e.g. 20/s.")] = None,
    cached: Annotated[str, typer.Option(help="Tokens of a prompt in a prefix cache.")] = "0",
    price: Annotated[
        list[str] | None,
        typer.Option("--price", help="Of a device-hour: 3.5/h, or DEVICE=3.5/h; repeatable."),
    ] = None,
    tensor: Annotated[int | None, typer.Option(help="Devices that share each layer.")] = None,
    pipeline: Annotated[int | None, typer.Option(help="Stages of layers.")] = None,
    expert: Annotated[int | None, typer.Option(help="Groups that divide the experts.")] = None,
    context: Annotated[int | None, typer.Option(help="Devices that share a sequence.")] = None,
    attention_data: Annotated[
        int | None, typer.Option(help="Groups with attention of their own sequences.")
    ] = None,
    topology: Annotated[
        str | None, typer.Option(help="A node TOML, or dgx-h100, hgx, nvl72 ...")
    ] = None,
    runtime: Annotated[str | None, typer.Option(help="vllm, sglang, tensorrt-llm ...")] = None,
    utilization: Annotated[float, typer.Option(help="Share of memory the engine may use.")] = 0.9,
    page: Annotated[int, typer.Option(help="Tokens of a page of the cache.")] = 16,
    step_tokens: Annotated[int, typer.Option(help="Most prompt tokens a step.")] = 8192,
    overlap: Annotated[
        float, typer.Option(help="Share of communication hidden behind computation.")
    ] = 0.0,
    host: Annotated[str, typer.Option(help="Time of the host in each step, e.g. 500us.")] = "0",
    speculate: Annotated[int, typer.Option(help="Tokens drafted in a step.", min=0)] = 0,
    acceptance: Annotated[
        float | None, typer.Option(help="Probability that a drafted token is kept.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="Model that drafts; else its own.")] = None,
    routing_skew: Annotated[
        float, typer.Option(help="Zipf exponent of tokens over experts; 0 is uniform.")
    ] = 0.0,
    top: Annotated[int, typer.Option(help="Layouts shown.", min=1)] = 5,
    json_: choices.Json = False,
    html: choices.Html = None,
    decode: Annotated[
        Path | None,
        typer.Option(
            metavar="<file>",
            help="Write the best layout's decode step on one device, op by op, with its roofline: "
            ".html .svg .json .csv .md.",
        ),
    ] = None,
    prefill: Annotated[
        Path | None, typer.Option(metavar="<file>", help="The same of the step of a prompt.")
    ] = None,
) -> None:
    """Plan the serving of a language model: what fits, how fast, which layout, at what cost."""
    from gambrel.api.plans import serve_plan as plan_serving

    choices.check_page(html)
    degrees = {
        "tensor": tensor,
        "pipeline": pipeline,
        "expert": expert,
        "context": context,
        "attention_data": attention_data,
    }
    found = plan_serving(
        model,
        choices.devices_of(hardware) or _refuse_all(),
        input=input_,
        output=output,
        max_devices=max_devices,
        ttft=ttft,
        tpot=tpot,
        precision=precision or None,
        concurrency=concurrency,
        rate=rate,
        cached=cached,
        price=_prices(price),
        sharding=_sharding(degrees),
        topology=topology if topology is None or not Path(topology).is_file() else Path(topology),
        runtime=runtime,
        utilization=utilization,
        page=page,
        step_tokens=step_tokens,
        overlap=overlap,
        host=host,
        speculate=speculate,
        acceptance=acceptance,
        draft=draft,
        routing_skew=routing_skew,
        top=top,
    )
    if json_:
        write_text(json_text(found.to_dict()))
    else:
        from gambrel.report.options import terminal_options
        from gambrel.report.serving import render

        write_text(render(found, terminal_options(sys.stdout)))
    if html is not None:
        from gambrel.report.serving_html import render as render_page

        choices.write_page(html, render_page(found))
    for path, which in ((decode, "decode"), (prefill, "prefill")):
        if path is not None:
            _write_step(found, which, path)
    leave(bool(found.best))


def _write_step(found: Plan, which: str, path: Path) -> None:
    """The analysis of a step of the best choice, op by op, as a file."""
    if not found.best:
        raise InputError(f"--{which}: nothing keeps the promise, so there is no step to write.")
    step = getattr(found.best[0], which)
    step.save(path)
    print(f"wrote {path}", file=sys.stderr)


def _refuse_all() -> tuple[str, ...]:
    raise InputError("--hardware: name the devices to compare, e.g. --hardware h100,h200.")


def _prices(texts: list[str] | None) -> str | dict[str, str | float] | None:
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return dict(choices.prices_of(texts))


def _sharding(degrees: dict[str, int | None]) -> Sharding | None:
    given = {name: value for name, value in degrees.items() if value is not None}
    if not given:
        return None
    from gambrel.llm.sharding import Sharding

    return Sharding(**given)
