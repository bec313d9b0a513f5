"""A layout of a model on a device and its node, ready to be timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gambrel.analysis.settings import Settings
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.errors import DeviceError
from gambrel.llm.collectives import busiest
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.question import ServingEngine
from gambrel.llm.serving.steps import Setup
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec
from gambrel.llm.topology import Topology
from gambrel.runtimes import choose as choose_runtime
from gambrel.workload import Workload


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
    chosen = choose_runtime(device, settings.runtime, language=True)
    return Setup(
        spec=spec,
        device=device,
        placed=placed,
        topology=node,
        sharding=sharding,
        precisions=precisions,
        engine=engine,
        settings=replace(settings, runtime=chosen.runtime.id),
        built={} if built is None else built,
    )
