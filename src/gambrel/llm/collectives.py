"""Where the collectives of a sharded workload run: within a node or across, and by which algorithm.

The builder names the degree of parallelism that a collective belongs to (``axis``); this module
knows how groups lie on nodes. Devices are numbered with the tensor degree innermost, then context,
then pipeline, then data, so that the busiest traffic stays within a node.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from gambrel.llm.sharding import Sharding
from gambrel.llm.topology import Topology
from gambrel.runtimes import runtime as runtime_of
from gambrel.workload import Op, Workload

#: Most devices for which serving engines have all-reduces of their own.
_OWN_DEVICES: Final = 8


def place(
    workload: Workload, sharding: Sharding, topology: Topology, runtime: str = ""
) -> Workload:
    """The workload with every collective laid on the nodes.

    Sets ``nodes`` in the sizes, ``algorithm`` and, for the expected time, ``ring_share`` and
    ``reduce_share`` in the attributes.

    Args:
        workload: Of one device, as `gambrel.llm.build` makes it.
        sharding: The layout it was built for.
        topology: Nodes and links.
        runtime: Whose kernels reduce; serving engines have their own for short messages.
    """
    ops = tuple(
        _placed(op, sharding, topology, runtime) if op.kind == "collective" else op
        for op in workload.ops
    )
    return msgspec.structs.replace(workload, ops=ops)


def group_of(axis: str, sharding: Sharding) -> tuple[int, int]:
    """How far apart the members of a group stand, and how many they are.

    Args:
        axis: ``tensor``, ``attention``, ``expert``, ``expert_tensor``, ``context``, ``pipeline``,
            ``data``, or ``gradient``: all that hold the same parameters, context times data (stages
            lie between the two: `nodes_of` takes them apart); the boundary between two pipeline
            stages counts as a pair.
        sharding: The layout.
    """
    s = sharding
    return {
        "tensor": (1, s.tensor),
        "attention": (1, s.attention_tensor),
        "expert_tensor": (1, s.expert_tensor),
        "expert": (s.expert_tensor, s.expert),
        "attention_data": (s.attention_tensor, s.attention_data),
        "context": (s.tensor, s.context),
        "pipeline": (s.tensor * s.context, s.pipeline),
        "data": (s.tensor * s.context * s.pipeline, s.data),
        "gradient": (s.tensor, s.context * s.data),
    }[axis]


def busiest(sharding: Sharding) -> int:
    """Devices of the group that exchanges most: the tensor group, else the largest."""
    s = sharding
    return s.tensor if s.tensor > 1 else max(s.context, s.data, min(s.pipeline, 2))


def nodes_of(axis: str, sharding: Sharding, topology: Topology) -> int:
    """Nodes that a group of an axis spans; for pipeline stages, whether any boundary crosses."""
    if axis == "gradient":
        parts = (group_of(part, sharding) for part in ("context", "data"))
        return math.prod(topology.nodes(stride, size) for stride, size in parts)
    stride, size = group_of(axis, sharding)
    if axis == "pipeline":
        return min(2, topology.nodes(stride, size))
    return topology.nodes(stride, size)


def _placed(op: Op, sharding: Sharding, topology: Topology, runtime: str) -> Op:
    axis = str(op.attrs.get("axis", "tensor"))
    nodes = nodes_of(axis, sharding, topology)
    attrs = dict(op.attrs)
    _, size = group_of(axis, sharding)
    if topology.ring_share is not None and size > 2:
        attrs["ring_share"] = topology.ring_share
    if op.attrs.get("function") == "all_reduce":
        own = "in_switch" if topology.in_switch else "ring"
        attrs["algorithm"] = topology.all_reduce or own
        attrs["switch_reduces"] = topology.in_switch
        share = _own_share(runtime)
        if share is not None and nodes == 1 and size <= _OWN_DEVICES:
            attrs["reduce_share"] = share
    if nodes > 1 and topology.network_latency_s:
        attrs["network_latency_s"] = topology.network_latency_s
    sizes = {**op.sizes, "nodes": nodes} if nodes > 1 else op.sizes
    return msgspec.structs.replace(op, sizes=sizes, attrs=attrs)


def _own_share(name: str) -> float | None:
    """What an engine's own all-reduce attains of the library's rate; None where it has none."""
    service = runtime_of(name).service if name else None
    return service.reduce_share if service else None


def assumptions(sharding: Sharding, topology: Topology, overlap: float = 0.0) -> tuple[str, ...]:
    """What a layout rests on, one sentence each; nothing for one device.

    Args:
        sharding: The layout.
        topology: Nodes and links.
        overlap: Share of communication that was taken to be hidden.
    """
    if sharding.devices == 1:
        return ()
    found = ["communication does not overlap with computation."]
    if overlap:
        found = [f"{overlap:.0%} of communication is hidden behind computation, as asked."]
    if topology.note:
        found.append(topology.note)
    if topology.mesh_links:
        found.append(
            f"devices of a node are joined pairwise by {topology.mesh_links} links each; a group "
            "smaller than the node uses those within it only."
        )
    crosses = topology.devices_per_node and sharding.devices > topology.devices_per_node
    if crosses and not topology.network_latency_s:
        found.append("messages between nodes take no time besides their bytes: no latency given.")
    return tuple(found)
