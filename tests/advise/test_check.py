"""A check of the toy perceptron: every figure by hand."""

import msgspec
import pytest

import gambrel
from gambrel.advise.check import check
from gambrel.advise.limits import parse_limits
from gambrel.advise.recommend import advise
from gambrel.advise.verdict import Verdict
from gambrel.analysis.analyze import analyze
from gambrel.analysis.settings import Settings
from gambrel.device.model import MemoryLevel
from gambrel.report import render
from tests.analysis.small import device, host_fed, perceptron


def checked(limits, on=None, **settings):
    found = analyze(perceptron(), on or device(), Settings(precision="fp16", **settings))
    return check(found, parse_limits(limits))


def test_memory_bound_model_against_memory():
    # w1 32 + w2 16 elements in fp16 are 96 bytes; x 4, hidden 8 twice, out 2 of two bytes each
    found = checked({"memory": "1kB"})
    assert found.verdict == "PASS"
    assert 96 < found.constraints[0].figure.value < 150


def test_the_whole_is_as_bad_as_its_worst_part():
    found = checked({"memory": "1kB", "power": "10W"})
    assert [c.verdict for c in found.constraints] == ["UNKNOWN", "PASS"]
    assert found.verdict == "UNKNOWN"
    assert found.reason.startswith("power: no thermal design power is published; ")


def test_a_model_that_does_not_fit_fails_whatever_was_asked():
    small = device(memory=(MemoryLevel(name="DRAM", capacity_bytes=50, byte_per_s=10.0),))
    found = checked({"latency": "1000s"}, on=small)
    assert found.verdict == "FAIL"
    assert found.constraints[-1].metric == "capacity"
    assert found.constraints[-1].reason == "does not fit into the 50 B of the device"


def test_a_device_fed_by_its_host_streams_what_does_not_fit():
    found = checked({"latency": "1000s"}, on=host_fed(50))
    assert [c.metric for c in found.constraints] == ["latency"]


def test_limits_that_contradict_each_other_are_named():
    found = checked({"latency": "10s", "throughput": "1"}, sizes={"batch": 2})
    assert found.notes[0].startswith("1 items/s at batch 2 need a batch every 2 s")
    assert not any("need a batch" in n for n in checked({"latency": "10s"}).notes)


def test_text_and_json_say_the_same():
    found = checked({"latency": "1us", "power": "10W"})
    text, data = render(found), msgspec.json.decode(render(found, "json"))
    assert data["type"] == "gambrel/check"
    assert data["verdict"] == found.verdict.value == "FAIL"
    assert "\nFAIL, proved" in text
    assert (data["proof"], found.proof) == ("sol", "sol")
    assert data["constraints"][0]["limit"] == pytest.approx(1e-6)


#: MLPerf v3.0 Offline, ResNet-50 int8, samples/s per device (table of the contract, section 6).
MLPERF = {
    "h100-sxm5-80gb": 91_826,
    "a100-sxm4-80gb": 42_871,
    "h100-pcie-80gb": 57_182,
    "l40": 31_014,
    "a30": 21_354,
    "l4": 13_595,
    "t4": 6_121,
    "jetson-agx-orin-64gb": 6_438,
}


@pytest.mark.parametrize("on", MLPERF)
def test_no_published_rate_is_a_failure(on):
    at = gambrel.check("resnet50", on, precision="int8", throughput=MLPERF[on])
    assert at.proof != "sol"
    below = gambrel.check("resnet50", on, precision="int8", throughput=MLPERF[on] * 0.65)
    assert below.verdict != "FAIL", (below.reason, below.runtime, below.sizes)


def test_every_runtime_and_batch_is_tried_for_a_throughput():
    found = gambrel.check("resnet50", "h100", precision="int8", throughput="60000/s")
    assert found.verdict.meets
    assert len({t.runtime for t in found.tried}) > 1
    assert {1, 64} <= {t.batch_size for t in found.tried}
    assert any("tried" in note and found.runtime in note for note in found.notes)
    # At one item the host alone takes longer, whatever the runtime.
    one = gambrel.check("resnet50", "h100", precision="int8", throughput="60000/s", batch_size=1)
    assert (one.verdict, one.proof) == ("FAIL", "expected")
    assert {t.batch_size for t in one.tried} == {1}
    eager = gambrel.check("resnet50", "h100", latency="1ms", runtime="pytorch")
    assert {t.runtime for t in eager.tried} == {"pytorch"}


@pytest.mark.parametrize("model", ["clip-vit-b-32", "resnet50"])
def test_every_face_says_the_same_about_fitting(model):
    on = "coral-edge-tpu"
    found = gambrel.analyze(model, on)
    (row,) = gambrel.compare(model, on).rows
    assert row.fits == found.footprint.fits
    assert not any("does not fit" in h for h in advise(found).hints) or row.fits is False


@pytest.mark.parametrize(
    ("model", "on"), [("resnet50", "tpu-v5e"), ("clip-vit-b-32", "coral-edge-tpu")]
)
def test_advice_never_proposes_what_is_refused(model, on):
    found = gambrel.analyze(model, on)
    for r in advise(found).recommendations:
        found.with_change(*r.changes)
        assert "fuse" not in r.changes  # the compilers of TPUs fuse already
        if on == "coral-edge-tpu":
            assert not any(c.startswith(("weights=", "batch=")) for c in r.changes)


def test_the_best_trial_has_an_expected_time_where_one_has():
    """Where all fail, a runtime of which nothing is known is not the best."""
    found = gambrel.check("resnet50", hardware="arc-a770", throughput="300000/s")
    assert found.verdict is Verdict.FAIL
    assert any(trial.expected_time_s is None for trial in found.tried)
    assert found.tried[0].expected_time_s is not None


def test_of_batches_that_are_as_good_the_smallest_is_the_best():
    found = gambrel.check("resnet50", hardware="raspberry-pi-5", throughput="30/s")
    best = found.tried[0]
    rate = best.batch_size / best.expected_time_s
    most = max(
        t.batch_size / t.expected_time_s
        for t in found.tried
        if t.runtime == best.runtime and t.expected_time_s
    )
    assert 0.97 * most <= rate <= most
    assert best.batch_size < 64
