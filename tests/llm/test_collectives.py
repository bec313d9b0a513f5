"""Collectives laid on nodes, and how long they are expected to take."""

from __future__ import annotations

import msgspec
import pytest

from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.measures import Bound
from gambrel.device.lookup import find
from gambrel.llm.collectives import assumptions, place
from gambrel.llm.sharding import Sharding
from gambrel.llm.topology import Topology, topology_for
from gambrel.workload import Op, Tensor, Workload

H200 = find("h200").device


def workload(payload, devices, function="all_reduce", axis="tensor"):
    x = Tensor(shape=(payload // 2,), dtype="bf16", storage=0)
    op = Op(
        kind="collective",
        inputs=(0,),
        outputs=(0,),
        sizes={"payload_bytes": payload, "devices": devices},
        attrs={"function": function, "axis": axis},
    )
    return Workload(name="one", dtype="bf16", tensors=(x,), ops=(op,))


def placed(payload, layout, topology, runtime="", **kwargs):
    found = place(workload(payload, layout.devices, **kwargs), layout, topology, runtime)
    device = topology.place(H200, layout.devices)
    return analyze(found, device, Settings(runtime="pytorch-graph"))


def test_all_reduce_behind_a_reducing_switch():
    # 64 MiB over eight: N (1 + 1/8) = 75,497,472 bytes at 450 GB/s = 167.8 µs.
    found = placed(1 << 26, Sharding(tensor=8), topology_for(H200))
    assert found.bound is Bound.NETWORK
    assert found.roofline_time_s == pytest.approx(75_497_472 / 450e9)


def test_all_reduce_over_two_nodes_is_bound_by_the_network():
    # 64 MiB over 16 in two nodes: each device sends N/8 = 8,388,608 bytes over 50 GB/s: 167.8 µs;
    # and 2 * 7/8 N (or N (1 + 1/8) through the switch = 75,497,472) over 450 GB/s: 167.8 µs.
    node = topology_for(H200, "dgx-h200")
    found = placed(1 << 26, Sharding(tensor=16), node)
    by = {t.resource: t.time_s for t in found.total.times}
    assert by["network"] == pytest.approx(8_388_608 / 50e9)
    assert by["nvlink"] == pytest.approx(75_497_472 / 450e9)
    slow = Topology(devices_per_node=8, network_byte_per_s=10e9)
    found = placed(1 << 26, Sharding(tensor=16), slow)
    assert found.bound is Bound.NETWORK
    assert found.roofline_time_s == pytest.approx(8_388_608 / 10e9)
    assert found.expected_time_s.value > found.roofline_time_s


def test_a_short_message_of_a_serving_engine_starts_sooner_than_the_library():
    """Eight devices, 16 kB: the engine's kernel takes 4.5 µs and the bytes, the library 16."""
    layout, node = Sharding(tensor=8), topology_for(H200)
    own = placed(1 << 14, layout, node, "vllm").expected_time_s
    library = placed(1 << 14, layout, node, "").expected_time_s
    # 7 * 16,384 bytes at vLLM's 0.56 of 450 GB/s = 0.46 µs behind 4.54 µs.
    assert own.value == pytest.approx(4.54e-6 + 0.455e-6, rel=0.02)
    assert 15e-6 < library.value < 20e-6


def test_long_messages_take_as_long_whatever_the_kernel():
    """Half a gigabyte: bus bandwidth of 445 GB/s was measured on eight H100."""
    layout, node = Sharding(tensor=8), topology_for(H200)
    own = placed(1 << 29, layout, node, "vllm").expected_time_s.value
    bus = 2 * 7 / 8 * (1 << 29) / own
    assert 370e9 < bus < 450e9


def test_latency_of_the_network_counts_for_every_level():
    node = Topology(devices_per_node=8, network_byte_per_s=50e9)
    late = Topology(devices_per_node=8, network_byte_per_s=50e9, network_latency_s=10e-6)
    layout = Sharding(tensor=32)
    plain = placed(1 << 14, layout, node, "").expected_time_s.value
    # Four nodes: two levels there and back, 4 * 10 µs.
    assert placed(1 << 14, layout, late, "").expected_time_s.value - plain == pytest.approx(40e-6)


def test_what_a_layout_rests_on():
    node = Topology(devices_per_node=8, network_byte_per_s=50e9)
    assert assumptions(Sharding(), node) == ()
    assert "does not overlap" in assumptions(Sharding(tensor=8), node)[0]
    assert "no latency given" in assumptions(Sharding(tensor=16), node)[-1]


def test_the_network_is_a_roof_of_the_chart():
    from gambrel.report.chart import describe

    node = Topology(devices_per_node=8, network_byte_per_s=10e9)
    found = placed(1 << 26, Sharding(tensor=16), node)
    labels = [roof.label for roof in describe(found).memory_roofs]
    assert "network (link) 10 GB/s" in labels
    assert "nvlink (link) 450 GB/s" in labels


def test_the_algorithm_of_the_topology():
    # Two trees over eight send the payload up and down: 2 * 64 MiB.
    tree = Topology(devices_per_node=8, all_reduce="tree")
    assert placed(1 << 26, Sharding(tensor=8), tree).total.link_bytes == 1 << 27
    ring = Topology(devices_per_node=8)
    assert placed(1 << 26, Sharding(tensor=8), ring).total.link_bytes == 7 * (1 << 24)


def test_the_least_that_an_all_reduce_sends():
    # 64 MiB over eight: a switch that adds needs every element once from each device, whatever
    # the algorithm; a ring sends 2 * 7/8.
    payload, layout, node = 1 << 26, Sharding(tensor=8), topology_for(H200)
    assert placed(payload, layout, node).sol_time_s == pytest.approx(payload / 450e9)
    ring = Topology(all_reduce="ring", in_switch=True, link="nvlink")
    found = placed(payload, layout, ring)
    assert found.sol_time_s == pytest.approx(payload / 450e9)
    assert found.roofline_time_s == pytest.approx(2 * 7 / 8 * payload / 450e9)
    plain = Topology(link="nvlink")
    assert placed(payload, layout, plain).sol_time_s == pytest.approx(2 * 7 / 8 * payload / 450e9)
    # Two devices send no less by a switch: half of the payload twice.
    assert placed(payload, Sharding(tensor=2), node).sol_time_s == pytest.approx(payload / 450e9)


def test_between_nodes_switches_may_add():
    # Two nodes of eight: an eighth of the payload once, 10 GB/s.
    node = Topology(devices_per_node=8, network_byte_per_s=10e9)
    found = placed(1 << 26, Sharding(tensor=16), node)
    assert found.sol_time_s == pytest.approx((1 << 23) / 10e9)


def test_routing_may_send_no_token():
    spread = Sharding(tensor=8, expert=8, attention_data=8)
    op = {"function": "all_to_all", "axis": "expert", "routed": True}
    found = workload(1 << 26, 8)
    found = msgspec.structs.replace(found, ops=(msgspec.structs.replace(found.ops[0], attrs=op),))
    node = topology_for(H200)
    analysis = analyze(
        place(found, spread, node), node.place(H200, 8), Settings(runtime="pytorch-graph")
    )
    assert analysis.roofline_time_s > 0
    assert not analysis.sol_time_s
