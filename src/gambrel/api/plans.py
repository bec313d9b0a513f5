"""The public functions that plan: serving, a training step, the key/value cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel.analysis.question import Question
from gambrel.analysis.roofs import roofs_of
from gambrel.api.analyze import settings_of
from gambrel.api.faces import asks
from gambrel.capture.gguf import BASE, gguf_spec
from gambrel.device.levels import device_class
from gambrel.device.model import Device
from gambrel.device.resolve import asked_device, asked_devices, prices_of, resolve_hardware
from gambrel.errors import InputError
from gambrel.hub import SCHEME
from gambrel.llm.known import spec_of, weights_of
from gambrel.llm.kv import Policy
from gambrel.llm.precision import Precisions
from gambrel.llm.sharded import as_loaded
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec

if TYPE_CHECKING:
    from gambrel.llm.adapters import Adapters
    from gambrel.llm.cache_plan import CachePlan
    from gambrel.llm.serving.question import ServingEngine, Speculation
    from gambrel.llm.serving.records import Plan
    from gambrel.llm.training import TrainingStep
    from gambrel.llm.training_search import TrainingSearch

#: Devices of a plan that does not say how many, where several in a node are usual: those with a
#: link, and these classes (a card of theirs has PCIe); a device given by its peaks is unknown ("").
_MOST: Final = 8
_RACKED: Final = ("datacenter", "workstation", "consumer", "")


@asks("serve-plan")
def serve_plan(question: Question) -> Plan:
    """Plans the serving of a language model: what fits, how fast, how many devices, which layout.

    Returns:
        The plan; its ``best`` choices carry the analysis of each step, op by op.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.llm.serving.plan import plan
    from gambrel.llm.serving.question import Requests, Target

    q = with_devices(question)
    spec = served_spec(q)
    devices, _ = asked_devices(q.hardware, q.peak, q.bandwidth)
    requests = Requests(
        input_tokens=q.input,
        output_tokens=q.output,
        cached_tokens=q.cached,
        concurrency=q.concurrency,
        per_s=q.rate,
        arrivals=q.arrivals,
    )
    check_longest(q, requests.longest)
    return plan(
        spec,
        devices,
        [spec.precisions(text) for text in q.several("precision")],
        requests,
        max_devices=q.max_devices,
        target=Target(ttft_s=q.ttft, tpot_s=q.tpot),
        engine=engine_of(q),
        settings=settings_of(q, precision=None),
        prices=prices_of(q.prices, devices),
        topology=topology_of(q.topology),
        shardings=_shardings(q, spec),
        top=q.layouts,
        name=name_of(q, spec),
        remarks=unread_of(q),
    )


@asks("train-plan")
def train_plan(question: Question) -> TrainingStep:
    """Predicts a training step of a language model: time, MFU, tokens per second, memory.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.llm.training import train
    from gambrel.llm.training_plan import TrainingPlan

    q = question
    if q.devices is not None or q.global_batch is not None:
        raise InputError(
            "devices and global_batch belong to a search: add --search (in Python: train_search), "
            "or name the layout with --tensor, --pipeline, --data."
        )
    plan = TrainingPlan(
        sequences=q.sequences,
        seq=q.seq,
        microbatches=q.microbatches,
        sharding=_training_layout(**degrees_of(q)),
        virtual=q.virtual,
        schedule=q.schedule,
        zero=q.zero,
        recompute=q.recompute,
        overlap=q.overlap,
        offload=q.offload,
        tuning=q.tuning,
        loss=q.loss,
        **_memory(q),
    )
    step = train(
        spec_of_plan(q.model, q.precision, "bf16"),
        asked_device(q.hardware, q.peak, q.bandwidth)[0],
        plan,
        settings=settings_of(q, precision=None),
        precisions=None if q.precision is None else Precisions.parse(q.precision),
        topology=topology_of(q.topology),
    )
    return step.over(q.total_tokens, plan.sharding.devices)


@asks("train-search")
def train_search(question: Question) -> TrainingSearch:
    """Searches the fastest layouts of a training step on so many devices.

    Returns:
        The best plans that fit with why each is slower than the one before, and the Pareto front
        of time and memory.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.llm.training_search import search

    q = question
    if q.devices is None or q.global_batch is None:
        name = "devices" if q.devices is None else "global-batch"
        raise InputError(f"a search needs {name}, e.g. --{name} 64.")
    found = search(
        spec_of_plan(q.model, q.precision, "bf16"),
        asked_device(q.hardware, q.peak, q.bandwidth)[0],
        devices=q.devices,
        sequences=q.global_batch,
        seq=q.seq,
        precisions=None if q.precision is None else Precisions.parse(q.precision),
        topology=topology_of(q.topology),
        settings=settings_of(q, precision=None),
        fixed=degrees_of(q),
        **_memory(q),
    )
    step = found.step and found.step.over(q.total_tokens, q.devices)
    return msgspec.structs.replace(found, step=step)


