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
