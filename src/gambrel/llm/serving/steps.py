"""Times of the steps of one layout on one device, for many batches at once.

A step's time is the expected time of `gambrel.analysis` of the workload of the busiest device;
where no constants are known, the roofline time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from gambrel import roofline
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import footprint
from gambrel.analysis.settings import Settings
from gambrel.analysis.sol import Sol
from gambrel.analysis.sweep import sweep
from gambrel.analysis.sweep.points import Floats
from gambrel.analysis.workbench import speed_of_light
from gambrel.device.model import Device
from gambrel.device.roofs import host_link, main_memory, stand_in
from gambrel.errors import InputError
from gambrel.llm.adapters import with_adapters
from gambrel.llm.kv import UTILIZATION, KvCache, kv_cache
from gambrel.llm.limits import of_same_ops
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.engines import EngineMix
from gambrel.llm.serving.question import Requests, ServingEngine
from gambrel.llm.serving.records import ServingMemory
from gambrel.llm.serving.timing import Overhead, Prompts
from gambrel.llm.sharded import build_rank
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import LayerGroup, ModelSpec
from gambrel.llm.step import ForwardPass, decode, prefill, verify
from gambrel.llm.topology import Topology
from gambrel.ops import Conventions
from gambrel.runtimes import FrontEnd, Service, runtime
from gambrel.units import format_capacity
from gambrel.workload import Dim, Symbol, Workload

#: The size that contexts are the values of, where a step leaves them open.
CONTEXT: Final = "context"


class Times(msgspec.Struct, frozen=True):
    """Seconds of a step, one value per batch.

    Attributes:
        expected: Expected time.
        sol: Speed of light; NaN where no roof is known.
    """

    expected: Floats
    sol: Floats

    def times(self, factor: float) -> Times:
        """So many of them, one after another."""
        return Times(self.expected * factor, self.sol * factor)

    def then(self, other: Times) -> Times:
        """These, and others after them."""
        return Times(self.expected + other.expected, self.sol + other.sol)


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
        settings: Runtime, calibration, conventions; the runtime is that of the device.
        built: Workloads that were built before; those of devices with equal nodes are equal.
        mix: Engines whose mean is taken where none was named; None for one engine.
    """

    spec: ModelSpec
    device: Device
    placed: Device
    topology: Topology
    sharding: Sharding
    precisions: Precisions
    engine: ServingEngine
    settings: Settings
    built: dict[Any, Workload]
    mix: EngineMix | None = None

    @property
    def utilization(self) -> float:
        """Share of the memory that may be used: engines that serve reserve it, others take all."""
        given = self.engine.utilization
        if given is not None:
            return given
        return 1.0 if self.service is None else UTILIZATION

    def workload(self, step: ForwardPass, spec: ModelSpec | None = None) -> Workload:
        """The workload of the busiest device in a step; a model that drafts is whole on a stage."""
        sharding = self.sharding
        if spec is not None:
            sharding = msgspec.structs.replace(sharding, pipeline=1)
        formats = native(self.precisions, self.device)
        name = self.settings.runtime or ""
        key = (id(spec or self.spec), step, formats, sharding, self.topology, name)
        if key not in self.built:
            workload = build_rank(
                spec or self.spec,
                step,
                formats,
                sharding,
                topology=self.topology,
                runtime=name,
                fused=not name or runtime(name).served,
                routing_skew=self.engine.routing_skew,
            )
            if self.engine.lora is not None and spec is None:
                workload = with_adapters(workload, self.engine.lora)
            self.built[key] = workload
        return self.built[key]

    def stage(
        self, step: ForwardPass, sizes: Mapping[str, Sequence[int]], spec: ModelSpec | None = None
    ) -> Times:
        """Times of the busiest pipeline stage, at every size; symbols of the step are open.

        Contexts are the last size; those for which a model runs other ops are evaluated apart.
        """
        if CONTEXT not in sizes:
            return self._stage(step, sizes, spec)
        parts = [
            self._stage(step, {**sizes, CONTEXT: each}, spec)
            for each in of_same_ops(spec or self.spec, sizes[CONTEXT])
        ]
        rows = len(sizes["batch"])
        expected = [part.expected.reshape(rows, -1) for part in parts]
        sol = [part.sol.reshape(rows, -1) for part in parts]
        return Times(np.concatenate(expected, 1).ravel(), np.concatenate(sol, 1).ravel())

    def _stage(
        self, step: ForwardPass, sizes: Mapping[str, Sequence[int]], spec: ModelSpec | None
    ) -> Times:
        workload = self.workload(symbolic(step, sizes), spec)
        found = self.swept(workload, sizes)
        hidden = self.engine.overlap
        talk = tuple(op for op in workload.ops if op.kind == "collective") if hidden else ()
        if not talk:
            return found
        shown = self.swept(msgspec.structs.replace(workload, ops=talk), sizes)
        return Times(found.expected - hidden * shown.expected, found.sol)

    def swept(self, workload: Workload, sizes: Mapping[str, Sequence[int]]) -> Times:
        """Times of a workload at every combination of sizes."""
        found = sweep(workload, [self.placed], [None], sizes, self.settings, times_only=True)
        known = ~np.isnan(found.expected_time_s)
        expected = np.where(known, found.expected_time_s, found.roofline_time_s)
        return Times(expected, found.sol_time_s)

    def speed_of_light(self, step: ForwardPass) -> Sol:
        """That of one stage in a step, with what it rests on."""
        return speed_of_light(self.workload(step), self.placed, self.settings)

    @property
    def service(self) -> Service | None:
        """What the serving engine adds to its steps; None where nothing was measured."""
        name = self.settings.runtime
        return runtime(name).service if name else None

    @property
    def host_s(self) -> float:
        """Host time of a step: as asked, else what was measured of the engine."""
        if self.engine.host_s is not None:
            return self.engine.host_s
        return self.service.step_s if self.service else 0.0

    @property
    def request_host_s(self) -> float:
        """Host time of a step for each request in it; none beside a host time that was asked."""
        if self.engine.host_s is not None or self.service is None:
            return 0.0
        return self.service.request_s

    @property
    def overhead(self) -> Overhead:
        """Floor of steps with prompt tokens, and the front end."""
        service, asked = self.service, self.engine.frontend_s
        if service is None and self.engine.eager:
            name = self.settings.runtime or "the runtime"
            raise InputError(
                f"eager: what {name} takes without graphs is not known; name a serving engine, "
                "e.g. runtime vllm."
            )
        if service is None:
            return Overhead(frontend=FrontEnd(alone_s=asked or 0.0))
        layers = sum(group.count for group in self.spec.layers)
        alone = service.alone_layer_s
        front = service.frontend if asked is None else FrontEnd(alone_s=asked)
        return Overhead(
            floor_s=service.eager_layer_s * layers,
            alone_floor_s=None if alone is None else alone * layers,
            graph_tokens=0 if self.engine.eager else service.graph_tokens,
            frontend=FrontEnd() if self.engine.offline else front,
        )

    @property
    def mean_of(self) -> tuple[str, ...]:
        """The engines whose mean is taken; empty for one."""
        return self.mix.names if self.mix else ()

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.sharding.pipeline