def _training_layout(tensor: int = 1, data: int = 1, expert: int = 1, **others: int) -> Sharding:
    """A layout as training stacks state it: experts go over tensor groups of several replicas.

    Raises:
        InputError: Groups of experts that the devices of tensor groups and replicas do not divide.
    """
    groups = 1
    if expert > tensor:
        groups = expert // tensor
        if expert % tensor or data % groups:
            raise InputError(
                f"expert={expert}: with tensor={tensor} and data={data} the experts may be divided "
                f"into tensor times a divisor of data groups, e.g. {tensor * data}."
            )
    return Sharding(
        tensor=tensor * groups,
        attention_data=groups,
        expert=expert,
        data=data // groups,
        **others,
    )


@asks("kv-cache")
def kv_cache(question: Question) -> CachePlan:
    """Counts the key/value cache of a language model, and the batch and context that fit.

    Returns:
        Bytes needed and reserved by kind of layer, and, on a device, what fits.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.llm.cache_plan import plan_cache

    q = question
    weights: float | None = None
    if str(q.model).lower().endswith(".gguf"):
        spec, header = gguf_spec(str(q.model))
        weights, chosen = float(header.nbytes), Precisions.parse(q.precision or BASE, BASE)
    else:
        spec = as_loaded(spec_of(q.model))
        chosen = spec.precisions(q.precision)
    device = None if q.hardware is None else resolve_hardware(q.hardware)[0]
    return plan_cache(
        spec,
        chosen,
        batch_size=q.batch_size or 1,
        context=q.context or 8192,
        policy=Policy(page=q.page, windowed=q.windowed),  # type: ignore[arg-type]  # it checks
        device=device.id if device else "",
        capacity_bytes=None if device is None else roofs_of(device).capacity_bytes,
        weights_bytes=weights,
        **_memory(q),
    )


def _memory(question: Question) -> dict[str, Any]:
    """The share of the memory that may be used, if it was given."""
    share = question.utilization
    return {} if share is None else {"utilization": share}


def with_devices(question: Question) -> Question:
    """With how many devices there may be: those without a link work alone unless asked."""
    if question.max_devices is not None:
        return question
    named = [one for one in question.several("hardware") if one is not None]
    devices, _ = asked_devices(named, question.peak, question.bandwidth)
    return replace(question, max_devices=_MOST if any(map(_joins, devices)) else 1)


def _joins(device: Device) -> bool:
    """Whether several of them in one node are usual."""
    return bool(device.links) or device_class(device) in _RACKED


def spec_of_plan(model: Any, precision: object, example: str) -> ModelSpec:
    """The model of a plan; that of a GGUF file without its tensors of many widths.

    Raises:
        InputError: A GGUF file and no number formats: a plan has one scheme for all layers.
    """
    if not str(model).lower().endswith(".gguf"):
        return spec_of(model)
    spec, header = gguf_spec(str(model))
    if not precision:
        bits = 8 * header.nbytes / sum(t.elements for t in header.tensors)
        raise InputError(
            f"{model}: its tensors take {bits:.3g} bits a value on average, and a plan needs one "
            f"scheme of formats; give --precision, e.g. {example}."
        )
    return spec


def served_spec(question: Question) -> ModelSpec:
    """The model of a question about serving, as engines load it.

    Raises:
        InputError: A GGUF file and no number formats.
    """
    return as_loaded(spec_of_plan(question.model, question.precision, "w4a16"))


def engine_of(question: Question) -> ServingEngine:
    """How the serving engine is set up."""
    from gambrel.llm.serving.question import STEP_TOKENS, ServingEngine

    q = question
    # A deployment that exists has the limits of its engine; a new one serves what memory holds.
    mine = ("step_tokens", "max_requests") if q.config else ("step_tokens",)
    return ServingEngine(
        policy=Policy(page=q.page),
        step_tokens=q.step_tokens or STEP_TOKENS,
        unset=tuple(name for name in mine if getattr(q, name) is None),
        overlap=q.overlap or 0.0,
        host_s=q.host,
        frontend_s=q.frontend,
        eager=q.eager,
        speculation=_speculation(q),
        max_requests=q.max_requests,
        routing_skew=q.routing_skew,
        lora=_adapters(q),
        host_cache_bytes=q.kv_offload,
        offline=getattr(q, "arrivals", None) == "offline",
        **_memory(q),
    )


def _adapters(question: Question) -> Adapters | None:
    """Adapters beside the weights.

    Raises:
        InputError: Adapters without a rank, or host memory without cached prefixes.
    """
    from gambrel.llm.adapters import Adapters

    q = question
    if q.kv_offload is not None and not (getattr(q, "cached", 0) or getattr(q, "hit_rate", 0)):
        raise InputError(
            "kv_offload: say which part of the prompts is cached: cached (tokens), or in serve-sim "
            "hit_rate (a share)."
        )
    if not q.lora_rank:
        if q.lora_adapters != 1:
            raise InputError("lora_adapters: give their rank, e.g. lora_rank=16.")
        return None
    return Adapters(rank=q.lora_rank, count=q.lora_adapters)


def check_longest(question: Question, tokens: int) -> None:
    """Refuses requests beyond the longest that a deployment takes.

    Raises:
        InputError: How long they are, and the limit.
    """
    most = question.longest
    if most is not None and tokens > most:
        raise InputError(
            f"input + output = {tokens:,} tokens is beyond the {most:,} of the longest request "
            "(--longest, or the engine's limit of a model's length)."
        )


def name_of(question: Question, spec: ModelSpec) -> str:
    """What a command line calls the model: its published weights, or as the user did."""
    given = question.model if isinstance(question.model, str) else spec.name
    path = Path(given)
    if path.name == "config.json":
        return str(path.parent)
    return weights_of(given) or given.removeprefix(SCHEME)


def unread_of(question: Question) -> tuple[str, ...]:
    """What of a deployment's configuration has no part in the answer, in a sentence."""
    unread = question.config.unread if question.config is not None else ()
    return (f"of the configuration these say nothing here: {'; '.join(unread)}.",) if unread else ()


