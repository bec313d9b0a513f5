"""Times of the steps of one layout on one device, for many batches at once.

A step's time is the expected time of `gambrel.analysis` of the workload of the busiest device;
where no constants are known, the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from gambrel.analysis.estimate.store import load
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import footprint
from gambrel.analysis.settings import Settings
from gambrel.analysis.sweep import Floats, sweep
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.llm.kv import kv_cache
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.question import Engine, Requests
from gambrel.llm.serving.records import Memory
from gambrel.llm.sharded import build_rank
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec
from gambrel.llm.step import Step, decode, prefill, verify
from gambrel.llm.topology import Topology
from gambrel.ops import Conventions
from gambrel.runtimes import choose
from gambrel.workload import Symbol, Workload


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """One layout of one model on one device.

    Attributes:
        spec: The model.
        device: Of the catalog, or the user's.
        placed: The same with the links of its node.
        topology: The node.
        sharding: Of one replica.
        precisions: Number formats.
        engine: The serving engine.
        built: Workloads that were built before; those of devices with equal nodes are equal.
    """

    spec: ModelSpec
    device: Device
    placed: Device
    topology: Topology
    sharding: Sharding
    precisions: Precisions
    engine: Engine
    built: dict[Any, Workload]

    def workload(self, step: Step, spec: ModelSpec | None = None) -> Workload:
        """The workload of the busiest device in a step."""
        formats = native(self.precisions, self.device)
        key = (id(spec or self.spec), step, formats, self.sharding, self.topology)
        if key not in self.built:
            self.built[key] = build_rank(
                spec or self.spec,
                step,
                formats,
                self.sharding,
                topology=self.topology,
                runtime=self.runtime,
                routing_skew=self.engine.routing_skew,
            )
        return self.built[key]

    def seconds(self, step: Step, sizes: dict[str, Sequence[int]]) -> Floats:
        """Expected seconds of all stages one after another, at every size."""
        return self.stages * self._one_stage(self.workload(step), sizes)

    @property
    def runtime(self) -> str:
        """Id of the runtime: the engine's, else what the device runs language models with."""
        return choose(self.device, self.engine.runtime, language=True).runtime.id

    def _one_stage(self, workload: Workload, sizes: dict[str, Sequence[int]]) -> Floats:
        seconds = self._swept(workload, sizes)
        hidden = self.engine.overlap
        talk = tuple(op for op in workload.ops if op.kind == "collective") if hidden else ()
        if not talk:
            return seconds
        return seconds - hidden * self._swept(msgspec.structs.replace(workload, ops=talk), sizes)

    def _swept(self, workload: Workload, sizes: dict[str, Sequence[int]]) -> Floats:
        found = sweep(
            workload,
            [self.placed],
            [workload.dtype],
            sizes,
            Settings(runtime=self.runtime, calibration=load()),
        )
        expected = found.expected_time_s
        return np.where(np.isnan(expected), found.roofline_time_s, expected)

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.sharding.pipeline


#: Number formats of four bits that a matrix engine may multiply by itself.
_FOUR_BITS: Final = ("mxfp4", "nvfp4", "fp4")


def native(precisions: Precisions, device: Device) -> Precisions:
    """The formats as engines use them on a device.

    Experts stored in mxfp4 meet 16-bit activations by conversion where a device has no such engine.
    Where it has, engines hand the activations over in 8 bits and the matrix engine multiplies both.
    """
    has = any(device.ceiling("matrix", dtype) for dtype in _FOUR_BITS)
    if precisions.of("experts") == "mxfp4" and precisions.multiply == "bf16" and has:
        return msgspec.structs.replace(precisions, compute="fp8")
    return precisions


def symbolic(step: Step, **defaults: int) -> Step:
    """The step with the named sizes left open."""
    symbols = tuple(
        Symbol(name=name, default=max(value, 1), minimum=0 if name == "cached" else 1)
        for name, value in defaults.items()
    )
    return msgspec.structs.replace(step, symbols=symbols)


