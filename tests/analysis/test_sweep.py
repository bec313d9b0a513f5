"""A sweep answers what single analyses answer."""

import math

import numpy as np
import pytest

import gambrel
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.sweep import sweep
from gambrel.errors import InputError, WorkloadError
from tests.analysis.small import device, host_fed, perceptron


def same(found, i, single):
    """Point ``i`` of a sweep says what its own analysis says."""
    assert found.flops[i] == single.flops
    assert found.traffic_bytes[i] == single.traffic_bytes
    assert found.bound[i] == single.bound.value
    assert found.runtime[i] == single.runtime
    for name in ("sol_time_s", "roofline_time_s", "expected_time_s"):
        own = getattr(single, name)
        if own is None:
            assert math.isnan(getattr(found, name)[i])
        else:
            assert getattr(found, name)[i] == pytest.approx(float(own), rel=1e-9)


def test_every_point_equals_its_own_analysis():
    batches = [1, 2, 3, 1000, 100_000]
    found = sweep(perceptron(), [device()], ["fp16", "fp32"], {"batch": batches})
    assert len(found) == 10
    for i in range(len(found)):
        settings = Settings(
            precision=str(found.precision[i]), sizes={"batch": int(found.sizes["batch"][i])}
        )
        same(found, i, analyze(perceptron(), device(), settings))


def test_depthwise_convolutions_are_expected_alike():
    batches, devices = [1, 3, 64], ["h100", "l40s", "epyc-9755"]
    found = gambrel.sweep("mobilenet-v2", devices, precision=["fp16", "fp32"], batch_size=batches)
    for i in range(len(found)):
        single = gambrel.analyze(
            "mobilenet-v2",
            str(found.device[i]),
            batch_size=int(found.sizes["batch"][i]),
            precision=str(found.precision[i]),
        )
        same(found, i, single)
    # Nothing was measured on a CPU: unknown, not guessed.
    assert (np.isnan(found.expected_time_s) == (found.device == "epyc-9755")).all()


@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile", "onnxruntime", "perfect"])
@pytest.mark.parametrize("name", ["resnet18", "bert-base"])
def test_every_runtime_sweeps(name, runtime):
    """Kernels that depend on sizes are formed anew at every point."""
    found = gambrel.sweep(name, ["a100"], batch_size=[1, 5], precision=["fp16"], runtime=runtime)
    for i, batch in enumerate((1, 5)):
        single = gambrel.analyze(name, "a100", batch_size=batch, precision="fp16", runtime=runtime)
        same(found, i, single)


@pytest.mark.parametrize("runtime", ["pytorch", "perfect"])
def test_devices_that_live_off_their_link_sweep(runtime):
    chosen = Settings(precision="fp16", runtime=runtime)
    found = sweep(perceptron(), [host_fed(48)], ["fp16"], {"batch": [1, 2, 7]}, chosen)
    for i, batch in enumerate((1, 2, 7)):
        one = Settings(precision="fp16", runtime=runtime, sizes={"batch": batch})
        same(found, i, analyze(perceptron(), host_fed(48), one))


def test_columns():
    found = sweep(perceptron(), [device(), device(id="other")], ["fp16"], {})
    assert list(found.to_dict()) == [
        "device",
        "precision",
        "runtime",
        "batch",
        "flops",
        "traffic_bytes",
        "sol_time_s",
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
    with pytest.raises(InputError, match="NVIDIA TensorRT does not run on toy"):
        sweep(perceptron(), [device()], ["fp16"], {}, Settings(runtime="tensorrt"))


def test_unknown_roofs_are_not_a_number():
    found = sweep(perceptron(), [device(ceilings=(), memory=())], ["fp16"], {})
    assert math.isnan(found.roofline_time_s[0])
    assert math.isnan(found.sol_time_s[0])
    assert found.bound[0] == ""
