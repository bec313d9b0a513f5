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
    TRAIN_SEARCH,
    TRAINS,
    field,
)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PlanFields:
    """Deployments of language models: traffic, layouts, the cache, steps."""

    config: Any = field(
        *(f.DEPLOYMENT, PLAN, SERVED),
        'An existing deployment: its command line ("vllm serve ...", SGLang, TensorRT-LLM), '
        "or a script, docker-compose file or Kubernetes manifest that contains one; other "
        "options override it.",
        "--config",
    )
    input: int = field(
        *(f.tokens(), PLAN, SERVE, "Prompt length in tokens; 8k is 8,192.", "--input"),
        required=f"{SERVE_PLAN} {SPLIT}",
    )
    output: int = field(
        *(f.tokens(), PLAN, SERVE, "Output length in tokens.", "--output"),
        required=f"{SERVE_PLAN} {SPLIT}",
    )
    cached: int = field(
        *(
            f.tokens(0),
            PLAN,
            f"{SERVE_PLAN} {SPLIT}",
            "Prompt tokens served from the prefix cache.",
            "--cached",
        ),
        default=0,
    )
    prefill_hardware: Any = field(
        *(f.HARDWARE, PLAN, SPLIT, "Device of the prefill pool; the default is --hardware."),
        *("--prefill-hardware",),
    )
    max_devices: Any = field(
        *(f.whole("devices"), PLAN, SERVE),
        "Maximum number of devices over all replicas; by default 8, and 1 where devices have no "
        "link, as phones and boards.",
        *("--max-devices",),
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
        *(f.choice("closed", "burst", "poisson", "offline"), PLAN, SERVED),
        "Arrival process: a new request for each one that ends (closed), all at once with "
        "equal lengths (burst), random (poisson), or a batch job in the engine's own process, "
        "without a server and without streaming (offline); by default poisson with --rate, "
        "otherwise closed.",
        "--arrivals",
    )
    sharding: Any = field(
        *(f.ANY, PLAN, SERVE_PLAN),
        "Layouts of a replica to compare; by default all that the model allows.",
        absent=OBJECT,
    )
    tensor: Any = field(
        *(f.whole("devices"), PLAN, f"{PLANS} sweep"),
        "Tensor-parallel size (TP): devices that share each layer; in a sweep a list, e.g. "
        "1,2,4,8.",
        *("--tensor", "--tp"),
        several="sweep",
        words=("tp",),
    )
    pipeline: int | None = field(
        *(
            f.whole("stages"),
            PLAN,
            PLANS,
            "Pipeline-parallel size (PP): stages of layers.",
            "--pipeline",
        ),
        words=("pp",),
    )
    expert: int | None = field(
        *(
            f.whole("groups"),
            PLAN,
            PLANS,
            "Expert-parallel size (EP): groups that share the experts.",
            "--expert",
        ),
        words=("ep",),
    )
    context_parallel: int | None = field(
        *(
            f.whole("devices"),
            PLAN,
            PLANS,
            "Context-parallel size (CP): devices that share a sequence.",
        ),
        *("--context-parallel",),
        words=("cp",),
    )
    attention_data: int | None = field(
        *(
            f.whole("groups"),
            PLAN,
            SERVE,
            "Data-parallel groups of attention, each with its own sequences.",
        ),
        "--attention-data",
    )
    data: int | None = field(
        *(
            f.whole("replicas"),
            PLAN,
            TRAINS,
            "Data-parallel size (DP): replicas that average their gradients.",
            "--data",
        ),
        words=("dp",),
    )
    topology: Any = field(
        *(f.ANY, PLAN, PLANS),
        "A node: a TOML file, or dgx-h100, hgx, nvl72 ...; by default the device's usual one.",
        "--topology",
    )
    max_requests: int | None = field(
        *(f.whole("requests"), PLAN, SERVED),
        *(
            "Maximum requests in flight per replica; by default what memory holds.",
            "--max-requests",
        ),
    )
    longest: int | None = field(
        *(f.tokens(), PLAN, SERVED),
        *("Maximum tokens per request; by default the model's context length.", "--longest"),
    )
    utilization: float | None = field(
        *(f.SHARE, PLAN, f"{SERVE} {TRAINS} kv-cache"),
        "Fraction of device memory that may be used; by default 0.9 by a serving engine, all "
        "by other runtimes, and 0.95 in training by a search and --recompute auto.",
        "--utilization",
    )
    page: int = field(
        *(f.whole("tokens"), PLAN, f"{SERVE} kv-cache", "Tokens per page of the KV cache."),
        *("--page",),
        default=16,
    )
    windowed: str = field(
        *(f.choice("full", "window"), PLAN, "kv-cache"),
        "Pages of sliding-window layers: full reserves the whole context, window only what "
        "the window touches.",
        *("--windowed",),
        default="full",
    )
    step_tokens: int | None = field(
        *(f.whole("tokens"), PLAN, SERVE),
        "Maximum prompt tokens per step; by default what the engine sets there, or 8,192.",
        "--step-tokens",
    )
    overlap: float | None = field(
        *(f.SHARE, PLAN, PLANS),
        "Fraction of communication that overlaps with computation (an assumption); by "
        "default none in serving, and in training what tuned frameworks hide.",
        "--overlap",
    )
    host: float | None = field(
        *(f.SPENT, PLAN, SERVE),
        "Host time per step that the device waits for, e.g. 500us; by default as measured "
        "for the runtime.",
        "--host",
    )
    frontend: float | None = field(
        *(f.SPENT, PLAN, SERVE),
        "Time of a request outside the steps (HTTP, tokenizer, queues), e.g. 10ms; by default "
        "as measured for the runtime's own server.",
        "--frontend",
    )
    eager: bool = field(
        *(
            f.FLAG,
            PLAN,
            SERVE,
            "No step is replayed as a graph: the host launches every kernel (--enforce-eager of "
            "vLLM, --disable-cuda-graph of SGLang).",
            "--eager",
        ),
        default=False,
    )
    speculate: int = field(
        *(
            f.whole("tokens", 0),
            PLAN,
            SERVE,
            "Speculative decoding: tokens drafted per step.",
            "--speculate",
        ),
        default=0,
    )
    acceptance: float | None = field(
        *(f.SHARE, PLAN, SERVE),
        *("Probability that a drafted token is kept; needed with --speculate.", "--acceptance"),
    )
    draft: Any = field(
        *(f.MODEL, PLAN, SERVE),
        *("Draft model; by default the model's own multi-token-prediction layer.", "--draft"),
    )
    routing_skew: float = field(
        *(f.number("1"), PLAN, SERVE),
        *("Zipf exponent of tokens over experts; 0 is uniform.", "--routing-skew"),
        default=0.0,
    )
    lora_rank: int = field(
        *(f.whole("rank", 0), PLAN, SERVE, "LoRA adapters: their rank.", "--lora-rank"),
        default=0,
    )
    lora_adapters: int = field(
        *(f.whole("adapters"), PLAN, SERVE),
        *("LoRA adapters in memory, used evenly by the requests of a batch.", "--lora-adapters"),
        default=1,
    )
    kv_offload: float | None = field(
        *(f.MEMORY, PLAN, SERVE),
        "Host memory per replica that keeps cached prefixes, e.g. 200GB: the cached part of a "
        "prompt is read back over the host link.",
        *("--kv-offload",),
    )
    sequences: int = field(
        *(
            f.whole("sequences"),
            PLAN,
            TRAIN,
            "Sequences per microbatch and replica.",
            "--sequences",
        ),
        default=1,
    )
    microbatches: int = field(
        *(
            f.whole("passes"),
            PLAN,
            TRAIN,
            "Microbatches per optimizer step (gradient accumulation).",
            "--microbatches",
        ),
        default=1,
    )
    virtual: int = field(
        *(f.whole("pieces"), PLAN, TRAIN),
        *("Virtual pipeline stages per device (interleaved schedule).", "--virtual"),
        default=1,
        words=("vp",),
    )
    schedule: str = field(
        *(f.choice("1f1b", "zero-bubble"), PLAN, TRAIN),
        *("Pipeline schedule.", "--schedule"),
        default="1f1b",
    )
    tuning: str = field(
        *(f.choice("tuned", "kernels", "unfused"), PLAN, TRAIN),
        "How far the step is tuned: as in benchmark runs, kernels one after another with nothing "
        "overlapped (production runs), or unfused: the same with attention in several kernels "
        "(before FlashAttention).",
        *("--tuning",),
        default="tuned",
    )
    loss: str = field(
        *(f.choice("auto", "fused", "fp32"), PLAN, TRAIN),
        "Loss: fused over logits in 16 bits, or fp32 with several copies of the logits; auto is "
        "fused but with --zero 3.",
        *("--loss",),
        default="auto",
    )
    zero: int = field(
        *(f.whole("stage", 0), PLAN, TRAIN),
        *("ZeRO stage: 1 shards optimizer states, 2 also gradients, 3 also parameters.", "--zero"),
        default=0,
    )
    recompute: str = field(
        *(f.TEXT, PLAN, TRAIN),
        "Activation recomputation in the backward pass: none, selective (all but attention and "
        "every second product), full, auto (the least time that fits the memory), or "
        "classes as norms,activations,attention,projections,feed-forward,experts.",
        *("--recompute",),
        default="none",
    )
    offload: str = field(
        *(f.choice("none", "optimizer", "activations", "all"), PLAN, TRAIN),
        *("Offloading to host memory: what is stored there.", "--offload"),
        default="none",
    )
    devices: int | None = field(
        *(f.whole("devices"), PLAN, TRAINS),
        *("With --search: devices of the whole job.", "--devices"),
        required=TRAIN_SEARCH,
    )
    total_tokens: float | None = field(
        *(f.quantity("count", "tokens", "15T", bare=True), PLAN, TRAINS),
        "Tokens of the whole training run, e.g. 15T: adds its days and device-hours.",
        *("--tokens",),
        words=("total tokens", "dataset"),
    )
    global_batch: int | None = field(
        *(f.whole("sequences"), PLAN, TRAINS),
        *("With --search: sequences of a step, all replicas together.", "--global-batch"),
        required=TRAIN_SEARCH,
    )
