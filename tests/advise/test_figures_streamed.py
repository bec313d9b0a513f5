"""Devices that stream frames: a rate is known, the time that one frame takes is not."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.advise.figures import facts_of, figure


@pytest.fixture(scope="module")
def facts():
    return facts_of(gambrel.analyze("mobilenet-v2", "hailo-8", batch_size=8))


def test_a_streamed_rate_is_no_latency(facts):
    latency = figure(facts, "latency")
    assert (latency.value, latency.high) == (None, None)
    assert latency.low == facts.expected.low
    assert "streamed" in latency.reason


def test_the_throughput_stands_on_the_time_between_results(facts):
    throughput = figure(facts, "throughput")
    assert throughput.value == pytest.approx(8 / facts.expected.value)


def test_a_check_of_latency_does_not_pass_on_a_rate():
    assert gambrel.check("yolov8n", "hailo-8", latency="33ms").verdict.name == "UNKNOWN"
    assert gambrel.check("yolov8n", "hailo-8", throughput="30/s").verdict.name == "PASS"


def test_elsewhere_the_expected_time_is_the_latency():
    facts = facts_of(gambrel.analyze("mobilenet-v2", "l4"))
    assert figure(facts, "latency").value == facts.expected.value