def native(precisions: Precisions, device: Device) -> Precisions:
    """The formats as engines use them: bf16 is fp16 where a device has no other 16-bit products."""
    other = stand_in(device, "bf16")
    if other == "bf16":
        return precisions
    parts = {n: other for n in precisions.__struct_fields__ if getattr(precisions, n) == "bf16"}
    return msgspec.structs.replace(precisions, **parts)


def symbolic(step: ForwardPass, sizes: Mapping[str, Sequence[int]]) -> ForwardPass:
    """The step with the named sizes left open; contexts within their values."""
    symbols = tuple(
        Symbol(name=name, default=values[0], minimum=min(values), maximum=max(values))
        if name == CONTEXT
        else Symbol(name=name, default=max(values[0], 1), minimum=0 if name == "cached" else 1)
        for name, values in sizes.items()
    )
    return msgspec.structs.replace(step, symbols=symbols)


def decode_times(
    setup: Setup,
    context: Dim,
    batches: Sequence[int],
    *,
    contexts: Sequence[int] = (),
    source: int = 0,
) -> Times:
    """Seconds until every request in flight has one more token.

    The busiest stage runs once for every microbatch, of which there are as many as stages.

    Args:
        setup: The layout.
        context: Tokens that the new one sees.
        batches: Requests of one microbatch on one device.
        contexts: Where ``context`` is a symbol: its values, all of them for each batch.
        source: Tokens that an encoder has read of each.
    """
    speculation = setup.engine.speculation
    sizes = {"batch": batches} | ({str(context): contexts} if contexts else {})
    found = setup.stage(decode_step(setup, context, "batch", source), sizes)
    if speculation is not None:
        own = speculation.draft or _drafter(setup.spec)
        drafted = setup.stage(decode("batch", context), sizes, own)
        found = found.then(drafted.times(speculation.tokens))
    found = found.times(setup.stages)
    if setup.engine.eager:
        found = Times(np.maximum(found.expected, setup.overhead.floor_s), found.sol)
    per_replica = np.repeat(np.asarray(batches, dtype=float) * setup.stages, len(contexts) or 1)
    host_s = setup.host_s + setup.request_host_s * per_replica
    found = Times(found.expected + host_s, found.sol)
    if setup.mix is not None:
        mean = found.expected * setup.mix.mean(batches, contexts or [context])
        found = Times(np.fmax(mean, found.sol), found.sol)
    return found.times(1 / tokens_per_step(setup))


