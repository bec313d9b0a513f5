import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.measure.stats import SampledRate, best_of, figure, over_rounds


def test_the_rate_is_an_upper_quantile_of_the_slices():
    # 21 slices of 100 FLOP: rates 100/1 ... 100/21. The 95% quantile of 21 values is the second
    # highest, 100/2; the median is the eleventh, 100/11.
    found = figure([float(s) for s in range(1, 22)], work=100)
    assert found.value == pytest.approx(50.0)
    assert found.median == pytest.approx(100 / 11)
    assert found.samples == 21


def test_interrupted_slices_do_not_count():
    assert figure([1.0] * 80 + [50.0] * 20, work=3).value == pytest.approx(3.0)


def test_the_best_round_stands_and_the_others_are_the_spread():
    rounds = [SampledRate(value=v, median=v / 2, samples=5) for v in (80.0, 100.0, 90.0)]
    best = best_of(rounds)
    assert (best.value, best.median, best.round) == (100.0, 50.0, 1)
    assert best.spread == pytest.approx(0.2)  # (100 - 80) / 100


def figures(*values):
    return [SampledRate(value=v, median=v - 1, samples=4) for v in values]


def test_rounds_are_worth_the_mean_of_their_faster_half():
    # Eleven rounds: the faster half are the six highest, 95 + 96 + ... + 100 = 585.
    found = over_rounds(figures(*range(100, 89, -1)))
    assert found.value == pytest.approx(97.5)
    assert found.median == 94  # the sixth of 89 ... 99
    assert found.samples == 44
    # The 90% quantile is 99, the 10% quantile 91.
    assert found.spread == pytest.approx(8 / 97.5)


def test_interrupted_rounds_do_not_count():
    found = over_rounds(figures(3, 100, 100, 5, 100, 100))
    assert found.value == 100


def test_one_round_stands_for_itself():
    found = over_rounds(figures(7.0))
    assert (found.value, found.spread) == (7.0, 0.0)


def test_a_lucky_round_moves_the_figure_by_its_share_only():
    # Of twenty rounds ten count: one that is a tenth faster moves their mean by a hundredth.
    usual = over_rounds(figures(*[100.0] * 20))
    lucky = over_rounds(figures(*[100.0] * 19, 110.0))
    assert lucky.value / usual.value == pytest.approx(1.01)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=50), st.floats(1, 1e12))
def test_a_rate_is_never_above_that_of_the_shortest_slice(seconds, work):
    found = figure(seconds, work)
    assert found.value <= work / min(seconds) * (1 + 1e-9)
    assert found.median <= found.value * (1 + 1e-9)
