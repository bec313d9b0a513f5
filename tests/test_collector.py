"""The collector is held off, and what a program froze stays frozen."""

import gc

import pytest

from gambrel.collector import without_collector


def test_it_is_held_off_and_what_was_made_is_old():
    assert gc.isenabled()
    with without_collector():
        assert not gc.isenabled()
        made = [[] for _ in range(5_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    old = {id(one) for one in gc.get_objects(generation=2)}
    assert all(id(one) in old for one in made)


def test_what_a_program_froze_stays_frozen():
    frozen = [[] for _ in range(100)]
    gc.freeze()
    try:
        with without_collector():
            made = [[] for _ in range(100)]
        seen = {id(one) for one in gc.get_objects()}  # all that is not frozen
        assert all(id(one) in seen for one in made)
        assert not any(id(one) in seen for one in frozen)
    finally:
        gc.unfreeze()


def test_where_it_was_off_it_stays_off():
    gc.disable()
    try:
        with pytest.raises(ValueError, match="x"), without_collector():
            raise ValueError("x")
        assert not gc.isenabled()
    finally:
        gc.enable()
