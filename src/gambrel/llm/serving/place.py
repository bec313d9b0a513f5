"""A layout of a model on a device and its node, ready to be timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np

from gambrel.analysis.settings import Settings
from gambrel.analysis.sweep import sweep
from gambrel.analysis.sweep.points import Floats
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.dtypes import (
    GGUF_FORMATS,
    in_groups,
    names_parts,
    of_weights,
    single_format,
    stored_format,
)
from gambrel.errors import DeviceError, GambrelError, InputError
from gambrel.llm.collectives import busiest
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.engines import BATCHES, EngineMix
from gambrel.llm.serving.question import ServingEngine
from gambrel.llm.serving.steps import Setup, decode_step, decode_times, symbolic
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import LatentAttention, ModelSpec, mixers_of
from gambrel.llm.topology import Topology
from gambrel.runtimes import choose as choose_runtime
from gambrel.runtimes import on_device, runtimes
from gambrel.runtimes.model import Runtime, matches
from gambrel.workload import Workload

#: Contexts at which engines are compared where requests have many lengths.
_CONTEXTS: Final = (512, 4096, 32_768)


def place(
    spec: ModelSpec,
    device: Device,
    sharding: Sharding,
    precisions: Precisions,
    *,
    node: Topology,
    engine: ServingEngine,
    settings: Settings,
    built: dict[Any, Workload] | None = None,
) -> Setup:
    """The set-up of one replica.

    Args:
        spec: The model.
        device: Of the catalog, or the user's.
        sharding: Of one replica.
        precisions: Number formats.
        node: How devices are joined.
        engine: How the serving engine is set up.
        settings: Its runtime, None for the device's default.
        built: Workloads that were built before.

    Raises:
        DeviceError: No bandwidth is published, or the network between nodes is unknown.
        InputError: The runtime does not run there.
    """
    level = main_memory(device)
    if level is None or level.byte_per_s is None:
        raise DeviceError("publishes no bandwidth of a memory that could hold the model.")
    placed = node.place(device, sharding.devices, busiest(sharding))
    chosen = runtime_of(device, settings.runtime, precisions)
    return Setup(
        spec=spec,
        device=device,
        placed=placed,
        topology=node,
        sharding=sharding,
        precisions=_formats(precisions, spec, device, chosen),
        engine=_limited(engine, device, chosen),
        settings=replace(settings, runtime=chosen.id),
        built={} if built is None else built,
    )


def _limited(engine: ServingEngine, device: Device, runtime: Runtime) -> ServingEngine:
    """The engine with the limits that it sets by itself, where none were given."""
    service, level = runtime.service, main_memory(device)
    if service is None or level is None or not engine.unset:
        return engine
    own = service.limits_on(device, level.capacity_bytes or 0)
    if own is None:
        return engine
    tokens = own.offline_tokens if engine.offline and own.offline_tokens else own.tokens
    known = {"step_tokens": tokens, "max_requests": own.requests}
    found: dict[str, Any] = {name: known[name] for name in engine.unset}
    return msgspec.structs.replace(engine, unset=(), **found)


def runtime_of(device: Device, requested: str | None, precisions: Precisions) -> Runtime:
    """As asked, else the device's default; a serving engine where one runs there in the format.

    Args:
        device: The machine.
        requested: Name of a runtime; None chooses.
        precisions: Number formats.

    Raises:
        UnknownNameError: No such runtime.
        InputError: The runtime does not run there, or not in the format.
    """
    single = single_format(precisions.name)
    chosen = choose_runtime(
        device,
        requested,
        precision=single if single in GGUF_FORMATS else None,
        weights=stored_format(precisions.name),
        language=True,
    ).runtime
    if requested is not None or chosen.service is not None or single in GGUF_FORMATS:
        return chosen
    there = on_device(device, language=True)
    return next((r for r in there if r.service is not None and r.default_for), chosen)


def _formats(
    precisions: Precisions, spec: ModelSpec, device: Device, runtime: Runtime
) -> Precisions:
    """The formats as the engine has them.

    Raises:
        InputError: It does not take the one that was asked for.
    """
    if runtime.grouped and (stored := in_groups(precisions.name)) not in (None, precisions.name):
        return spec.precisions(stored)
    name = of_weights(precisions.name) or precisions.name
    if not runtime.one_format or names_parts(name):
        return _cached(precisions, spec, device, runtime)
    given = precisions.name != spec.precisions().name
    if given and name not in runtime.formats:
        raise InputError(
            f"{runtime.name} does not read {name}; it takes {', '.join(runtime.formats)}."
        )
    return precisions.all_in(name if given else runtime.formats[0])


def _cached(
    precisions: Precisions, spec: ModelSpec, device: Device, runtime: Runtime
) -> Precisions:
    """The formats with the cache that the engine uses where none was asked for."""
    service = runtime.service
    if service is None or not service.wide_latent_cache or precisions.names("kv_cache"):
        return precisions
    latent = any(
        isinstance(mixer, LatentAttention)
        for group in spec.layers
        for mixer in mixers_of(group.layer)
    )
    if not latent or not matches(service.wide_latent_cache, device):
        return precisions
    return precisions.with_cache(precisions.activations)


def averaged(setups: Sequence[Setup], context: int | None = None, source: int = 0) -> list[Setup]:
    """The layouts with the mean of the engines that were measured on their device.

    Engines are compared on the first layout of each device and format.

    Args:
        setups: Layouts for which no engine was named.
        context: Tokens that a new one sees; None: of any length.
        source: Tokens that an encoder has read.
    """
    mixes: dict[tuple[str, str], EngineMix | None] = {}
    made = []
    for setup in setups:
        kind = (setup.device.id, setup.precisions.name)
        if kind not in mixes:
            mixes[kind] = _mix_of(setup, _contexts(setup) if context is None else [context], source)
        made.append(msgspec.structs.replace(setup, mix=mixes[kind]))
    return made


def _contexts(setup: Setup) -> list[int]:
    longest = setup.spec.max_context or _CONTEXTS[-1]
    return sorted({min(tokens, longest) for tokens in _CONTEXTS})


def _mix_of(setup: Setup, contexts: Sequence[int], source: int) -> EngineMix | None:
    """The engines that run on a device; None where fewer than two were measured there."""
    if setup.service is None:
        return None
    usual = setup.settings.runtime or ""
    others = [_with(setup, name) for name, one in runtimes().items() if one.service is not None]
    several = [setup, *(x for x in others if x is not None and x.settings.runtime != usual)]
    measured = [x for x in several if x is setup or _measured(x, contexts[0], source)]
    if len(measured) < 2:
        return None
    times = [_decoded(x, contexts, source) for x in measured]
    return EngineMix(
        names=tuple(x.settings.runtime or "" for x in measured),
        contexts=tuple(contexts),
        ratios=np.array(times) / times[0],
    )


def _decoded(setup: Setup, contexts: Sequence[int], source: int) -> Floats:
    """Seconds of decode steps; [batch, context]. One context shares the workload of a plan."""
    if len(contexts) == 1:
        times = decode_times(setup, contexts[0], BATCHES, source=source)
    else:
        times = decode_times(setup, "context", BATCHES, contexts=contexts, source=source)
    return times.expected.reshape(len(BATCHES), len(contexts))


def _with(setup: Setup, name: str) -> Setup | None:
    """The layout under another engine; None where it does not run there."""
    try:
        runtime = choose_runtime(setup.device, name, language=True).runtime
    except GambrelError:
        return None
    return msgspec.structs.replace(
        setup,
        settings=replace(setup.settings, runtime=name),
        precisions=_cached(setup.precisions, setup.spec, setup.device, runtime),
    )


def _measured(setup: Setup, context: int, source: int) -> bool:
    """Whether the engine's kernels were measured on the device or its like."""
    step = decode_step(setup, context, "batch", source)
    try:
        workload = setup.workload(symbolic(step, {"batch": [1]}))
        times = sweep(
            workload, [setup.placed], [None], {"batch": [1]}, setup.settings, times_only=True
        )
    except GambrelError:
        return False
    return not bool(np.isnan(times.expected_time_s).any())