def decode_seconds(setup: Setup, context: int, batches: Sequence[int]) -> Floats:
    """Seconds until every request in flight has one more token.

    Args:
        setup: The layout.
        context: Tokens that the new one sees.
        batches: Requests of one microbatch on one device.
    """
    speculation = setup.engine.speculation
    if speculation is None:
        step = symbolic(decode("batch", context), batch=batches[0])
        return setup.seconds(step, {"batch": batches}) + setup.engine.host_s
    step = symbolic(verify("batch", context, speculation.tokens), batch=batches[0])
    seconds = setup.seconds(step, {"batch": batches})
    drafting = symbolic(decode("batch", context), batch=batches[0])
    own = speculation.draft or _drafter(setup.spec)
    seconds = seconds + speculation.tokens * setup.stages * setup._one_stage(
        setup.workload(drafting, own), {"batch": batches}
    )
    return (seconds + setup.engine.host_s) / speculation.tokens_per_step


def _drafter(spec: ModelSpec) -> ModelSpec:
    """The model's own prediction layer as a model of one layer, with its head."""
    from gambrel.errors import InputError
    from gambrel.llm.spec import LayerGroup

    if spec.mtp_layer is None:
        raise InputError(
            f"speculation: {spec.name} has no multi-token-prediction layer; name a draft model."
        )
    group = LayerGroup(layer=spec.mtp_layer, count=1, name="mtp")
    return msgspec.structs.replace(spec, layers=(group,), mtp=0, mtp_layer=None)


class PromptTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Prefill.

    Attributes:
        alone_s: One prompt, from start to first token.
        each_s: What one prompt adds to the time of the device when prompts share steps.
        shared: Prompts that share a step, of one replica.
    """

    alone_s: float
    each_s: float
    shared: int


def prompt_times(setup: Setup, requests: Requests) -> PromptTimes:
    """Times of prompts: several in one step, or one in several chunks."""
    new, most = requests.new_tokens, setup.engine.step_tokens
    groups = setup.sharding.attention_data
    if new > most:
        stage = _chunked(setup, requests)
        return PromptTimes(alone_s=setup.stages * stage, each_s=stage / groups, shared=groups)
    together = max(1, most // new)
    step = symbolic(prefill("batch", new, requests.cached_tokens), batch=1)
    one, several = setup._one_stage(setup.workload(step), {"batch": [1, together]})
    return PromptTimes(
        alone_s=float(setup.stages * one),
        each_s=float(several / together / groups),
        shared=together * groups,
    )


def _chunked(setup: Setup, requests: Requests) -> float:
    """Seconds of one stage for a prompt in chunks, each behind those before it."""
    new, most = requests.new_tokens, setup.engine.step_tokens
    starts = range(requests.cached_tokens, requests.input_tokens - most + 1, most)
    step = symbolic(prefill(1, most, "cached"), cached=most)
    seconds = float(setup._one_stage(setup.workload(step), {"cached": list(starts)}).sum())
    rest = new % most
    if rest:
        step = symbolic(prefill("batch", rest, requests.input_tokens - rest), batch=1)
        seconds += float(setup._one_stage(setup.workload(step), {"batch": [1]})[0])
    return seconds


def memory(setup: Setup, requests: Requests) -> Memory:
    """What one device holds, and how many requests fit beside it."""
    most = min(setup.engine.step_tokens, requests.new_tokens)
    step = prefill(1, most, requests.cached_tokens)
    workload = setup.workload(step)
    evaluator = Evaluator(workload, {}, {}, Conventions())
    needs = footprint(workload, evaluator, None)
    level = main_memory(setup.device)
    capacity = level.capacity_bytes if level else None
    usable = float("inf") if capacity is None else capacity * setup.engine.utilization
    cache = kv_cache(
        setup.spec,
        setup.precisions,
        batch=1,
        context=requests.longest,
        policy=setup.engine.policy,
        sharding=setup.sharding,
    ).allocated_bytes
    tokens = most * max(1, setup.engine.step_tokens // most)
    activations = needs.activations_bytes * tokens / most
    free = usable - needs.weights_bytes - activations
    fitting = int(free // cache) if cache and free > 0 and np.isfinite(free) else 0
    return Memory(
        capacity_bytes=capacity,
        usable_bytes=usable,
        weights_bytes=needs.weights_bytes,
        activations_bytes=activations,
        sequence_bytes=cache,
        max_sequences=fitting if np.isfinite(free) and cache else (_ANY if free > 0 else 0),
    )


#: Requests that a device without a known capacity, or a model without a cache, may hold.
_ANY = 1 << 16
