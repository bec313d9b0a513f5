"""What libraries attain: which way stays, and what is said of it. By a clock of its own."""

import numpy as np
import pytest

from gambrel.measure import library
from gambrel.measure.library import LibraryProduct, ProductLayout, Search, SearchTrial


class Time:
    """A clock that only calls move."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def a_way(time, label, seconds, seen=None):
    """A way of 1000 FLOP whose calls take the given seconds one after another, then the last."""
    left = list(seconds)

    def call():
        if seen is not None:
            seen.append(label)
        time.now += left.pop(0) if len(left) > 1 else left[0]

    return ProductLayout(label=label, flop=1000.0, prepare=lambda: call)


def a_trial(time, *ways):
    return SearchTrial(LibraryProduct(name="p", dtype="fp32", threads=3, ways=ways), time)


def test_the_best_way_stands_with_its_label():
    time = Time()
    # 20 ms a call and 10 ms a call: 50 000 and 100 000 FLOP/s.
    trial = a_trial(time, a_way(time, "slow", [0.02]), a_way(time, "fast", [0.01]))
    for _ in range(3):
        trial.turn()
    found = trial.result()
    assert (found.mix, found.dtype, found.threads) == ("p", "fp32", 3)
    assert found.value == pytest.approx(100_000)
    assert found.note == "fast, the best of 2"
    assert found.rounds == 3
    assert found.samples == 3 * 2  # two calls fill a turn
    assert found.spread == pytest.approx(0, abs=1e-9)


def test_worse_ways_are_dropped_and_two_stay():
    time, seen = Time(), []
    ways = [a_way(time, str(ms), [ms * 1e-3], seen) for ms in (8, 7, 6, 5, 4, 3, 2, 1)]
    trial = a_trial(time, *ways)
    left = []
    for _ in range(5):
        trial.turn()
        left.append(len(trial.candidates))
    assert left == [8, 4, 2, 2, 2]
    assert {c.way.label for c in trial.candidates} == {"1", "2"}
    assert trial.result().note == "1, the best of 8"


def test_a_way_that_was_disturbed_once_is_not_dropped_for_that():
    time = Time()
    # The first calls of the fast way, one to warm up and a turn, fall into an interruption.
    ways = [
        a_way(time, "fast", [0.001, 0.2, 0.2, 0.01]),
        *(a_way(time, f"slow {i}", [0.02]) for i in range(4)),
    ]
    trial = a_trial(time, *ways)
    for _ in range(6):
        trial.turn()
    assert trial.result().note == "fast, the best of 5"
    # Of six rounds the faster half counts, and the disturbed one is not in it.
    assert trial.result().value == pytest.approx(100_000)


def test_a_format_that_is_only_imitated_does_not_hold_up_the_survey():
    time, seen = Time(), []
    trial = a_trial(time, *(a_way(time, name, [1.0], seen) for name in "abcdef"))
    for _ in range(20):
        trial.turn()
    # A call to warm up and one that counts: after two seconds no further way is tried, after three
    # in all the product is left alone.
    assert seen == ["a", "a", "a"]
    assert trial.result().value == pytest.approx(1000)
    assert trial.result().note == "a, the best of 6"


def test_nothing_ran_is_no_figure():
    assert a_trial(Time()).result() is None
    assert Search().result() == library.Attained(measurements=(), versions={})


@pytest.fixture
def little(monkeypatch):
    monkeypatch.setattr(library, "SHAPES", ((8, 4, 2), (4, 4, 4), (6, 2, 4), (2, 2, 2)))
    monkeypatch.setattr(library, "CONVOLUTIONS", ((2, 4, 6, 3),))
    monkeypatch.setattr(library, "_REST_S", 0.0)


def test_installed_libraries_are_found_with_their_versions(little):
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()
    search = Search()
    for _ in range(2):
        search.turn()
    found = search.result()
    assert found.versions == {"numpy": np.__version__, "torch": torch.__version__}
    names = {(m.mix, m.dtype) for m in found.measurements}
    assert names == {
        *(("numpy matmul", d) for d in ("fp32", "fp64")),
        *(("torch mm", d) for d in ("fp32", "fp64", "bf16")),
        *(("torch conv2d", d) for d in ("fp32", "bf16")),
    }
    assert all(m.resource == "library" and m.rounds == 2 for m in found.measurements)
    assert (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()) == before


def test_a_rough_search_tries_few_ways(little):
    search = Search(rough=True)
    search.turn()
    notes = {m.note.rpartition(", ")[2] for m in search.result().measurements}
    assert notes == {"the best of 3", "the best of 1"}  # there is one convolution only


def test_work_of_a_way_is_counted_by_hand():
    torch = pytest.importorskip("torch")
    product = library._mm(torch.float32, (3, 5, 7), turned=True)
    assert product.flop == 2 * 3 * 5 * 7
    assert product.label == "3x5x7, second operand transposed"
    assert product.prepare()().shape == (3, 5)
    convolution = library._convolution(torch.float32, (2, 4, 6, 3))
    assert convolution.flop == 2 * (2 * 4 * 6 * 6) * (4 * 3 * 3)  # outputs, products of each
    assert convolution.prepare()().shape == (2, 4, 6, 6)
