"""The public functions that plan: serving, a training step, the key/value cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from gambrel.device.resolve import Hardware, listed_hardware, resolve_hardware
from gambrel.errors import InputError
from gambrel.units import parse_quantity

if TYPE_CHECKING:
    from gambrel.device.model import Device
    from gambrel.llm.cache_plan import CachePlan
    from gambrel.llm.precision import Precisions
    from gambrel.llm.serving.question import Speculation
    from gambrel.llm.serving.records import Plan
    from gambrel.llm.sharding import Sharding
    from gambrel.llm.spec import ModelSpec
    from gambrel.llm.topology import Topology
    from gambrel.llm.training import TrainingStep


def serve_plan(
    model: Any,
    hardware: Hardware | Sequence[Hardware],
    *,
    input: str | int,
    output: str | int,
    max_devices: int = 8,
    ttft: str | float | None = None,
    tpot: str | float | None = None,
    precision: str | Sequence[str] | None = None,
    concurrency: int | None = None,
    rate: str | float | None = None,
    cached: str | int = 0,
    price: str | float | Mapping[str, str | float] | None = None,
    sharding: Sharding | Sequence[Sharding] | None = None,
    topology: str | PathLike[str] | Topology | None = None,
    runtime: str | None = None,
    utilization: float = 0.9,
    page: int = 16,
    step_tokens: int = 8192,
    overlap: float = 0.0,
    host: str | float = 0.0,
    speculate: int = 0,
    acceptance: float | None = None,
    draft: Any = None,
    routing_skew: float = 0.0,
    top: int = 5,
) -> Plan:
    """Plans the serving of a language model: what fits, how fast, how many devices, which layout.

    Args:
        model: A name (``"llama-3.1-70b"``), a ``config.json``, its folder or content, or a
            `gambrel.llm.spec.ModelSpec`.
        hardware: One device or several to compare, as for `gambrel.analyze`.
        input: Tokens of a prompt; ``"8k"`` is 8,192.
        output: Tokens of an answer.
        max_devices: Most devices, all replicas together.
        ttft: Time to first token, at most: ``"1s"``, or a number in s.
        tpot: Time per output token after the first, (total - TTFT) / (output - 1), at most.
        precision: Number formats to compare, e.g. ``"fp8"`` or ``"w4a16,kv=fp8"``, a list for
            several; None is the checkpoint's own.
        concurrency: Requests in flight, all replicas together; None: as many as the promise allows.
        rate: Requests a second to be served; None: as many as possible.
        cached: Tokens of a prompt that a prefix cache holds.
        price: Of a device-hour, one number or one a device: results then carry the cost of a
            million tokens and are ranked by it.
        sharding: Layouts of one replica to compare; None: all that the model allows.
        topology: A TOML file or a named node; None: the usual node of the device.
        runtime: The serving engine, e.g. ``"vllm"``; None takes the device's default.
        utilization: Share of a device's memory that the engine may use.
        page: Tokens of a page of the cache.
        step_tokens: Most prompt tokens of one step.
        overlap: Share of communication hidden behind computation; an assumption.
        host: Time of the host in every step that the device waits for.
        speculate: Tokens drafted in a step; 0 is none.
        acceptance: Probability that a drafted token is kept; needed with ``speculate``.
        draft: Model that drafts; None: the model's own multi-token-prediction layer.
        routing_skew: Exponent of a Zipf distribution of tokens over experts; 0 is uniform.
        top: Choices to look at in full.

    Returns:
        The plan; its ``best`` choices carry the analysis of each step, op by op.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.analysis.estimate.store import load as load_calibration
    from gambrel.analysis.settings import Settings
    from gambrel.llm.kv import Policy
    from gambrel.llm.serving.plan import plan
    from gambrel.llm.serving.question import Engine, Promise, Requests

    spec = _spec(model, precision, "w4a16")
    devices = [resolve_hardware(one)[0] for one in listed_hardware(hardware)]
    requests = Requests(
        input_tokens=tokens(input, "input"),
        output_tokens=tokens(output, "output"),
        cached_tokens=tokens(cached, "cached"),
        concurrency=concurrency,
        per_s=_value(rate, "throughput", "rate"),
    )
    engine = Engine(
        utilization=utilization,
        policy=Policy(page=page),
        step_tokens=step_tokens,
        overlap=overlap,
        host_s=_value(host, "time", "host") or 0.0,
        speculation=_speculation(speculate, acceptance, draft),
        routing_skew=routing_skew,
    )
    return plan(
        spec,
        devices,
        _precisions(spec, precision),
        requests,
        max_devices=max_devices,
        promise=Promise(ttft_s=_value(ttft, "time", "ttft"), tpot_s=_value(tpot, "time", "tpot")),
        engine=engine,
        settings=Settings(runtime=runtime, calibration=load_calibration()),
        prices=_prices(price, devices),
        topology=_topology(topology),
        shardings=_shardings(sharding),
        top=top,
    )


