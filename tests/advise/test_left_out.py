"""Ops without a formula: every face gives the time of the others and says that they are missing."""

from __future__ import annotations

import msgspec
import pytest

import gambrel
from gambrel.capture import zoo
from gambrel.report import render


@pytest.fixture
def model():
    """ResNet-18 with one op that nobody knows."""
    known = zoo.load("resnet18")
    first = msgspec.structs.replace(known.ops[0], kind="acme.mystery", name="mystery")
    return msgspec.structs.replace(known, name="part", ops=(first, *known.ops[1:]))


def test_every_face_says_so(model):
    found = gambrel.analyze(model, "a100", runtime="tensorrt")
    assert found.left_out == "1 op without a formula"
    assert found.coverage < 1
    text = render(found)
    assert "leaving out 1 op without a formula" in " ".join(text.split())
    assert "images/s" not in text  # of the whole no rate is known

    asked = {"model": model, "hardware": "a100", "runtime": "tensorrt"}
    (latency,) = gambrel.check(**asked, latency="1s").constraints
    assert latency.verdict == "UNKNOWN"
    assert latency.figure.value is None
    assert latency.figure.low == found.expected_time_s.low
    number = f"{found.expected_time_s.value * 1e6:.1f}"
    assert "1 op without a formula; the others are expected to take" in latency.reason
    assert number in latency.reason
    missed = gambrel.check(**asked, latency=f"{found.expected_time_s.low / 2}s")
    assert missed.verdict == "FAIL"  # what is known takes too long already

    (row,) = gambrel.compare(**asked).rows
    assert row.figures["latency"].value is None
    assert row.figures["latency"].low == found.expected_time_s.low

    changed = gambrel.what_if(**asked, change="precision=int8")
    assert "times leave out 1 op without a formula." in changed.notes
    assert gambrel.sweep(**asked).warnings == ("part: figures leave out 1 op without a formula.",)
    judged = gambrel.judge(**asked, time="1s")
    assert judged.limits.library_expected is None
    assert "1 op without a formula" in judged.limits.unknown
