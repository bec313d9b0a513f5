"""The search for the fastest way to write a loop, on machines whose rates are made up."""

import numpy as np
import pytest

from gambrel.measure import ir, tuning
from gambrel.measure.loops import Variant
from gambrel.measure.probes import Probe

TRIES = {"parts": (1, 2, 4, 8), "ahead": (0, 512, 1024), "unroll": (8, 16, 32)}


def machine(rate):
    """A race on a machine that runs a variant at ``rate(variant)``; it remembers who ran."""
    ran = []

    def race(variants):
        ran.append(tuple(variants))
        return [rate(v) / rate(variants[0]) for v in variants]

    return race, ran


def probe(resource, mix, chunks=1):
    kernel = ir.LoopKernel(name="k", text="")
    return Probe(resource=resource, mix=mix, kernel=kernel, threads=1, chunks=chunks)


def test_every_property_takes_its_best_value_beside_those_taken_before():
    race, ran = machine(lambda v: v.parts * (1.5 if v.ahead == 1024 else 1) * (2 - v.unroll / 32))
    found = tuning.search("read", Variant(), TRIES, race)
    assert found.variant == Variant(parts=8, ahead=1024, unroll=8)
    # 8 parts, half as fast again, and 2 - 8/32 = 1.75 in place of 2 - 16/32 = 1.5.
    assert found.tried[found.variant] == pytest.approx(8 * 1.5 * 1.75 / 1.5)
    assert found.tried[Variant()] == 1.0
    # The first of each race is the best so far, and nothing runs twice but that.
    starts = [Variant(), Variant(parts=8), Variant(parts=8, ahead=1024)]
    assert [r[0] for r in ran[:3]] == starts
    # At last the winner meets the loop as it was.
    assert ran[3:] == [(Variant(), found.variant)]
    assert len(found.tried) == 1 + 3 + 2 + 2


def test_where_nothing_is_clearly_faster_the_loop_stays():
    race, _ = machine(lambda v: 1.0 if v == Variant(ahead=512) else 1.005)
    assert tuning.search("read", Variant(ahead=512), TRIES, race).variant == Variant(ahead=512)


def test_a_winner_by_chance_is_not_taken():
    """Every variant is as fast as every other, and the first reading of one was high."""
    readings = iter([1.3])

    def race(variants):
        return [1.0 if i == 0 else next(readings, 0.99) for i in range(len(variants))]

    found = tuning.search("read", Variant(), {"unroll": (8, 16)}, race)
    assert found.variant == Variant()
    assert found.tried[Variant(unroll=8)] == 0.99


def test_a_prefetch_that_slows_this_machine_down_is_left_out():
    """As on the EPYC whose update of main memory ran at 0.74 of C with requests in advance."""
    race, _ = machine(lambda v: 0.74 if v.ahead else 1.0)
    assert tuning.search("update", Variant(ahead=512), TRIES, race).variant == Variant()


def test_a_loop_with_too_many_pointers_is_not_tried():
    race, ran = machine(lambda v: v.parts)
    assert tuning.search("triad", Variant(), TRIES, race).variant.parts == 4
    assert max(v.parts for r in ran for v in r) == 4


def test_all_threads_try_what_was_best_with_one():
    one, two, four = (Variant(parts=n) for n in (1, 2, 4))
    before = tuning.Tuned(variant=four, tried={one: 1.0, two: 1.2, four: 1.4})
    race, ran = machine(lambda v: {1: 1.0, 2: 1.3, 4: 0.9}[v.parts])
    found = tuning.again(one, before, race)
    assert found.variant == two
    assert ran == [(one, four, two), (one, two)]
    assert found.tried == {one: 1.0, four: 0.9, two: 1.3}


def test_without_another_variant_nothing_runs():
    race, ran = machine(lambda v: 1.0)
    found = tuning.again(Variant(), tuning.Tuned(variant=Variant(), tried={Variant(): 1.0}), race)
    assert found.variant == Variant()
    assert not ran


def test_the_shortest_slice_of_all_laps_counts():
    # The second variant takes 1 s where the first takes 2; other slices were interrupted.
    laps = [
        [np.array([9.0, 2.0]), np.array([7.0, 5.0])],
        [np.array([3.0, 8.0]), np.array([1.0, 6.0])],
    ]
    assert tuning.ratios(laps) == [1.0, 2.0]


def test_what_is_tried_depends_on_the_level_and_the_time():
    assert set(tuning.values(probe("L1", "copy"))) == {"unroll"}
    assert set(tuning.values(probe("L2", "copy"))) == {"ahead", "unroll"}
    assert set(tuning.values(probe("L3", "copy"))) == {"parts", "ahead", "unroll"}
    assert set(tuning.values(probe("DRAM", "write nt", 9))) == {"parts", "unroll"}
    assert tuning.values(probe("L2", "copy"), rough=True) == {}
    assert tuning.values(probe("DRAM", "copy", 9), rough=True) == {
        "parts": (1, 4),
        "ahead": (0, 512),
    }
