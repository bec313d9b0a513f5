"""What is asked about: the model and its sizes."""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import (
    ALL,
    CODE,
    DESIGN,
    MANY,
    MODEL,
    OBJECT,
    PLANS,
    POINTS,
    RUNS,
    TRAINS,
    field,
)
from gambrel.workload.inputs import ExampleInput


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ModelFields:
    """What is asked about: the model and its sizes."""

    model: Any = field(
        *(f.MODEL, MODEL, f"{ALL} {DESIGN}"),
        "A name (gambrel models list), a file (.onnx, .tflite, .pt2, .safetensors, .gguf, "
        "config.json ...; see docs/formats.md), file.py:function or package.module:Class, or "
        "one op, e.g. matmul:m=4096,n=4096,k=4096,bf16. Where several are taken also a set: "
        "zoo-set (20 models), family=language.",
        *("--model", "-m", "--models"),
        several=f"compare {POINTS}",
        required=f"analyze recommend what-if {MANY} {PLANS} {DESIGN} kv-cache limits explain-gap",
        words=("network", "architecture"),
    )
    hub: bool = field(
        *(f.FLAG, MODEL, ALL),
        "MODEL is an id of the Hugging Face hub, org/name: configuration and headers are "
        "read, from the cache where it has them; hf://org/name says the same.",
        *("--hub",),
        default=False,
        words=("hugging face hub",),
    )
    inputs: Any = field(
        *(f.ANY, MODEL, RUNS),
        "Example inputs of a module: a tensor, a tuple or a dict. Only shapes and dtypes matter.",
        absent=OBJECT,
    )
    kwargs: Any = field(*(f.ANY, MODEL, RUNS), "Keyword arguments of a live module.", absent=OBJECT)
    input_shapes: tuple[ExampleInput, ...] = field(
        *(f.SHAPE, MODEL, RUNS),
        "Example input of a model given as code, e.g. 1x3x224x224 or input_ids:1x128:int64; "
        "repeatable.",
        *("--input",),
        several=RUNS,
        default=(),
        split=False,
    )
    batch_size: Any = field(
        *(f.whole("items"), MODEL, f"{RUNS} {DESIGN} kv-cache import"),
        "Batch size. Commands that take several accept a list (1,8,64) or a range (1:256, "
        "1:256:x2).",
        *("--batch", "-b"),
        several="analyze compare sweep",
        words=("batch", "batches", "bs", "sequences"),
    )
    seq: Any = field(
        *(f.tokens(), MODEL, f"{RUNS} {DESIGN} {TRAINS} import"),
        *("Sequence length in tokens; 8k is 8,192.", "--seq"),
        several="sweep",
        required=TRAINS,
        words=("sequence length", "prompt"),
    )
    context: Any = field(
        *(f.tokens(), MODEL, f"{RUNS} {DESIGN} kv-cache import"),
        "In decode, the number of tokens that the new one attends to, including itself; 8k "
        "is 8,192.",
        *("--context",),
        several="sweep",
        words=("context length", "cached tokens"),
    )
    image: Any = field(
        *(
            f.whole("pixels"),
            MODEL,
            f"{RUNS} {DESIGN} import",
            "Image height and width in pixels.",
            "--image",
        ),
        several="sweep",
        words=("resolution", "image size"),
    )
    sizes: dict[str, Any] = field(
        *(f.named_numbers("NAME=N", "as named"), MODEL, f"{RUNS} {DESIGN} import"),
        *("Any other symbolic size of the model, as NAME=NUMBER; repeatable.", "--size"),
        default=None,
    )
    phase: Any = field(
        *(f.choice("prefill", "decode"), MODEL, f"{RUNS} {DESIGN} import"),
        *(
            "Phase of a language model: prefill reads the prompt, decode generates one token.",
            "--phase",
        ),
        several="sweep",
    )
    train: bool = field(
        *(f.FLAG, MODEL, f"{RUNS} {DESIGN} import"),
        *(
            "Include the backward pass and the optimizer (code, and built-in classifiers).",
            "--train",
        ),
        default=False,
        words=("training", "backward"),
    )
    autocast: Any = field(
        *(f.choice("fp16", "bf16"), MODEL, f"{RUNS} {DESIGN} import"),
        "Automatic mixed precision of PyTorch: run the forward pass inside torch.autocast of "
        "this format, its casts counted (code, and built-in networks).",
        *("--autocast",),
        words=("mixed precision", "amp"),
    )
    trust: bool = field(
        *(f.FLAG, MODEL, f"{RUNS} {DESIGN} import"),
        *("Allow the file to run code. Only for files you trust.", "--trust"),
        default=False,
        absent=CODE,
    )