def decode_step(setup: Setup, context: Dim, batch: int | str, source: int = 0) -> ForwardPass:
    """The model's own step: one token, or the check of those that were drafted."""
    speculation = setup.engine.speculation
    if speculation is None:
        return msgspec.structs.replace(decode(batch, context), source=source)
    return msgspec.structs.replace(verify(batch, context, speculation.tokens), source=source)


def tokens_per_step(setup: Setup) -> float:
    """Tokens that a step adds to an answer on average."""
    speculation = setup.engine.speculation
    return speculation.tokens_per_step if speculation else 1.0


def _drafter(spec: ModelSpec) -> ModelSpec:
    """The model's own prediction layer as a model of one layer, with its head."""
    if spec.mtp_layer is None:
        raise InputError(
            f"speculation: {spec.name} has no multi-token-prediction layer; name a draft model."
        )
    group = LayerGroup(layer=spec.mtp_layer, count=1, name="mtp")
    return msgspec.structs.replace(spec, layers=(group,), mtp=0, mtp_layer=None)


def prompt_times(setup: Setup, requests: Requests) -> tuple[Prompts, float]:
    """Times of prompts, several in one step or one in several chunks, and their speed of light.

    Returns:
        How they enter the steps, and the speed of light of one in one pass, s; NaN where no roof
        is known.
    """
    new, most, stages = requests.new_tokens, setup.engine.step_tokens, setup.stages
    groups = setup.sharding.attention_data
    together = max(1, most // requests.prompt_tokens)
    whole = setup.stage(prompt_step(requests, "batch"), {"batch": [1, together]})
    if new > most:
        alone = each = _chunked(setup, requests)
    else:
        alone, each = (float(s) for s in whole.expected)
    prompts = Prompts(
        each_s=each / together / groups,
        alone_s=stages * alone,
        chunks=-(-new // most),
        groups=groups,
        swap_s=swap_s(setup, requests.cached_tokens),
        tokens=min(new, most),
        length=requests.input_tokens,
    )
    return prompts, stages * float(whole.sol[0])


def swap_s(setup: Setup, tokens: int) -> float:
    """Seconds until so many cached tokens of a prompt are back from the host's memory.

    Each device reads its share over its own link to the host.

    Raises:
        InputError: The link is unknown.
    """
    if setup.engine.host_cache_bytes is None or not tokens:
        return 0.0
    link = host_link(setup.device)
    rate = link.byte_per_s_per_direction if link else None
    if rate is None:
        raise InputError(f"kv_offload: the link of {setup.device.id} to its host is unknown.")
    own = kv_cache(
        setup.spec, setup.precisions, batch_size=1, context=tokens, sharding=setup.sharding
    ).logical_bytes
    if own * setup.sharding.replica > setup.engine.host_cache_bytes:
        raise InputError(
            f"kv_offload: the cached {tokens:,} tokens of one prompt take "
            f"{format_capacity(own * setup.sharding.replica)}, more than the "
            f"{format_capacity(setup.engine.host_cache_bytes)} of host memory."
        )
    return float(roofline.seconds(own, rate))


def prompt_step(requests: Requests, batch: int | str = 1, most: int | None = None) -> ForwardPass:
    """Prefill of whole prompts, or of the first ``most`` tokens of them, with their encoder."""
    new = min(requests.new_tokens, most or requests.new_tokens)
    step = prefill(batch, new, requests.cached_tokens, encode=requests.source_tokens > 0)
    return msgspec.structs.replace(step, source=requests.source_tokens)


def _chunked(setup: Setup, requests: Requests) -> float:
    """Seconds of one stage for a prompt in chunks, each behind those before it."""
    most = setup.engine.step_tokens
    starts = range(requests.cached_tokens, requests.input_tokens - most + 1, most)
    steps = setup.stage(prefill(1, most, "cached"), {"cached": list(starts)})
    seconds = float(steps.expected.sum())
    rest = requests.new_tokens % most
    if rest:
        last = prefill("batch", rest, requests.input_tokens - rest)
        seconds += float(setup.stage(last, {"batch": [1]}).expected[0])
    return seconds


def memory(setup: Setup, requests: Requests) -> ServingMemory:
    """What one device holds, and how many requests fit beside it."""
    step = prompt_step(requests, most=setup.engine.step_tokens)
    workload = setup.workload(step)
    needs = footprint(workload, Evaluator(workload, {}, {}, Conventions()), None)
    level = main_memory(setup.device)
    capacity = level.capacity_bytes if level else None
    usable = float("inf") if capacity is None else capacity * setup.utilization
    cache = kv_cache(
        setup.spec,
        setup.precisions,
        batch_size=1,
        context=requests.longest,
        policy=setup.engine.policy,
        sharding=setup.sharding,
        memory=requests.source_tokens or None,
    )
    each = min(setup.engine.step_tokens, requests.prompt_tokens)
    activations = needs.activations_bytes * max(1, setup.engine.step_tokens // each)
    free = usable - needs.weights_bytes - activations
    return ServingMemory(
        capacity_bytes=capacity,
        usable_bytes=None if capacity is None else usable,
        weights_bytes=needs.weights_bytes,
        activations_bytes=activations,
        sequence_bytes=cache.allocated_bytes,
        max_sequences=0 if free <= 0 else _fitting(setup, cache, free),
    )


def _fitting(setup: Setup, cache: KvCache, free_bytes: float) -> int | None:
    """Requests whose caches fit; None where nothing limits them."""
    if not np.isfinite(free_bytes):
        return None
    states, rest = divided(setup, cache, free_bytes)
    tokens = cache.allocated_bytes - (cache.state_bytes if states is not None else 0.0)
    fitting = int(rest // tokens) if tokens else None
    if states is None or fitting is None:
        return fitting if states is None else states
    return min(states, fitting)


def divided(setup: Setup, cache: KvCache, free_bytes: float) -> tuple[int | None, float]:
    """Requests that the engine's memory for states allows, and what is left for the cache, byte.

    None and all of it where the engine divides nothing, or the model keeps no states.
    """
    rule = setup.service.states if setup.service else None
    if rule is None or not cache.state_bytes:
        return None, free_bytes
    each = rule.slots * cache.state_bytes / cache.batch
    return int(free_bytes * rule.share // each), free_bytes * (1 - rule.share)
