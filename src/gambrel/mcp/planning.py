"""The tools that plan for language models: serving, and the key/value cache."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gambrel.mcp import convert
from gambrel.mcp import inputs as given
from gambrel.mcp import planning_outputs as out
from gambrel.mcp.outputs import number

LanguageModel = Annotated[
    str,
    Field(
        description="A language model by name, e.g. llama-3.1-70b or deepseek-v3, or the path of "
        "its config.json or folder on the machine of this server."
    ),
]
Tokens = Annotated[str, Field(description="Tokens: '8192' or '8k' (8,192); unit: tokens.")]
Format = Annotated[
    str | None,
    Field(description="Number formats, e.g. fp8 or 'w4a16,kv=fp8'; null is the checkpoint's own."),
]
Share = Annotated[
    float,
    number("Share of a device's memory that the engine may use", "1", gt=0, le=1),
]


def serve_plan(
    model: LanguageModel,
    hardware: Annotated[
        list[given.Hardware], Field(min_length=1, description="Devices to compare.")
    ],
    input: Tokens,
    output: Tokens,
    max_devices: Annotated[
        int,
        number("All replicas together", "devices", ge=1),
    ] = 8,
    ttft: Annotated[
        str | None, Field(description="Time to first token, at most, with a unit of time: '1s'.")
    ] = None,
    tpot: Annotated[
        str | None,
        Field(description="Time per output token, at most, with a unit of time: '30ms'."),
    ] = None,
    precisions: Annotated[
        list[str],
        Field(description="Formats to compare, e.g. fp8; empty is the checkpoint's own."),
    ] = [],  # noqa: B006 pydantic copies it
    concurrency: Annotated[
        int | None,
        number("Requests in flight; null: as many as the promise allows", "requests", ge=1),
    ] = None,
    rate: Annotated[str | None, Field(description="Requests a second to serve: '20/s'.")] = None,
    cached: Tokens = "0",
    prices: given.Prices = None,
    topology: Annotated[
        str | None, Field(description="A named node, e.g. dgx-h100, or the path of its TOML.")
    ] = None,
    runtime: given.Runtime = None,
    utilization: Share = 0.9,
    top: given.Top = 5,
) -> out.ServingPlanOut:
    """How to serve a language model: layout, batch, devices, TTFT, TPOT, tokens/s and cost."""
    from gambrel.api.plans import serve_plan as plan_serving

    found = plan_serving(
        model,
        list(hardware),
        input=input,
        output=output,
        max_devices=max_devices,
        ttft=ttft,
        tpot=tpot,
        precision=precisions or None,
        concurrency=concurrency,
        rate=rate,
        cached=cached,
        price=dict(prices) if prices else None,
        topology=topology,
        runtime=runtime,
        utilization=utilization,
        top=top,
    )
    data = found.to_dict()
    listed = {name: data[name][:top] for name in ("pareto", "refused")}
    return out.ServingPlanOut.model_validate(
        {
            "command": convert.command(
                "serve-plan",
                model,
                hardware=",".join(hardware),
                input=input,
                output=output,
                max_devices=max_devices,
                ttft=ttft,
                tpot=tpot,
                precision=precisions,
                concurrency=concurrency,
                rate=rate,
                cached=None if cached == "0" else cached,
                price=prices,
                topology=topology,
                runtime=runtime,
                utilization=utilization,
                top=top,
            ),
            "model": convert.texts([found.model])[0],
            "best": [_choice(choice) for choice in data["best"]],
            **listed,
            "left_out": sum(len(data[name]) - len(rows) for name, rows in listed.items()),
            "assumptions": convert.texts(found.assumptions),
        }
    )


def kv_cache(
    model: LanguageModel,
    context: Tokens = "8k",
    batch: Annotated[
        int,
        number("Sequences at once", "sequences", ge=1),
    ] = 1,
    hardware: given.Hardware | None = None,
    precision: Format = None,
    page: Annotated[
        int,
        number("Tokens of a page of the cache", "tokens", ge=1),
    ] = 16,
    windowed: Annotated[
        Literal["full", "window"],
        Field(description="Pages of windowed layers: the whole context, or the window only."),
    ] = "full",
    utilization: Share = 0.9,
) -> out.CacheOut:
    """The key/value cache: bytes needed and reserved, and the batch and context that fit."""
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
    data = convert.plain(found)
    cache = data.pop("cache")
    return out.CacheOut.model_validate(
        {
            "command": convert.command(
                "kv-cache",
                model,
                context=context,
                batch=batch,
                hardware=hardware,
                precision=precision,
                page=page,
                windowed=windowed,
                utilization=utilization,
            ),
            **data,
            **{name: cache[name] for name in ("batch", "context", "precision", "parts")},
            "model": convert.texts([found.cache.model])[0],
            "logical_bytes": found.cache.logical_bytes,
            "allocated_bytes": found.cache.allocated_bytes,
            "fits": found.fits,
        }
    )


def _choice(data: dict[str, object]) -> dict[str, object]:
    """Estimates under the names that every tool uses."""
    return data | {name: _expected(data[name]) for name in ("tpot", "ttft")}


def _expected(found: object) -> dict[str, object] | None:
    if not isinstance(found, dict):
        return None
    named = {"value_s": found["value"], "low_s": found["low"], "high_s": found["high"]}
    return named | {name: found[name] for name in ("confidence", "reason")}
