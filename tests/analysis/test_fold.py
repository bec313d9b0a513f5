"""Repeated layers as one row."""

import msgspec

from gambrel.analysis.analyze import Settings, analyze
from tests.analysis.small import device, perceptron


def layers(*names):
    w = perceptron()
    ops = tuple(msgspec.structs.replace(w.ops[0], module=name) for name in names)
    return analyze(msgspec.structs.replace(w, ops=ops), device(), Settings(precision="fp16"))


def test_identical_layers_share_a_row():
    found = layers("h.0.fc", "h.1.fc", "h.2.fc")
    (row,) = found.folded()
    assert (row.name, row.module, row.count) == ("h.*.fc", "h.*.fc", 3)
    assert row.measures.flops == 3 * found.ops[0].measures.flops
    assert row.measures.times[0].time_s == 3 * found.ops[0].measures.times[0].time_s


def test_only_the_index_that_differs_is_starred():
    (row,) = layers("stage.2.block.0.fc", "stage.2.block.1.fc").folded()
    assert row.name == "stage.2.block.*.fc"


def test_other_names_stay_apart():
    assert [r.name for r in layers("h.0.fc", "h.0.gate").folded()] == ["h.0.fc", "h.0.gate"]


def test_totals_survive_folding():
    found = layers("h.0.fc", "h.1.fc", "out")
    assert sum(r.measures.traffic_bytes for r in found.folded()) == found.total.traffic_bytes
    assert sum(r.count for r in found.folded()) == 3
