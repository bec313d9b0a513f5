"""A sweep answers what single analyses answer."""

import pytest

import gambrel
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.sweep import sweep
from gambrel.errors import InputError, WorkloadError
from tests.analysis.small import device, host_fed, perceptron


def test_every_point_equals_its_own_analysis():
    batches = [1, 2, 3, 1000, 100_000]
    found = sweep(perceptron(), [device()], ["fp16", "fp32"], {"batch": batches})
    assert len(found) == 10
    for i in range(len(found)):
        settings = Settings(
            precision=str(found.precision[i]), sizes={"batch": int(found.sizes["batch"][i])}
        )
        single = analyze(perceptron(), device(), settings).total
        assert found.flops[i] == single.flops
        assert found.traffic_bytes[i] == single.traffic_bytes
        assert found.roofline_time_s[i] == pytest.approx(single.roofline_time_s, rel=1e-12)
        assert found.bound[i] == single.bound.value
        expected = single.expected_time_s.value
        assert found.expected_time_s[i] == pytest.approx(expected, rel=1e-9)


def test_depthwise_convolutions_are_expected_alike():
    batches, devices = [1, 3, 64], ["h100", "a100", "epyc-9755"]
    found = gambrel.sweep("mobilenet-v2", devices, precision=["fp16", "fp32"], batch=batches)
    for i in range(len(found)):
        single = gambrel.analyze(
            "mobilenet-v2",
            str(found.device[i]),
            batch_size=int(found.sizes["batch"][i]),
            precision=str(found.precision[i]),
        )
        expected = single.expected_time_s.value
        assert found.expected_time_s[i] == pytest.approx(expected, rel=1e-9)


def test_columns():
    found = sweep(perceptron(), [device(), device(id="other")], ["fp16"], {})
    assert list(found.to_dict()) == [
        "device",
        "precision",
        "batch",
        "flops",
        "traffic_bytes",
        "roofline_time_s",
        "bound",
        "expected_time_s",
    ]
    assert found.device.tolist() == ["toy", "other"]


def test_refusals():
    with pytest.raises(InputError, match="at least one device"):
        sweep(perceptron(), [], ["fp16"], {})
    with pytest.raises(WorkloadError, match="batch=0"):
        sweep(perceptron(), [device()], ["fp16"], {"batch": [0]})
    with pytest.raises(InputError, match="lives off its host link"):
        sweep(perceptron(), [host_fed(10)], ["fp16"], {})


def test_unknown_roofs_are_not_a_number():
    found = sweep(perceptron(), [device(ceilings=(), memory=())], ["fp16"], {})
    assert found.roofline_time_s[0] != found.roofline_time_s[0]
    assert found.bound[0] == ""
