"""Degrees of parallelism: what they multiply to and what they refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.errors import InputError
from gambrel.llm.sharding import Sharding, common, divisors, kv_heads_of_rank


def test_one_device_by_default():
    assert Sharding().devices == 1
    assert str(Sharding()) == "1 device"


def test_degrees_multiply():
    layout = Sharding(tensor=8, pipeline=2, data=3, context=2, expert=4, attention_data=2)
    assert layout.devices == 96
    assert layout.replica == 32
    assert layout.attention_tensor == 4
    assert layout.expert_tensor == 2
    assert str(layout) == "TP8 PP2 DP3 CP2 EP4 ADP2"


@pytest.mark.parametrize("field", ["tensor", "pipeline", "data", "context", "expert"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, 10**9])
def test_a_degree_is_a_whole_number(field, value):
    with pytest.raises(InputError, match=rf"{field}=.*whole number from 1"):
        Sharding(**{"tensor": 8, field: value})


def test_experts_divide_the_tensor_group():
    with pytest.raises(
        InputError, match=r"expert=3 does not divide tensor=8.*it may be 1, 2, 4 or 8"
    ):
        Sharding(tensor=8, expert=3)
    with pytest.raises(InputError, match=r"attention_data=16 does not divide tensor=8"):
        Sharding(tensor=8, attention_data=16)


def test_fewer_heads_than_devices_are_copied():
    assert [kv_heads_of_rank(8, n) for n in (1, 2, 8, 16)] == [8, 4, 1, 1]


@given(st.integers(1, 5000))
def test_divisors(n):
    assert divisors(n) == tuple(d for d in range(1, n + 1) if n % d == 0)


def test_common_divisors():
    assert common([32, 8, 128]) == (1, 2, 4, 8)
    assert common([]) == ()
