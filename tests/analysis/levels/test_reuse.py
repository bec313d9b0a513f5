"""Reuse between ops, against a cache of single lines that is simulated step by step."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.levels.reuse import Access, Reuse


class Lines:
    """A least-recently-used cache: every line of every storage moves through it one by one."""

    def __init__(self, capacity, sizes, ops, kept):
        self.capacity, self.sizes, self.ops, self.kept = capacity, sizes, ops, kept
        self.cache = OrderedDict()  # line -> whether it is dirty, op that touched it last
        self.read = self.written = 0

    def run(self):
        for position, op in enumerate(self.ops):
            self.position = position
            events = []
            for storage, (reads, writes) in op.items():
                size = self.sizes[storage]
                events += [((j + 0.5) / size, storage, j, reads, writes) for j in range(size)]
            for _, storage, line, reads, writes in sorted(events):
                self.touch((storage, line), reads, writes)
        return self

    def touch(self, line, reads, writes):
        held = line in self.cache
        self.read += bool(reads and not held)
        dirty, _ = self.cache.pop(line, (False, 0))
        if writes and line[0] in self.kept:
            self.written += 1
        dirty = dirty or (writes and line[0] not in self.kept)
        self.cache[line] = dirty, self.position
        if len(self.cache) > self.capacity:
            self.evict()

    def evict(self):
        (storage, _), (dirty, touched) = self.cache.popitem(last=False)
        needed = any(storage in op for op in self.ops[touched + 1 :])
        self.written += bool(dirty and needed)


def predicted(capacity, sizes, ops, kept=frozenset()):
    model = Reuse([capacity], len(ops), {s: float(n) for s, n in sizes.items()}, frozenset(kept))
    for op in ops:
        model.step(
            [
                Access(
                    storage=s,
                    read_bytes=sizes[s] * reads,
                    write_bytes=sizes[s] * writes,
                )
                for s, (reads, writes) in op.items()
            ]
        )
    return sum(model.read_bytes[0]), sum(model.write_bytes[0])


R, W, RW = (True, False), (False, True), (True, True)


def test_a_chain_that_fits_reads_its_input_only():
    # x -> a -> b, 100 lines each; b is read at distance 100 to 200.
    sizes = {0: 100, 1: 100, 2: 100}
    ops = [{0: R, 1: W}, {1: R, 2: W}]
    assert predicted(200, sizes, ops, kept={2}) == (100, 100)


def test_half_of_it_fits():
    # Line t of a is read again after the rest of x and a, and what there is of a and b:
    # D(t) = 100 + 100 (1 - t) + 100 t = 200. With 199 nothing is left, and a is written and read.
    sizes = {0: 100, 1: 100, 2: 100}
    ops = [{0: R, 1: W}, {1: R, 2: W}]
    assert predicted(199, sizes, ops, kept={2}) == (200, 200)
    # Without x, D(t) = 100 + 100 t: up to t = 1/2 at 150.
    ops = [{1: W}, {1: R, 2: W}]
    assert predicted(150, sizes, ops, kept={2}) == (50, 150)


def test_a_skip_connection_waits_behind_its_block():
    # a is read, then again after b (100) and c (100) came between.
    sizes = {0: 100, 1: 100, 2: 100}
    ops = [{0: W}, {0: R, 1: W}, {1: R, 2: W}, {0: R, 2: R}]
    assert predicted(300, sizes, ops) == (0, 0)
    assert predicted(100, sizes, ops)[0] > 0


def test_dead_data_is_not_written():
    assert predicted(10, {0: 100, 1: 100}, [{0: W}, {1: W}]) == (0, 0)
    assert predicted(10, {0: 100, 1: 100}, [{0: W}, {1: W}], kept={0}) == (0, 100)


def test_looked_up_rows_are_other_rows_next_time():
    model = Reuse([1000.0], 2, {0: 500.0})
    for _ in range(2):
        model.step([Access(storage=0, read_bytes=10, reusable=False)])
    assert model.read_bytes[0] == [10, 10]


def test_slices_of_what_was_written_whole():
    # 300 lines written at once, then read as three slices of 100: all still there.
    model = Reuse([1000.0], 4, {0: 300.0})
    model.step([Access(storage=0, write_bytes=300)])
    for offset in (0, 7, 9):
        model.step([Access(storage=0, offset=offset, read_bytes=100)])
    assert model.read_bytes[0] == [0, 0, 0, 0]
    # A cache that starts cold has none of it.
    cold = Reuse([1000.0], 1, {0: 300.0})
    cold.step([Access(storage=0, offset=7, read_bytes=100)])
    assert cold.read_bytes[0] == [100]


def test_a_view_larger_than_its_storage_is_read_in_full():
    model = Reuse([1000.0], 2, {0: 100.0})
    model.step([Access(storage=0, read_bytes=50)])
    model.step([Access(storage=0, read_bytes=170)])
    assert model.read_bytes[0] == [50, 120]  # the 50 are still there


def test_a_storage_in_very_many_pieces_is_forgotten():
    model = Reuse([1e6], 200, {0: 1000.0})
    for offset in range(100):
        model.step([Access(storage=0, offset=offset, read_bytes=5)])
    for _ in range(2):
        model.step([Access(storage=0, offset=0, read_bytes=1000)])
    assert model.read_bytes[0][101] == pytest.approx(0, abs=1e-9)
    assert sum(model.read_bytes[0]) >= 1000


@st.composite
def programs(draw):
    storages = draw(st.integers(2, 6))
    sizes = {s: draw(st.sampled_from([40, 80, 120, 200])) for s in range(storages)}
    count = draw(st.integers(2, 8))
    ops = []
    for _ in range(count):
        touched = draw(st.lists(st.integers(0, storages - 1), min_size=1, max_size=3, unique=True))
        ops.append({s: draw(st.sampled_from([R, W, RW])) for s in touched})
    kept = draw(st.sets(st.integers(0, storages - 1), max_size=2))
    return sizes, ops, kept


@given(programs(), st.sampled_from([30, 100, 170, 260, 410, 700, 2000]))
@settings(max_examples=300, deadline=None)
def test_as_a_cache_of_lines(program, capacity):
    sizes, ops, kept = program
    lines = Lines(capacity, sizes, ops, kept).run()
    read, written = predicted(capacity, sizes, ops, kept)
    # Lines are not points: where a storage starts and ends costs a few of them for each touch.
    slack = 4 * sum(len(op) for op in ops)
    assert read == pytest.approx(lines.read, abs=slack)
    assert written == pytest.approx(lines.written, abs=slack)


@given(programs(), st.integers(10, 1000), st.integers(1, 1000))
@settings(deadline=None)
def test_a_larger_cache_never_reads_more(program, capacity, more):
    sizes, ops, kept = program
    small, large = (predicted(c, sizes, ops, kept) for c in (capacity, capacity + more))
    assert large[0] <= small[0] + 1e-6
    assert sum(large) <= sum(small) + 1e-6
