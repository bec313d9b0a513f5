"""A check of the toy perceptron: every figure by hand."""

import msgspec
import pytest

from gambrel.advise.check import check
from gambrel.advise.limits import parse_limits
from gambrel.analysis.analyze import Settings, analyze
from gambrel.device.model import MemoryLevel
from gambrel.report.check import render, to_json
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
    text, data = render(found), msgspec.json.decode(to_json(found))
    assert data["type"] == "gambrel/check"
    assert data["verdict"] == found.verdict.value == "FAIL"
    assert text.startswith("FAIL  perceptron on toy, fp16, batch 1\n")
    assert data["units"]["latency"] == "s"
    assert data["constraints"][0]["limit"] == pytest.approx(1e-6)