def _speculation(question: Question) -> Speculation | None:
    from gambrel.llm.serving.question import Speculation

    q = question
    if not q.speculate:
        if q.draft is not None or q.acceptance is not None:
            raise InputError("speculate: say how many tokens are drafted in a step, e.g. 3.")
        return None
    if q.acceptance is None:
        raise InputError(
            "acceptance: say with which probability a drafted token is kept, e.g. 0.7; it depends "
            "on the draft and the text and is not known beforehand."
        )
    draft = None if q.draft is None else spec_of(q.draft)
    return Speculation(tokens=q.speculate, acceptance=q.acceptance, draft=draft)


def topology_of(given: object) -> Any:
    """A topology as it was given; a path as a text."""
    return str(given) if isinstance(given, PathLike) else given


def degrees_of(question: Question) -> dict[str, int]:
    """Degrees of parallelism that were given."""
    names = {"tensor", "pipeline", "expert", "attention_data", "data"}
    given = {name: getattr(question, name) for name in names}
    return {
        name: value
        for name, value in {**given, "context": question.context_parallel}.items()
        if value is not None
    }


def _shardings(question: Question, spec: ModelSpec) -> Sequence[Sharding] | None:
    from gambrel.llm.layouts import of_degrees

    given, degrees = question.sharding, degrees_of(question)
    if given is not None and degrees:
        raise InputError(f"give either sharding or {', '.join(sorted(degrees))}, not both.")
    if given is None:
        return of_degrees(spec, question.max_devices, degrees) if degrees else None
    several = list(given) if isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(one, Sharding) for one in several):
        raise InputError("sharding: give gambrel.llm.sharding.Sharding records.")
    return several
