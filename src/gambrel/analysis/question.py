"""What can be asked of gambrel: each thing once, for every face.

Options of the command line, keywords of the Python functions, arguments of the MCP tools and words
of the chat are made from the fields of `Question`. A new field needs no declaration anywhere else.
"""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gambrel.analysis import fields as f
from gambrel.analysis.fields import Field, Kind
from gambrel.errors import InputError, UnknownNameError
from gambrel.workload.inputs import ExampleInput

MODEL, DEVICE, HOW = "Model", "Device", "How it runs"
TARGETS, PLAN, LISTED, PRINT = "Targets", "Deployment", "Which to list", "What to print"
#: Questions about one model on one device, and about many.
_ONE: Final = "analyze recommend check what-if"
_MANY: Final = "compare select sweep"
_RUNS: Final = f"{_ONE} {_MANY}"
_PLANS: Final = "serve-plan train-plan"
_SERVE: Final = "serve-plan"
_TRAIN: Final = "train-plan"
_LIMITED: Final = "check select"
_ALL: Final = f"{_RUNS} {_PLANS} kv-cache import"
#: Questions about what is known.
_LOOK: Final = "devices device models runtimes runtime explain"
#: Every question.
VERBS: Final = tuple(f"{_ALL} {_LOOK}".split())
_OBJECT: Final = {"cli": "an object in memory", "mcp": "an object in memory"}
_CODE: Final = {"mcp": "code runs only where the server was started with --trust"}