def train_plan(
    model: Any,
    hardware: Hardware,
    *,
    seq: str | int,
    sequences: int = 1,
    microbatches: int = 1,
    tensor: int = 1,
    pipeline: int = 1,
    data: int = 1,
    context: int = 1,
    expert: int = 1,
    zero: int = 0,
    recompute: str = "none",
    overlap: float = 0.0,
    precision: str | None = None,
    topology: str | PathLike[str] | Topology | None = None,
    runtime: str | None = None,
) -> TrainingStep:
    """Predicts a training step of a language model: time, MFU, tokens per second, memory.

    Args:
        model: As for `serve_plan`.
        hardware: One device.
        seq: Tokens of a sequence; ``"8k"`` is 8,192.
        sequences: Of one microbatch on one data-parallel device.
        microbatches: Passes before an update.
        tensor: Devices that share every layer.
        pipeline: Stages of layers.
        data: Replicas that average their gradients.
        context: Devices that share a sequence.
        expert: Groups that divide the experts, within ``tensor``.
        zero: 0 to 3: nothing, optimizer states, gradients, parameters divided among replicas.
        recompute: ``"none"`` or ``"full"``: what is computed again instead of kept.
        overlap: Share of the exchange of gradients hidden behind backward; an assumption.
        precision: Number formats of weights and activations; None is bf16.
        topology: A TOML file or a named node; None: the usual node of the device.
        runtime: How it is executed.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.analysis.estimate.store import load as load_calibration
    from gambrel.analysis.settings import Settings
    from gambrel.llm.precision import Precisions
    from gambrel.llm.sharding import Sharding
    from gambrel.llm.training import TrainingPlan, train

    plan = TrainingPlan(
        sequences=sequences,
        seq=tokens(seq, "seq"),
        microbatches=microbatches,
        sharding=Sharding(
            tensor=tensor, pipeline=pipeline, data=data, context=context, expert=expert
        ),
        zero=zero,
        recompute=recompute,
        overlap=overlap,
    )
    return train(
        _spec(model, precision, "bf16"),
        resolve_hardware(hardware)[0],
        plan,
        precisions=None if precision is None else Precisions.parse(precision),
        topology=_topology(topology),
        settings=Settings(runtime=runtime, calibration=load_calibration()),
    )


def kv_cache(
    model: Any,
    *,
    context: str | int = 8192,
    batch: int = 1,
    hardware: Hardware | None = None,
    precision: str | None = None,
    page: int = 16,
    windowed: str = "full",
    utilization: float = 0.9,
) -> CachePlan:
    """Counts the key/value cache of a language model, and the batch and context that fit.

    Args:
        model: A name, a ``config.json``, its folder or content, a ``.gguf`` file, or a
            `gambrel.llm.spec.ModelSpec`.
        context: Tokens of each sequence; ``"8k"`` is 8,192.
        batch: Sequences.
        hardware: A device, as for `gambrel.analyze`; without one nothing is said of what fits.
        precision: For example ``"fp8"`` or ``"bf16,kv=fp8"``; None is the checkpoint's own.
        page: Tokens of a page.
        windowed: ``"full"``: windowed layers reserve pages for the whole context, as engines with
            one page table do; ``"window"``: only those that the window touches.
        utilization: Share of the device's memory that the engine may use.

    Returns:
        Bytes needed and reserved by kind of layer, and what fits.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.capture.gguf import BASE, gguf_spec
    from gambrel.llm.cache_plan import plan_cache
    from gambrel.llm.known import spec_of
    from gambrel.llm.kv import Policy
    from gambrel.llm.precision import Precisions

    weights: float | None = None
    if str(model).lower().endswith(".gguf"):
        spec, header = gguf_spec(str(model))
        weights, chosen = float(header.nbytes), Precisions.parse(precision or BASE, BASE)
    else:
        spec = spec_of(model)
        own = spec.quantization.precision if spec.quantization else spec.dtype
        chosen = Precisions.parse(precision or own, spec.dtype)
    device = None if hardware is None else resolve_hardware(hardware)[0]
    return plan_cache(
        spec,
        chosen,
        batch=batch,
        context=tokens(context, "context"),
        policy=Policy(page=page, windowed=windowed),  # type: ignore[arg-type]  # it checks
        device=device.id if device else "",
        capacity_bytes=_capacity(device),
        utilization=utilization,
        weights_bytes=weights,
    )


