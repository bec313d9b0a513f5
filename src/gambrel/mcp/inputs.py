"""What the tools take: one annotated type an argument, with its unit in words."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

Model: TypeAlias = Annotated[
    str,
    Field(
        description="A built-in model, e.g. resnet50 (tool `models` lists them), or the path of a "
        ".pt2, .pt, .safetensors or config.json file on the machine of this server."
    ),
]
Hardware: TypeAlias = Annotated[
    str,
    Field(
        description="A device as people write it, e.g. h100, 'A100 80GB', jetson-orin-nano (tool "
        "`hardware` lists them), or the path of a device TOML file."
    ),
]
Batch: TypeAlias = Annotated[
    int | None,
    Field(
        ge=1,
        description="Items computed at once, unit: items; null takes the model's own.",
        json_schema_extra={"unit": "items"},
    ),
]
Precision: TypeAlias = Annotated[
    str | None,
    Field(
        description="Number format: fp32, tf32, fp16, bf16, fp8, int8 ...; null takes the one that "
        "the device's engine is made for."
    ),
]
Sizes: TypeAlias = Annotated[
    dict[str, int] | None,
    Field(
        description="Other sizes of the model by name: seq and context in tokens, image in pixels "
        "of the side; tool `models` lists what each model has. Unit: as named.",
        json_schema_extra={"unit": "tokens or pixels"},
    ),
]
Phase: TypeAlias = Annotated[
    Literal["prefill", "decode"] | None,
    Field(description="For language models: reading the prompt, or writing token by token."),
]
Stack: TypeAlias = Annotated[
    Literal["eager", "compiled", "epilogue", "ideal"],
    Field(description="How ops become kernels: one each, or fused as a compiler does."),
]
Sparse: TypeAlias = Annotated[
    bool,
    Field(description="Hold products with weights against the peaks with structured sparsity."),
]
Engine: TypeAlias = Annotated[
    str | None,
    Field(description="Hold matrix work against this engine only, e.g. matrix, vector, dla."),
]
Top: TypeAlias = Annotated[
    int,
    Field(
        ge=1,
        le=1000,
        description="Rows to return of each list, unit: rows.",
        json_schema_extra={"unit": "rows"},
    ),
]
Latency: TypeAlias = Annotated[
    str | None, Field(description="At most, for the whole batch, with a time unit: '33ms'.")
]
Throughput: TypeAlias = Annotated[
    str | None, Field(description="At least, items per second: '30fps', '1k/s'.")
]
Power: TypeAlias = Annotated[str | None, Field(description="At most, with a unit of W: '15W'.")]
Energy: TypeAlias = Annotated[
    str | None, Field(description="At most, per item, with a unit of J: '500mJ'.")
]
Memory: TypeAlias = Annotated[
    str | None, Field(description="At most, with a unit of bytes: '4096MB' or '4GiB'.")
]
Prices: TypeAlias = Annotated[
    dict[str, float] | None,
    Field(
        description="Device → price, all in any one currency; unit: that currency.",
        json_schema_extra={"unit": "currency of the caller"},
    ),
]
Metric: TypeAlias = Literal[
    "latency", "throughput", "power", "energy", "efficiency", "memory", "price"
]
