"""How the model runs: runtime, number format, engine, changes."""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import ALL, HOW, MANY, PLANS, RUNS, SERVE_PLAN, field


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class HowFields:
    """How the model runs: runtime, number format, engine, changes."""

    runtime: Any = field(
        *(f.TEXT, HOW, f"{RUNS} {PLANS} import runtime"),
        "What executes the model: pytorch, torch-compile, tensorrt, vllm ... (gambrel "
        "runtimes list). Without it, analyze uses the usual one of the device; check, "
        "compare and select use the fastest that runs there.",
        "--runtime",
        several=MANY,
        required="runtime",
        words=("compiler", "engine", "framework", "stack"),
    )
    precision: Any = field(
        *(f.TEXT, HOW, ALL),
        "Number format: fp32, tf32, fp16, bf16, fp8, int8 ...; for language models also part "
        "by part: w4a16,kv=fp8. The default is that of the device or the checkpoint.",
        *("--precision", "-p"),
        several=f"{MANY} {SERVE_PLAN}",
        words=("dtype", "format", "quantization", "quant"),
    )
    sparsity: bool = field(
        *(f.FLAG, HOW, RUNS),
        *("Use the structured-sparsity (2:4) peaks for matmuls with weights.", "--sparse"),
        default=False,
        words=("sparse", "2:4"),
    )
    engine: Any = field(
        *(f.TEXT, HOW, RUNS),
        *("Use only this engine for matrix work, e.g. matrix, vector, dla.", "--engine"),
        several="sweep",
    )
    causal: Any = field(
        *(f.choice("half", "full"), HOW, RUNS),
        *("Causal attention: half counts S(S+1)/2 pairs, full S^2.", "--causal"),
        default="half",
        several="sweep",
    )
    warm: bool = field(
        *(
            f.FLAG,
            HOW,
            "analyze",
            "With --levels: start with the caches warm from an earlier run.",
            "--warm",
        ),
        default=False,
    )
    change: tuple[str, ...] = field(
        *(f.TEXT, HOW, "what-if sweep"),
        "A change to apply, e.g. precision=int8, fuse, batch=8, weights=int4, hardware=h200; "
        "repeatable. In a sweep each is an alternative: none, fuse, fuse+weights=int4.",
        *("--change", "-c"),
        several="what-if sweep",
        required="what-if",
        default=(),
        split=False,
    )
