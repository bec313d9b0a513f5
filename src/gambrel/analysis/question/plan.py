"""Deployments of language models: traffic, layouts, the cache, steps."""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import (
    OBJECT,
    PLAN,
    PLANS,
    SERVE,
    SERVE_PLAN,
    SERVED,
    SPLIT,
    TRAIN,
    field,
)


@dataclass(frozen=True, kw_only=True)
class PlanFields:
    """Deployments of language models: traffic, layouts, the cache, steps."""

    config: Any = field(
        *(f.DEPLOYMENT, PLAN, SERVED),
        'A deployment that exists: its command line ("vllm serve ...", SGLang, TensorRT-LLM), or '
        "a script, docker-compose file or Kubernetes manifest with one; other options replace what "
        "it says.",
        "--config",
    )
    input: int = field(
        *(f.tokens(), PLAN, SERVE, "Tokens of a prompt; 8k is 8,192.", "--input"),
        required=f"{SERVE_PLAN} {SPLIT}",
    )
    output: int = field(
        *(f.tokens(), PLAN, SERVE, "Tokens of an answer.", "--output"),
        required=f"{SERVE_PLAN} {SPLIT}",
    )
    cached: int = field(
        *(
            f.tokens(0),
            PLAN,
            f"{SERVE_PLAN} {SPLIT}",
            "Tokens of a prompt that a prefix cache holds.",
            "--cached",
        ),
        default=0,
    )
    prefill_hardware: Any = field(
        *(f.HARDWARE, PLAN, SPLIT, "Device of the prefill pool; by default --hardware."),
        *("--prefill-hardware",),
    )
    max_devices: int = field(
        *(f.whole("devices"), PLAN, SERVE, "Most devices, all replicas together."),
        *("--max-devices",),
        default=8,
    )
    concurrency: int | None = field(
        *(f.whole("requests"), PLAN, SERVED),
        *("Requests in flight; by default as many as the targets allow.", "--concurrency"),
        words=("users",),
    )
    rate: float | None = field(
        *(f.PER_S, PLAN, SERVE),
        *("Requests per second to serve, e.g. 20/s; by default as many as possible.", "--rate"),
    )
    arrivals: str | None = field(
        *(f.choice("closed", "burst", "poisson"), PLAN, SERVED),
        "How requests come: one for each that ends (closed), all at once and of equal length "
        "(burst), at random (poisson); by default poisson with --rate, else closed.",
        "--arrivals",
    )
    sharding: Any = field(
        *(f.ANY, PLAN, SERVE_PLAN),
        "Layouts of one replica to compare; by default all that the model allows.",
        absent=OBJECT,
    )
    tensor: Any = field(
        *(f.whole("devices"), PLAN, f"{PLANS} sweep"),
        "Devices that share each layer; of a sweep a list, e.g. 1,2,4,8.",
        *("--tensor", "--tp"),
        several="sweep",
        words=("tp",),
    )
    pipeline: int | None = field(
        *(f.whole("stages"), PLAN, PLANS, "Stages of layers.", "--pipeline"), words=("pp",)
    )
    expert: int | None = field(
        *(f.whole("groups"), PLAN, PLANS, "Groups that divide the experts.", "--expert"),
        words=("ep",),
    )
    context_parallel: int | None = field(
        *(f.whole("devices"), PLAN, PLANS, "Devices that share a sequence."),
        *("--context-parallel",),
        words=("cp",),
    )
    attention_data: int | None = field(
        *(f.whole("groups"), PLAN, SERVE, "Groups with attention of their own sequences."),
        "--attention-data",
    )
    data: int | None = field(
        *(f.whole("replicas"), PLAN, TRAIN, "Replicas that average their gradients.", "--data"),
        words=("dp",),
    )
    topology: Any = field(
        *(f.ANY, PLAN, PLANS),
        "A node: a TOML file, or dgx-h100, hgx, nvl72 ...; by default the device's usual one.",
        "--topology",
    )
    max_requests: int | None = field(
        *(f.whole("requests"), PLAN, SERVED),
        *("Most in flight on a replica; by default what memory holds.", "--max-requests"),
    )
    longest: int | None = field(
        *(f.tokens(), PLAN, SERVED),
        *("Most tokens of a request; by default the model's context.", "--longest"),
    )
    utilization: float = field(
        *(f.SHARE, PLAN, f"{SERVE} kv-cache"),
        *("Share of a device's memory that the engine may use.", "--utilization"),
        default=0.9,
    )
    page: int = field(
        *(f.whole("tokens"), PLAN, f"{SERVE} kv-cache", "Tokens of a page of the cache."),
        *("--page",),
        default=16,
    )
    windowed: str = field(
        *(f.choice("full", "window"), PLAN, "kv-cache"),
        "Pages of windowed layers: full reserves the whole context, window what it touches.",
        *("--windowed",),
        default="full",
    )
    step_tokens: int = field(
        *(f.whole("tokens"), PLAN, SERVE, "Most prompt tokens of one step.", "--step-tokens"),
        default=8192,
    )
    overlap: float | None = field(
        *(f.SHARE, PLAN, PLANS),
        "Share of communication hidden behind computation, an assumption; by default none in "
        "serving, and in training what tuned frameworks hide.",
        "--overlap",
    )
    host: float | None = field(
        *(f.TIME, PLAN, SERVE),
        "Host time in each step that the device waits for, e.g. 500us; by default what was "
        "measured of the runtime.",
        "--host",
    )
    speculate: int = field(
        *(f.whole("tokens", 0), PLAN, SERVE, "Tokens drafted in a step.", "--speculate"),
        default=0,
    )
    acceptance: float | None = field(
        *(f.SHARE, PLAN, SERVE),
        *("Probability that a drafted token is kept; needed with --speculate.", "--acceptance"),
    )
    draft: Any = field(
        *(f.MODEL, PLAN, SERVE),
        *("Model that drafts; by default its own multi-token-prediction layer.", "--draft"),
    )
    routing_skew: float = field(
        *(f.number("1"), PLAN, SERVE),
        *("Zipf exponent of tokens over experts; 0 is uniform.", "--routing-skew"),
        default=0.0,
    )
    sequences: int = field(
        *(f.whole("sequences"), PLAN, TRAIN, "Of one microbatch on one replica.", "--sequences"),
        default=1,
    )
    microbatches: int = field(
        *(f.whole("passes"), PLAN, TRAIN, "Passes before an update.", "--microbatches"),
        default=1,
    )
    virtual: int = field(
        *(f.whole("pieces"), PLAN, TRAIN),
        *("Pieces of the model on each pipeline stage, interleaved.", "--virtual"),
        default=1,
        words=("vp",),
    )
    schedule: str = field(
        *(f.choice("1f1b", "zero-bubble"), PLAN, TRAIN),
        *("Order in which a pipeline runs its microbatches.", "--schedule"),
        default="1f1b",
    )
    zero: int = field(
        *(f.whole("stage", 0), PLAN, TRAIN),
        *("Divided among replicas: 1 optimizer states, 2 gradients, 3 parameters.", "--zero"),
        default=0,
    )
    recompute: str = field(
        *(f.choice("none", "full"), PLAN, TRAIN),
        *("What is computed again instead of kept.", "--recompute"),
        default="none",
    )