def _spec(model: Any, precision: object, example: str) -> ModelSpec:
    """The model of a plan; that of a GGUF file without its tensors of many widths.

    Raises:
        InputError: A GGUF file and no number formats: a plan has one scheme for all layers.
    """
    from gambrel.llm.known import spec_of

    if not str(model).lower().endswith(".gguf"):
        return spec_of(model)
    from gambrel.capture.gguf import gguf_spec

    spec, header = gguf_spec(str(model))
    if not precision:
        bits = 8 * header.nbytes / sum(t.elements for t in header.tensors)
        raise InputError(
            f"{model}: its tensors take {bits:.3g} bits a value on average, and a plan needs one "
            f"scheme of formats; give --precision, e.g. {example}."
        )
    return spec


def _capacity(device: Device | None) -> int | None:
    from gambrel.analysis.roofs import roofs_of

    return None if device is None else roofs_of(device).capacity_bytes


def tokens(value: str | int, name: str) -> int:
    """A number of tokens: 8192, ``"8192"``, ``"8k"`` (8 x 1,024) or ``"1M"`` (1,024 x 1,024).

    Raises:
        InputError: Not such a number.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    scale = {"k": 1024, "m": 1024**2}.get(text[-1:], 1)
    digits = text[:-1] if scale > 1 else text
    try:
        number = float(digits) * scale
    except ValueError:
        number = -1.0
    if not 0 <= number < 1 << 40 or number != int(number):
        raise InputError(f"{name}={value!r}: give a number of tokens, e.g. 8192 or 8k.")
    return int(number)


def _value(given: str | float | None, quantity: str, name: str) -> float | None:
    if given is None:
        return None
    if isinstance(given, str) and not given.strip():
        raise InputError(f"{name} is empty.")
    if isinstance(given, str):
        return 0.0 if given.strip() in {"0", "0s"} else parse_quantity(given, quantity)
    return float(given)


def _precisions(spec: ModelSpec, given: str | Sequence[str] | None) -> list[Precisions]:
    from gambrel.llm.precision import Precisions

    if given is None:
        own = spec.quantization
        return [Precisions.parse(own.precision if own else spec.dtype, spec.dtype)]
    texts = [given] if isinstance(given, str) else list(given)
    if not texts:
        raise InputError("precision: name at least one number format.")
    return [Precisions.parse(text, spec.dtype) for text in texts]


def _speculation(count: int, acceptance: float | None, draft: Any) -> Speculation | None:
    from gambrel.llm.known import spec_of
    from gambrel.llm.serving.question import Speculation

    if not count:
        if draft is not None or acceptance is not None:
            raise InputError("speculate: say how many tokens are drafted in a step, e.g. 3.")
        return None
    if acceptance is None:
        raise InputError(
            "acceptance: say with which probability a drafted token is kept, e.g. 0.7; it depends "
            "on the draft and the text and is not known beforehand."
        )
    return Speculation(
        tokens=count, acceptance=acceptance, draft=None if draft is None else spec_of(draft)
    )


def _prices(
    given: str | float | Mapping[str, str | float] | None, devices: Sequence[Device]
) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return {device.id: _price(given) for device in devices}
    return {resolve_hardware(name)[0].id: _price(value) for name, value in given.items()}


def _price(text: str | float) -> float:
    """``3.5``, ``"3.5"`` or ``"3.5/h"``."""
    if not isinstance(text, str):
        return float(text)
    try:
        return float(text.strip().removesuffix("/h").lstrip("$€"))
    except ValueError:
        raise InputError(f"price {text!r}: write what an hour costs, e.g. 3.5/h.") from None


def _topology(given: str | PathLike[str] | Topology | None) -> str | Topology | None:
    return str(given) if isinstance(given, PathLike) else given


def _shardings(given: Sharding | Sequence[Sharding] | None) -> list[Sharding] | None:
    from gambrel.llm.sharding import Sharding

    if given is None:
        return None
    return [given] if isinstance(given, Sharding) else list(given)
