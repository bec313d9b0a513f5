"""Collectives against rings that really pass chunks on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.ops import cost
from tests.ops.builders import costed, op, tensor, vector


def ring(devices: int, chunk: int, *, reduces: bool) -> tuple[int, int]:
    """Each device sends a chunk to the next, devices - 1 times: (bytes sent, fp32 additions)."""
    sent = additions = 0
    for _ in range(devices - 1):
        sent += chunk
        additions += chunk // 4 if reduces else 0
    return sent, additions


@given(st.integers(1, 9), st.integers(1, 50))
def test_rings(devices, words):
    chunk = 4 * words
    sizes = {"payload_bytes": chunk * devices, "devices": devices}
    x = (tensor(words * devices),)

    def found(function):
        view = op("collective", sizes, inputs=x, outputs=x, function=function)
        return costed(view).link_bytes, vector(view)

    assert found("all_gather") == ring(devices, chunk, reduces=False)
    assert found("reduce_scatter") == ring(devices, chunk, reduces=True)
    assert found("all_to_all") == ring(devices, chunk, reduces=False)
    both = [ring(devices, chunk, reduces=reduces) for reduces in (True, False)]
    assert found("all_reduce") == (both[0][0] + both[1][0], both[0][1])


@pytest.mark.parametrize("function", ["broadcast", "reduce", "send"])
def test_messages_are_sent_whole(function):
    view = op("collective", {"payload_bytes": 1000, "devices": 4}, function=function)
    assert costed(view).link_bytes == 1000
    alone = op("collective", {"payload_bytes": 1000, "devices": 1}, function=function)
    assert costed(alone).link_bytes == 0


def test_all_reduce_of_a_layer_on_eight_devices():
    x = tensor(16, 8192, dtype="bf16")
    view = op(
        "collective",
        {"payload_bytes": 262_144, "devices": 8},
        inputs=(x,),
        outputs=(x,),
        function="all_reduce",
    )
    found = costed(view)
    assert found.link_bytes == 458_752  # 2 * 7/8 * 262,144
    assert found.work == {("vector", "bf16"): 114_688}  # 7/8 of 131,072 values
    assert (found.read_bytes, found.write_bytes) == (262_144, 262_144)


def test_unknown_collective_is_unmodelled():
    assert cost(op("collective", {"payload_bytes": 1, "devices": 2}, function="gossip")) is None


def collective(function, payload, devices, nodes=1, **attrs):
    sizes = {"payload_bytes": payload, "devices": devices, "nodes": nodes}
    x = tensor(payload // 4)
    return costed(op("collective", sizes, inputs=(x,), outputs=(x,), function=function, **attrs))


def test_all_reduce_over_two_nodes_keeps_most_within_them():
    # 16 devices, 8 in each node, 1,024 bytes. In the node: reduce-scatter 7/8 and all-gather 7/8
    # of it = 1,792. Between the nodes each device reduces the eighth that it is left with, 128
    # bytes: sends half (64) while reducing and half while gathering.
    found = collective("all_reduce", 1024, 16, nodes=2)
    assert (found.link_bytes, found.network_bytes) == (1792, 128)


def test_all_gather_and_exchange_over_two_nodes():
    found = collective("all_gather", 1024, 16, nodes=2)
    assert (found.link_bytes, found.network_bytes) == (896, 64)
    # 1,024 bytes for 16 devices: 64 each; 7 peers in the node, 8 in the other.
    found = collective("all_to_all", 1024, 16, nodes=2)
    assert (found.link_bytes, found.network_bytes) == (448, 512)


def test_one_device_a_node_uses_the_network_alone():
    for function, factor in (("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)):
        found = collective(function, 1024, 4, nodes=4)
        assert (found.link_bytes, found.network_bytes) == (0, factor * 768)
    assert collective("send", 1024, 2, nodes=2).network_bytes == 1024


def test_reduction_in_the_switch():
    # Eight devices: the payload once and an eighth of the result, 1,024 + 128; a ring sends 1,792.
    found = collective("all_reduce", 1024, 8, algorithm="in_switch")
    assert found.link_bytes == 1152
    assert found.work == {}  # the switch adds
    # Two devices: 1.5 times the payload through the switch, once by a ring.
    assert collective("all_reduce", 1024, 2, algorithm="in_switch").link_bytes == 1024
    assert collective("all_reduce", 1024, 1, algorithm="in_switch").link_bytes == 0


def test_two_trees_send_the_payload_up_and_down():
    assert collective("all_reduce", 1024, 8, algorithm="tree").link_bytes == 2048
    assert collective("all_reduce", 1024, 1, algorithm="tree").link_bytes == 0
    # A function without trees uses its ring.
    assert collective("all_gather", 1024, 8, algorithm="tree").link_bytes == 896


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 64))
def test_no_bytes_are_lost_between_link_and_network(group, nodes, words):
    """A hierarchical scatter delivers all but the own part; over the link at most its share."""
    devices = group * nodes
    payload = 4 * words * devices
    found = collective("all_to_all", payload, devices, nodes=nodes)
    assert found.link_bytes + found.network_bytes == payload - 4 * words
    flat = collective("reduce_scatter", payload, devices)
    found = collective("reduce_scatter", payload, devices, nodes=nodes)
    assert found.link_bytes + found.network_bytes == flat.link_bytes
