"""Shares that were told from some number formats predict no other ones."""

import pytest

import gambrel

ASKED = {"model": "yolov8n", "hardware": "jetson-orin-nx-16gb", "runtime": "onnxruntime"}


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_measured_formats_have_a_time(precision):
    assert gambrel.analyze(**ASKED, precision=precision).expected_time_s is not None


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_formats_that_nobody_measured_have_none(precision):
    assert gambrel.analyze(**ASKED, precision=precision).expected_time_s is None
