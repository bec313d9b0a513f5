"""Products of experts, by hand: 4 units of 1 GHz that share 8 byte/s and 1,000 FLOP/s."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.analysis.estimate import expert_forms
from gambrel.analysis.estimate.features import Task, rule_of
from gambrel.analysis.estimate.forms import Chip
from gambrel.ops import cost
from tests.analysis.estimate import views

MACHINE = Chip(units=4, clock_hz=1e9, byte_per_s=8.0)
CONSTANTS = {
    "compute": 0.5,
    "memory": 1.0,
    "headroom": 2.0,
    "settle": 2e-3,
    "k_fill": 0.0,
    "wave": 0.0,
    "operand": 0.0,
    "fill": 0.0,
    "permute": 0.0,
    "spread": 0.0,
    "cached": 0.0,
    "align": 0.0,
    "by_tokens": 1.0,
}


def grouped(machine=MACHINE, peak=1000.0, constants=None, **changes):
    fields = {"rows": 12, "touched": 2, "n": 64, "k": 10, "width": 0.0, "few": True} | changes
    fields.setdefault("row_tiles", lambda height: 2 * math.ceil(6 / height))
    return expert_forms.grouped_matmul({**CONSTANTS, **(constants or {})}, machine, peak, **fields)


def test_few_tokens_take_low_tiles():
    # 2 experts, one row of tiles each, 2 columns of 32: four tiles of 16 × 32, one a unit:
    # 2·16·32·10 = 10,240 FLOP on a unit that does 1,000 · 0.5 / 4 = 125 a second.
    assert grouped() == pytest.approx(10_240 / 125)


def test_tokens_of_few_experts_run_another_kernel():
    lone = {"lone_top_k": 2.0, "lone_compute": 0.5, "lone_memory": 1.0, "lone_launch": 3e9}
    assert grouped(constants=lone, top_k=2) == pytest.approx(2 * 10_240 / 125 + 3)
    assert grouped(constants=lone, top_k=4) == grouped(top_k=4) == grouped()


def test_many_tokens_take_a_fixed_tile():
    # One column of 64: two tiles of 64 × 64 on four units, still one wave: 2·64·64·10 FLOP.
    assert grouped(few=False) == pytest.approx(81_920 / 125)
    # Rows of 10 bytes are no multiple of 16, of 16 they are.
    slow = {"align": 2.0}
    assert grouped(constants=slow, few=False, width=1e-9) == pytest.approx(3 * 81_920 / 125)
    aligned = grouped(constants=slow, few=False, width=1.6e0, peak=1e-3)
    assert aligned == pytest.approx(81_920 / 125e-6)


def test_tuned_libraries_take_the_best_tile():
    # 16 × 64: two tiles of 2·16·64·10 = 20,480 FLOP, one wave. All others have more rows.
    tuned = {"by_tokens": 0.0}
    assert grouped(constants=tuned) == pytest.approx(20_480 / 125)
    # 128 rows an expert, and 512 steps of reading weights again: of 16 rows 33 times as long, of
    # 32 17 times, of 64 9 times, of 128 5 times. Eight tiles of 32 × 64 are two waves of
    # 17 · 40,960; four of 64 × 128 one of 9 · 163,840; two of 128 × 128 one of 5 · 327,680; 16 of
    # 16 × 64 four of 33 · 20,480: the first are the shortest.
    heavy = {"by_tokens": 0.0, "operand": 512.0}
    many = grouped(constants=heavy, rows=256, row_tiles=lambda height: 256 // height)
    assert many == pytest.approx(2 * 17 * 40_960 / 125)


def test_tiles_run_in_waves():
    # Six row tiles of two columns: 12 tiles of 16 × 32 on 4 units are 3 waves.
    assert grouped(row_tiles=lambda _: 6) == pytest.approx(3 * 10_240 / 125)
    # Five row tiles: 10 tiles are 2.5 waves; a fifth of the way to 3 is 2.6.
    waves = grouped(row_tiles=lambda _: 5, constants={"wave": 0.2})
    assert waves == pytest.approx(2.6 * 10_240 / 125)


def test_a_tile_fills_its_pipeline_and_reads_weights_again():
    # 10 more steps along k = 10: twice. 16 steps for each of 16 rows: twice.
    assert grouped(constants={"k_fill": 10.0}) == pytest.approx(2 * grouped())
    assert grouped(constants={"operand": 16.0}) == pytest.approx(2 * grouped())


def test_weights_of_touched_experts_are_streamed():
    # 2 · 64 · 10 values of half a byte at 8 byte/s: 80 s; products take no time.
    assert grouped(peak=1e30, width=0.5) == pytest.approx(80)
    # Four tiles on four units, each of which reaches no more than its own: sqrt(1 + 1).
    partly = grouped(peak=1e30, width=0.5, constants={"fill": 1.0})
    assert partly == pytest.approx(80 * 2**0.5)


def test_products_and_streams_overlap_imperfectly():
    # 3 parts of computing and 4 of streaming take 5.
    streamed = grouped() * 4 / 3
    width = streamed * 8.0 / (2 * 64 * 10)
    assert grouped(width=width) == pytest.approx(grouped() * 5 / 3)


def test_rows_are_permuted_and_places_passed_over():
    # Three times 12 rows of 64 + 10 values of 2 bytes are 5,328 bytes: 666 s at 8 byte/s.
    assert grouped(peak=1e30, constants={"permute": 3.0}) == pytest.approx(666)
    # Half of 32 bytes: 2 s.
    spread = grouped(peak=1e30, constants={"spread": 0.5}, spread_bytes=32.0)
    assert spread == pytest.approx(2)


def test_what_the_cache_holds_comes_faster():
    # Weights of 80 s; a cache three times as fast as the memory (2 + 1) holds half: 40 + 40 / 3.
    warm = grouped(peak=1e30, width=0.5, warm=0.5, constants={"cached": 2.0})
    assert warm == pytest.approx(40 + 40 / 3)
    # 3,552 bytes between kernels: nearly all stay in a large cache, e^-1 of them do in one of
    # their size, none where the cache is unknown.
    moved = {"permute": 2.0, "cached": 2.0}
    sizes = (1e9, 3552.0, 0.0)
    machines = [Chip(units=4, clock_hz=1e9, byte_per_s=8.0, cache_bytes=b) for b in sizes]
    large, equal, unknown = (grouped(m, peak=1e30, constants=moved) for m in machines)
    assert large == pytest.approx(444 / 3, rel=1e-4)
    assert equal == pytest.approx(444 * (1 - 2 / 3 * math.exp(-1)))
    assert unknown == pytest.approx(444)


def test_expected_row_tiles_against_random_routing():
    """A tile an expert of few rows; half a tile more than filled where rows differ."""
    random = np.random.default_rng(7)
    for mean, height in ((0.5, 16), (10, 128), (100, 64), (700, 64), (3000, 128)):
        # Loads that differ as those of experts do: log-normal, a factor of 2 either way.
        count = np.maximum(1, np.rint(mean * np.exp(random.normal(-0.24, 0.69, 4000))))
        drawn = np.ceil(count / height).sum()
        expected = expert_forms.expected_row_tiles(count.sum(), 4000, height)
        assert expected == pytest.approx(drawn, rel=0.12)


@given(
    rows=st.integers(1, 10**6),
    touched=st.integers(1, 512),
    height=st.sampled_from([16, 32, 64, 128]),
)
def test_expected_row_tiles_hold_all_rows(rows, touched, height):
    touched = min(rows, touched)
    tiles = expert_forms.expected_row_tiles(rows, touched, height)
    assert tiles * height >= rows
    assert tiles >= touched * 0.99
    assert tiles <= rows / height + touched


@given(st.lists(st.integers(1, 5000), min_size=2, max_size=5), st.booleans())
def test_arrays_as_one_by_one(tokens, tuned):
    c = {**CONSTANTS, "by_tokens": 0.0 if tuned else 1.0, "operand": 20.0, "align": 2.0}

    def seconds(t):
        return expert_forms.grouped_matmul(
            c, MACHINE, 1e6, rows=t * 2, touched=4, n=96, k=20, width=2, few=t <= 8
        )

    together = seconds(np.array(tokens))
    assert together.tolist() == pytest.approx([float(seconds(t)) for t in tokens])


def task_seconds(view):
    task = Task(view=view, cost=cost(view), matrix_peak=1e6, vector_peak=0.0, link_byte_per_s=0.0)
    return rule_of(view).seconds({**CONSTANTS, "operand": 8.0}, MACHINE, task)


def test_an_op_with_skewed_routing_touches_fewer_experts():
    even = views.grouped(64)
    skewed = views.grouped(64)
    skewed.attrs["routing_skew"] = 1.2
    assert task_seconds(skewed) < task_seconds(even)