def _ask(
    kind: Kind, group: str, verbs: str, help: str, *flags: str, default: Any = None, **more: Any
) -> Any:
    sets = {k: frozenset(more.pop(k, "").split()) for k in ("several", "required")}
    rest = {"absent": {}, "default": default, **more, **sets}
    field = Field(
        kind=kind, group=group, verbs=frozenset(verbs.split()), help=help, flags=flags, **rest
    )
    return dataclasses.field(default=default, metadata={"field": field})


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question with its values, read and checked; what a verb does not take is at its default.

    Attributes:
        verb: One of `VERBS`.

    The other attributes are fields: `FIELDS` has their types, units and meanings.
    """

    verb: str
    model: Any = _ask(
        *(f.MODEL, MODEL, _ALL),
        "A name (gambrel models list), a file (.pt2, .pt, .safetensors, .gguf, config.json), "
        "file.py:function or package.module:Class.",
        *("--model", "-m"),
        several="compare",
        required=f"analyze recommend what-if {_MANY} {_PLANS} kv-cache",
        words=("network", "architecture"),
    )
    hardware: Any = _ask(
        *(f.HARDWARE, DEVICE, f"{_ALL} device runtimes explain"),
        "A device (gambrel hardware list), a TOML file, or 'this' machine; where several are taken "
        "a list as a100,h100, or all.",
        *("--hardware", "-d"),
        several=f"{_MANY} {_SERVE}",
        required="device",
        words=("device", "gpu", "chip", "accelerator", "on"),
    )
    inputs: Any = _ask(
        *(f.ANY, MODEL, _RUNS),
        "Example inputs of a module: one tensor, a tuple or a dict. Shapes matter, values not.",
        absent=_OBJECT,
    )
    kwargs: Any = _ask(
        *(f.ANY, MODEL, _RUNS), "Keyword arguments of a live module.", absent=_OBJECT
    )
    input_shapes: tuple[ExampleInput, ...] = _ask(
        *(f.SHAPE, MODEL, _RUNS),
        "Example input of a model given as code, e.g. 1x3x224x224 or input_ids:1x128:int64; "
        "repeatable.",
        *("--input",),
        several=_RUNS,
        default=(),
        split=False,
        absent=_CODE,
    )
    batch_size: Any = _ask(
        *(f.whole("items"), MODEL, f"{_RUNS} kv-cache import"),
        "Items at once; where several are taken a list as 1,8,64 or a range as 1:256.",
        *("--batch", "-b"),
        several="analyze compare sweep",
        words=("batch", "batches", "bs", "sequences"),
    )
    seq: Any = _ask(
        *(f.tokens(), MODEL, f"{_RUNS} train-plan import"),
        *("Tokens of a sequence; 8k is 8,192.", "--seq"),
        several="sweep",
        required=_TRAIN,
        words=("sequence length", "prompt"),
    )
    context: Any = _ask(
        *(f.tokens(), MODEL, f"{_RUNS} kv-cache import"),
        "In decode, tokens that the new one attends to, itself included; 8k is 8,192.",
        *("--context",),
        several="sweep",
        words=("context length", "cached tokens"),
    )
    image: Any = _ask(
        *(f.whole("pixels"), MODEL, f"{_RUNS} import", "Side of the image.", "--image"),
        several="sweep",
        words=("resolution", "image size"),
    )
    sizes: dict[str, Any] = _ask(
        *(f.named_numbers("NAME=N", "as named"), MODEL, f"{_RUNS} import"),
        *("Any other size of the model, NAME=NUMBER; repeatable.", "--size"),
        default=None,
    )
    phase: str | None = _ask(
        *(f.choice("prefill", "decode"), MODEL, f"{_RUNS} import"),
        *("Of a language model: prefill reads the prompt, decode writes one token.", "--phase"),
    )
    train: bool = _ask(
        *(f.FLAG, MODEL, f"{_RUNS} import"),
        *("Include backward and optimizer (models as code).", "--train"),
        default=False,
        words=("training", "backward"),
        absent=_CODE,
    )
    trust: bool = _ask(
        *(f.FLAG, MODEL, f"{_RUNS} import"),
        *("Allow the file to run code. Only for files you trust.", "--trust"),
        default=False,
        absent=_CODE,
    )
    peak: float | None = _ask(
        *(f.RATE, DEVICE, f"{_RUNS} {_PLANS} import"),
        "Compute roof of a device of your own, in place of --hardware, e.g. 989T.",
        "--peak",
    )
    bandwidth: float | None = _ask(
        *(f.BANDWIDTH, DEVICE, f"{_RUNS} {_PLANS} import"),
        *("Its memory roof, e.g. 3.35T.", "--bandwidth"),
    )
    runtime: Any = _ask(
        *(f.TEXT, HOW, f"{_RUNS} {_PLANS} import runtime"),
        "What executes the model: pytorch, torch-compile, tensorrt, vllm ... (gambrel runtimes "
        "list). Where none is named, analyze takes the device's usual one, and check, compare and "
        "select take the fastest that runs there.",
        "--runtime",
        several=_MANY,
        required="runtime",
        words=("compiler", "engine", "framework", "stack"),
    )
    precision: Any = _ask(
        *(f.TEXT, HOW, _ALL),
        "Number format: fp32, tf32, fp16, bf16, fp8, int8 ...; of a language model part by part as "
        "well: w4a16,kv=fp8. By default the device's or the checkpoint's own.",
        *("--precision", "-p"),
        several=f"{_MANY} {_SERVE}",
        words=("dtype", "format", "quantization"),
    )
    sparsity: bool = _ask(
        *(f.FLAG, HOW, _RUNS),
        *("Hold matmuls with weights against the structured-sparsity peaks.", "--sparse"),
        default=False,
        words=("sparse", "2:4"),
    )
    engine: str | None = _ask(
        *(f.TEXT, HOW, _RUNS),
        *("Hold matrix work against this engine only, e.g. matrix, vector, dla.", "--engine"),
    )
    causal: str = _ask(
        *(f.choice("half", "full"), HOW, _RUNS),
        *("Causal attention: half counts S(S+1)/2 pairs, full S^2.", "--causal"),
        default="half",
    )
    warm: bool = _ask(
        *(f.FLAG, HOW, "analyze", "For --levels: caches hold what an earlier run left.", "--warm"),
        default=False,
    )
    change: tuple[str, ...] = _ask(
        *(f.TEXT, HOW, "what-if"),
        "E.g. precision=int8, fuse, batch=8, weights=int4, hardware=h200; repeatable.",
        *("--change", "-c"),
        several="what-if",
        required="what-if",
        default=(),
        split=False,
    )
    latency: float | None = _ask(
        *(f.TIME, TARGETS, _LIMITED, "At most, for the whole batch, e.g. 33ms.", "--latency"),
        words=("takes", "within"),
    )
    throughput: float | None = _ask(
        *(f.PER_S, TARGETS, _LIMITED),
        "At least, items per second, e.g. 30fps; without --batch the best batch is searched.",
        "--throughput",
        words=("fps", "rate"),
    )
    power: float | None = _ask(
        *(f.POWER, TARGETS, _LIMITED, "At most, e.g. 15W.", "--power"), words=("watts",)
    )
    energy: float | None = _ask(
        *(f.ENERGY, TARGETS, _LIMITED, "At most, per item, e.g. 500mJ.", "--energy")
    )
    memory: float | None = _ask(
        *(f.MEMORY, TARGETS, _LIMITED, "At most, e.g. 4096MB or 4GiB.", "--memory"),
        words=("ram", "vram"),
    )
    max_price: float | None = _ask(
        *(f.number("currency"), TARGETS, "select", "At most, in the currency of the prices."),
        "--max-price",
    )
    spec: str | None = _ask(
        *(f.TEXT, TARGETS, "check"),
        *("A requirements file (TOML, see docs/advise.md); what is given here wins.", "--spec"),
    )
    ttft: float | None = _ask(
        *(f.TIME, TARGETS, _SERVE, "Time to first token, at most, e.g. 1s.", "--ttft")
    )
    tpot: float | None = _ask(
        *(f.TIME, TARGETS, _SERVE),
        *("Time per output token after the first, at most, e.g. 30ms.", "--tpot"),
    )
    metric: tuple[str, ...] = _ask(
        *(f.TEXT, TARGETS, "compare"),
        "latency, throughput, power, energy, efficiency, memory, price; the first sorts.",
        *("--metric", "-m"),
        several="compare",
        default=("latency", "throughput", "power", "efficiency", "memory"),
    )
    sort: str | None = _ask(
        *(f.TEXT, TARGETS, "select"),
        *("Metric that ranks; by default the price where one is limited, else latency.", "--sort"),
    )
    prices: dict[str, float] | None = _ask(
        *(f.PRICES, TARGETS, f"compare select {_SERVE}"),
        "What a device (in serve-plan a device-hour) costs, DEVICE=NUMBER in any one currency; one "
        "number is the price of each; repeatable.",
        "--price",
    )
    input: int = _ask(
        *(f.tokens(), PLAN, _SERVE, "Tokens of a prompt; 8k is 8,192.", "--input"),
        required=_SERVE,
    )
    output: int = _ask(
        *(f.tokens(), PLAN, _SERVE, "Tokens of an answer.", "--output"), required=_SERVE
    )
    cached: int = _ask(
        *(f.tokens(0), PLAN, _SERVE, "Tokens of a prompt that a prefix cache holds.", "--cached"),
        default=0,
    )
    max_devices: int = _ask(
        *(f.whole("devices"), PLAN, _SERVE, "Most devices, all replicas together."),
        *("--max-devices",),
        default=8,
    )
    concurrency: int | None = _ask(
        *(f.whole("requests"), PLAN, _SERVE),
        *("Requests in flight; by default as many as the targets allow.", "--concurrency"),
        words=("users",),
    )
    rate: float | None = _ask(
        *(f.PER_S, PLAN, _SERVE),
        *("Requests per second to serve, e.g. 20/s; by default as many as possible.", "--rate"),
    )
    sharding: Any = _ask(
        *(f.ANY, PLAN, _SERVE),
        "Layouts of one replica to compare; by default all that the model allows.",
        absent=_OBJECT,
    )
    tensor: int | None = _ask(
        *(f.whole("devices"), PLAN, _PLANS, "Devices that share each layer.", "--tensor"),
        words=("tp",),
    )
    pipeline: int | None = _ask(
        *(f.whole("stages"), PLAN, _PLANS, "Stages of layers.", "--pipeline"), words=("pp",)
    )
    expert: int | None = _ask(
        *(f.whole("groups"), PLAN, _PLANS, "Groups that divide the experts.", "--expert"),
        words=("ep",),
    )
    context_parallel: int | None = _ask(
        *(f.whole("devices"), PLAN, _PLANS, "Devices that share a sequence."),
        *("--context-parallel",),
        words=("cp",),
    )
    attention_data: int | None = _ask(
        *(f.whole("groups"), PLAN, _SERVE, "Groups with attention of their own sequences."),
        "--attention-data",
    )
    data: int | None = _ask(
        *(f.whole("replicas"), PLAN, _TRAIN, "Replicas that average their gradients.", "--data"),
        words=("dp",),
    )
    topology: Any = _ask(
        *(f.ANY, PLAN, _PLANS),
        "A node: a TOML file, or dgx-h100, hgx, nvl72 ...; by default the device's usual one.",
        "--topology",
    )
    utilization: float = _ask(
        *(f.SHARE, PLAN, f"{_SERVE} kv-cache"),
        *("Share of a device's memory that the engine may use.", "--utilization"),
        default=0.9,
    )
    page: int = _ask(
        *(f.whole("tokens"), PLAN, f"{_SERVE} kv-cache", "Tokens of a page of the cache."),
        *("--page",),
        default=16,
    )
    windowed: str = _ask(
        *(f.choice("full", "window"), PLAN, "kv-cache"),
        "Pages of windowed layers: full reserves the whole context, window what it touches.",
        *("--windowed",),
        default="full",
    )
    step_tokens: int = _ask(
        *(f.whole("tokens"), PLAN, _SERVE, "Most prompt tokens of one step.", "--step-tokens"),
        default=8192,
    )
    overlap: float = _ask(
        *(f.SHARE, PLAN, _PLANS),
        *("Share of communication hidden behind computation; an assumption.", "--overlap"),
        default=0.0,
    )
    host: float | None = _ask(
        *(f.TIME, PLAN, _SERVE),
        "Host time in each step that the device waits for, e.g. 500us; by default what was "
        "measured of the runtime.",
        "--host",
    )
    speculate: int = _ask(
        *(f.whole("tokens", 0), PLAN, _SERVE, "Tokens drafted in a step.", "--speculate"),
        default=0,
    )
    acceptance: float | None = _ask(
        *(f.SHARE, PLAN, _SERVE),
        *("Probability that a drafted token is kept; needed with --speculate.", "--acceptance"),
    )
    draft: Any = _ask(
        *(f.MODEL, PLAN, _SERVE),
        *("Model that drafts; by default its own multi-token-prediction layer.", "--draft"),
    )
    routing_skew: float = _ask(
        *(f.number("1"), PLAN, _SERVE),
        *("Zipf exponent of tokens over experts; 0 is uniform.", "--routing-skew"),
        default=0.0,
    )
    sequences: int = _ask(
        *(f.whole("sequences"), PLAN, _TRAIN, "Of one microbatch on one replica.", "--sequences"),
        default=1,
    )
    microbatches: int = _ask(
        *(f.whole("passes"), PLAN, _TRAIN, "Passes before an update.", "--microbatches"),
        default=1,
    )
    zero: int = _ask(
        *(f.whole("stage", 0), PLAN, _TRAIN),
        *("Divided among replicas: 1 optimizer states, 2 gradients, 3 parameters.", "--zero"),
        default=0,
    )
    recompute: str = _ask(
        *(f.choice("none", "full"), PLAN, _TRAIN),
        *("What is computed again instead of kept.", "--recompute"),
        default="none",
    )
    text: str | None = _ask(
        *(f.TEXT, LISTED, "devices models", "Only names that have this.", "--text")
    )
    family: str | None = _ask(*(f.TEXT, LISTED, "models", "Only this family.", "--family"))
    vendor: str | None = _ask(*(f.TEXT, LISTED, "devices", "Only this maker.", "--vendor"))
    category: str | None = _ask(
        *(f.TEXT, LISTED, "devices"),
        *("Only this class, e.g. 'datacenter gpu', edge, tpu, cpu.", "--category"),
    )
    min_memory: str | None = _ask(
        *(f.TEXT, LISTED, "devices", "At least, e.g. 24GiB.", "--min-memory")
    )
    max_tdp: str | None = _ask(*(f.TEXT, LISTED, "devices", "At most, e.g. 75W.", "--max-tdp"))
    term: str | None = _ask(
        *(f.TEXT, LISTED, "explain", "E.g. 'ridge point'; by default every term.", "--term")
    )
    layouts: int = _ask(
        *(f.whole("layouts"), PRINT, _SERVE, "Layouts looked at in full.", "--layouts"),
        default=5,
    )
    top: int = _ask(
        *(f.whole("rows", 0), PRINT, f"{_RUNS} {_PLANS} import", "Rows of each list; 0 shows all."),
        *("--top",),
        default=10,
        absent={"python": "records are returned whole"},
    )

    def several(self, name: str) -> tuple[Any, ...]:
        """The values of a field, ``(None,)`` where none was given."""
        value = getattr(self, name)
        return (value,) if not isinstance(value, tuple) else value or (None,)

    def size_values(self) -> dict[str, Any]:
        """The sizes that were given, by symbol, the batch apart.

        Raises:
            InputError: One that is given twice.
        """
        own = {name: getattr(self, name) for name in ("seq", "context", "image")}
        given = {name: value for name, value in own.items() if value is not None}
        others = self.sizes or {}
        for name, value in ({"batch": self.batch_size} | own).items():
            if name in others and value is not None:
                own_text = ",".join(map(str, value if isinstance(value, tuple) else (value,)))
                raise InputError(
                    f"{name} is given twice: {others[name]} among the sizes, {own_text} on its "
                    "own; give it once."
                )
        return given | others


#: Name → field, in the order in which faces show them.
FIELDS: Final[dict[str, Field]] = {
    one.name: dataclasses.replace(one.metadata["field"], name=one.name)
    for one in dataclasses.fields(Question)
    if "field" in one.metadata
}


def fields_of(verb: str, face: str) -> Iterator[Field]:
    """What a face (``cli``, ``python``, ``mcp``) offers for a verb."""
    return (field for field in FIELDS.values() if field.on(face, verb))


def ask(verb: str, given: Mapping[str, Any], face: str = "python") -> Question:
    """A question from what a user gave; None is what was not given.

    Args:
        verb: One of `VERBS`.
        given: Field → text or value.
        face: How the fields are called in messages.

    Raises:
        UnknownNameError: A field that the verb does not have.
        InputError: A value that cannot be used, or a required one that is missing.
    """
    known = {field.name: field for field in fields_of(verb, face)}
    for name in given:
        if name not in known:
            closest = difflib.get_close_matches(name, known, 3, 0.6)
            raise UnknownNameError("argument", name, closest or known)
    read = {
        name: known[name].read(value, verb, known[name].label(face))
        for name, value in given.items()
        if value is not None
    }
    for name, field in known.items():
        if verb in field.required and read.get(name) in (None, ()):
            raise InputError(f"{verb} needs {field.label(face)}. {field.help}")
    return Question(verb=verb, **read)
