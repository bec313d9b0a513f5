"""Changes are applied and analyzed again."""

import pytest

from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.recommend import recommend
from gambrel.errors import InputError
from tests.analysis.small import device, perceptron


def test_a_larger_batch_reads_weights_for_more_items():
    found = analyze(perceptron(), device(), Settings(precision="fp16"))
    by_change = {r.change.split("=")[0]: r for r in recommend(found)}
    batch = by_change["batch"]
    size = int(batch.change.split("=")[1])
    again = analyze(perceptron(), device(), Settings(precision="fp16", sizes={"batch": size}))
    assert batch.time_after_s == pytest.approx(again.total.bound_time_s / size)
    assert batch.gain == pytest.approx(found.total.bound_time_s / batch.time_after_s)
    assert batch.fits_after is True


def test_precision_only_where_the_device_has_a_roof_for_it():
    found = analyze(perceptron(), device(), Settings(precision="fp32"))
    changes = {r.change for r in recommend(found)}
    assert "precision=fp16" in changes
    assert "precision=int8" not in changes


def test_sorted_by_gain_and_nothing_below_five_percent():
    gains = [r.gain for r in recommend(analyze(perceptron(), device()))]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) >= 1.05


def test_without_a_bound_there_is_nothing_to_improve():
    found = analyze(perceptron(), device(ceilings=(), memory=()), Settings(precision="fp16"))
    with pytest.raises(InputError, match="no bound time"):
        recommend(found)
