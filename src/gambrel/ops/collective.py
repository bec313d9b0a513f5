"""Collectives: bytes that each device sends, by algorithm, within a node and between nodes.

A group of d devices may span several nodes, g = d / nodes of it in each. Bytes within a node pass
the link (NVLink, Infinity Fabric, ICI, PCIe), bytes between nodes the network; a hierarchical
algorithm keeps as much as possible within the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from gambrel.dtypes import width_bytes
from gambrel.ops.base import Cost, OpView, Size, formula, minimum, rounded, work


class _Sent(NamedTuple):
    """Bytes that each device sends."""

    link: Size
    network: Size


def _all_but_own(payload: Size, devices: Size) -> Size:
    """(d - 1)/d of the payload: d - 1 steps, a d-th of it each."""
    return rounded(payload * (devices - 1) / devices)


def _scatter(payload: Size, group: Size, nodes: Size) -> _Sent:
    """A ring in the node, then one between nodes over the g-th part that a device is left with."""
    return _Sent(_all_but_own(payload, group), rounded(payload * (nodes - 1) / nodes / group))


def _reduce_ring(payload: Size, group: Size, nodes: Size) -> _Sent:
    """A reduce-scatter followed by an all-gather (Patarasuk and Yuan, JPDC 69, 2009)."""
    once = _scatter(payload, group, nodes)
    return _Sent(2 * once.link, 2 * once.network)


def _reduce_tree(payload: Size, group: Size, nodes: Size) -> _Sent:
    """Two binary trees with half of the payload each: up once and down once.

    A device is inside one tree and a leaf of the other (Sanders, Speck and Träff, "Two-tree
    algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009): it
    sends 1/2 + 1/2 of the payload up and 2 x 1/2 down. Between nodes the same over a g-th part.
    """
    within = 2 * payload * minimum(group - 1, 1)
    return _Sent(within, rounded(2 * payload / group * minimum(nodes - 1, 1)))


def _reduce_in_switch(payload: Size, group: Size, nodes: Size) -> _Sent:
    """The switch reads the payload of every device once and adds; results are multicast.

    A device sends its payload, N, when others read it through the switch, and the g-th part that it
    is responsible for when it stores the result: N (1 + 1/g). Two devices send less by a ring.
    """
    ring = _reduce_ring(payload, group, nodes)
    switch = rounded(payload * (1 + 1 / group)) * minimum(group - 1, 1)
    return _Sent(minimum(ring.link, switch), ring.network)


def _exchange(payload: Size, group: Size, nodes: Size) -> _Sent:
    """Every device sends a d-th of its payload to every other, directly."""
    devices = group * nodes
    return _Sent(
        rounded(payload * (group - 1) / devices), rounded(payload * (nodes - 1) * group / devices)
    )


def _message(payload: Size, group: Size, nodes: Size) -> _Sent:
    """A pipeline: each device passes the message on, whole, to the next, if there is one."""
    return _Sent(payload * minimum(group - 1, 1), payload * minimum(nodes - 1, 1))


_Algorithm = Callable[[Size, Size, Size], _Sent]

#: Function → algorithm → bytes sent. Payload: the whole vector, that is the input of all_reduce,
#: reduce_scatter and all_to_all, the output of all_gather, the message otherwise. The first
#: algorithm is the default; functions without the algorithm asked for use their first.
_SENT: Final[Mapping[str, Mapping[str, _Algorithm]]] = {
    "all_reduce": {"ring": _reduce_ring, "tree": _reduce_tree, "in_switch": _reduce_in_switch},
    "all_gather": {"ring": _scatter},
    "reduce_scatter": {"ring": _scatter},
    "all_to_all": {"direct": _exchange},
    **{name: {"chain": _message} for name in ("broadcast", "reduce", "send")},
}
#: Algorithms that may be asked for.
ALGORITHMS: Final = ("ring", "tree", "in_switch")

_REDUCING: Final = frozenset({"all_reduce", "reduce_scatter"})


@formula("collective")
def collective(op: OpView) -> Cost | None:
    """All-gather, reduce-scatter, all-to-all: (d - 1)/d of the payload; all-reduce twice that.

    A device adds every chunk that it receives while reducing: (d - 1)/d of the elements; the switch
    adds in its place where it reduces. Its memory reads the inputs and writes the outputs once.

    Sizes: payload_bytes, devices, nodes (1). Attrs: function, algorithm (``ring``, ``tree``,
    ``in_switch``), switch_reduces (whether it could), routed (what is sent depends on routing). On
    one device nothing is sent.
    """
    name = str(op.attrs.get("function"))
    algorithms = _SENT.get(name)
    if algorithms is None:
        return None
    first = next(iter(algorithms))
    chosen = str(op.attrs.get("algorithm", first))
    sends = algorithms.get(chosen, algorithms[first])
    payload, devices, nodes = op.size("payload_bytes"), op.size("devices"), op.size("nodes", 1)
    sent = sends(payload, _per_node(devices, nodes), nodes)
    additions: Size = 0
    if name in _REDUCING and sends is not _reduce_in_switch:
        additions = rounded(_all_but_own(payload, devices) / width_bytes(op.dtype))
    least = _least(op, payload, _per_node(devices, nodes), nodes)
    return Cost(
        work=work(op.dtype, vector=additions),
        link_bytes=sent.link,
        network_bytes=sent.network,
        least_link_bytes=least and least.link,
        least_network_bytes=least and least.network,
    )


def _least(op: OpView, payload: Size, group: Size, nodes: Size) -> _Sent | None:
    """What no algorithm goes below, where that is less than the usual one sends.

    Routing may find all experts of a token on its own device. In an all-reduce a device sends each
    element once where the switch adds: the parts that others add up, and the sum of its own part;
    rings send twice (g - 1)/g, the least without a switch that adds. Switches between nodes may
    always be such.
    """
    if op.attrs.get("routed"):
        return _Sent(0, 0)
    if op.attrs.get("function") != "all_reduce":
        return None
    ring = _reduce_ring(payload, group, nodes)
    adds = op.attrs.get("switch_reduces") or op.attrs.get("algorithm") == "in_switch"
    once = payload * minimum(group - 1, 1)
    network = rounded(payload / group * minimum(nodes - 1, 1))
    return _Sent(minimum(ring.link, once) if adds else ring.link, minimum(ring.network, network))


def _per_node(devices: Size, nodes: Size) -> Size:
    return devices if isinstance(nodes, int) and nodes == 1 else devices / nodes
