"""A device's own factors (`gambrel calibrate`) reach every way of asking alike."""

from __future__ import annotations

import msgspec
import pytest

from gambrel.advise.fleet import Fleet
from gambrel.analysis.analyze import analyze
from gambrel.analysis.estimate import packaged
from gambrel.analysis.estimate.constants import Adjustment
from gambrel.analysis.settings import Settings
from gambrel.analysis.sweep import sweep
from gambrel.capture.zoo import load
from gambrel.device.lookup import find

CASES = [
    ("a100-sxm4-80gb", "pytorch"),
    ("a100-sxm4-80gb", "pytorch-graph"),
    ("a100-sxm4-80gb", "torch-compile"),
    ("a100-sxm4-80gb", "tensorrt"),
    ("l4", "onnxruntime-cuda"),
    ("xeon-8480+", "pytorch"),
    ("core-i7-1185g7", "openvino"),
    ("snapdragon-8-elite", "qnn"),
    ("hailo-8", "hailort"),
    ("tpu-v5e", "xla"),
    ("rx-7900-xtx", "pytorch"),
]
FACTORS = (
    {"compute": 2.0, "memory": 1.5, "launch": 0.5},
    {"compute": 0.5, "memory": 3.0, "launch": 2.0},
)


@pytest.mark.parametrize("factors", FACTORS, ids=["slower", "faster"])
@pytest.mark.parametrize(("device", "runtime"), CASES)
@pytest.mark.parametrize("model", ["vit-b-16", "mobilenet-v2"])
def test_analyze_fleet_and_sweep_agree(model, device, runtime, factors) -> None:
    machine, workload = find(device).device, load(model)
    own = Adjustment(runtime=runtime, device=device, factors=factors, low=0.8, high=1.3)
    calibration = msgspec.structs.replace(packaged(), adjusted=(own,))
    settings = Settings(runtime=runtime, calibration=calibration, sizes={"batch": 3})
    one = analyze(workload, machine, settings)
    assert Fleet(workload, settings).on(machine).facts.expected == one.expected_time_s
    many = sweep(
        workload,
        [machine],
        [one.model.precision],
        {"batch": [3, 4]},
        Settings(runtime=runtime, calibration=calibration),
    )
    assert one.expected_time_s is not None
    assert float(many.expected_time_s[0]) == pytest.approx(one.expected_time_s.value, rel=1e-9)
