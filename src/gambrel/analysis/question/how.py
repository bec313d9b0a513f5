"""How the model runs: runtime, number format, engine, changes."""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import ALL, HOW, MANY, PLANS, RUNS, SERVE_PLAN, field


@dataclass(frozen=True, kw_only=True)
class HowFields:
    """How the model runs: runtime, number format, engine, changes."""

    runtime: Any = field(
        *(f.TEXT, HOW, f"{RUNS} {PLANS} import runtime"),
        "What executes the model: pytorch, torch-compile, tensorrt, vllm ... (gambrel runtimes "
        "list). Where none is named, analyze takes the device's usual one, and check, compare and "
        "select take the fastest that runs there.",
        "--runtime",
        several=MANY,
        required="runtime",
        words=("compiler", "engine", "framework", "stack"),
    )
    precision: Any = field(
        *(f.TEXT, HOW, ALL),
        "Number format: fp32, tf32, fp16, bf16, fp8, int8 ...; of a language model part by part as "
        "well: w4a16,kv=fp8. By default the device's or the checkpoint's own.",
        *("--precision", "-p"),
        several=f"{MANY} {SERVE_PLAN}",
        words=("dtype", "format", "quantization"),
    )
    sparsity: bool = field(
        *(f.FLAG, HOW, RUNS),
        *("Hold matmuls with weights against the structured-sparsity peaks.", "--sparse"),
        default=False,
        words=("sparse", "2:4"),
    )
    engine: Any = field(
        *(f.TEXT, HOW, RUNS),
        *("Hold matrix work against this engine only, e.g. matrix, vector, dla.", "--engine"),
        several="sweep",
    )
    causal: Any = field(
        *(f.choice("half", "full"), HOW, RUNS),
        *("Causal attention: half counts S(S+1)/2 pairs, full S^2.", "--causal"),
        default="half",
        several="sweep",
    )
    warm: bool = field(
        *(f.FLAG, HOW, "analyze", "For --levels: caches hold what an earlier run left.", "--warm"),
        default=False,
    )
    change: tuple[str, ...] = field(
        *(f.TEXT, HOW, "what-if sweep"),
        "E.g. precision=int8, fuse, batch=8, weights=int4, hardware=h200; repeatable. In a sweep "
        "each is an alternative: none, fuse, fuse+weights=int4.",
        *("--change", "-c"),
        several="what-if sweep",
        required="what-if",
        default=(),
        split=False,
    )
