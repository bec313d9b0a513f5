"""The data file: every number can be traced."""

from pathlib import Path

import pytest

import gambrel
from gambrel.analysis.estimate import packaged
from gambrel.analysis.estimate.constants import EDGES_S
from gambrel.analysis.estimate.kinship import FRAMEWORKS, LEVELS, kin_of
from gambrel.device import catalog

PATH = Path(gambrel.__file__).parent / "analysis/calibration/constants.json"
SETS = packaged().sets
KERNEL_DEVICES = {"h100-sxm5-80gb", "a100-sxm4-80gb", "l40s", "b200-hgx-180gb"}
RUNS = ("mi300x",)
TORCH_DEVICES = {
    "h100-sxm5-80gb",
    "h100-pcie-80gb",
    "a100-pcie-40gb",
    "v100-pcie-32gb",
    "v100-sxm2-32gb",
    "t4",
    "p100-pcie-16gb",
    "p4-8gb",
    "mi100",
    "mi210",
    "jetson-orin-nx-16gb",  # whole models, of all Jetson Orins
    "rx-6800",  # whole models
    "rx-7900-xtx",
    "rtx-3090",  # whole models in 16 bits
    "rtx-4090",
    "rtx-5090",
}


def test_source_and_licence_are_named():
    source = packaged().source
    assert "Apache-2.0, Copyright (c) 2025-2026 NVIDIA CORPORATION" in source["licence"]
    assert (source["commit"], source["date"]) == ("095f58a5", "2026-08-21")
    assert source["url"].startswith("https://github.com/")
    assert source["fit"].startswith("scripts/fit_calibration.py")


def test_file_is_small():
    assert PATH.stat().st_size < 300_000


@pytest.mark.parametrize(
    "s", SETS, ids=lambda s: f"{s.framework}-{s.form}-{s.formats[0]}-{s.device}"
)
def test_sets_are_complete(s):
    assert s.framework in FRAMEWORKS
    assert len(s.low) == len(s.high) == len(EDGES_S) + 1
    assert all(0 < low <= 1 <= high for low, high in zip(s.low, s.high, strict=True))
    assert all(value >= 0 for value in s.constants.values())
    if not s.points:  # transferred or cited, not fitted to rows, and says so
        assert s.confidence in {"medium", "low"}
        assert s.held_out is None
        if s.device in RUNS:  # fitted to whole runs (scripts/fit_rocm.py)
            assert s.confidence == "low"
            return
        assert s.form in {"stream", "matmul"} or s.framework == "torch"
        return
    assert s.device in (TORCH_DEVICES if s.framework == "torch" else KERNEL_DEVICES)
    assert s.points >= 10 or s.confidence == "medium"
    assert s.held_out.points == s.points or s.held_out.points >= 10
    assert s.held_out.by_framework.get(s.describes, s.held_out.mape) <= 0.35
    assert len(s.held_out.by_framework) != 1  # one alone is the mean


def test_no_two_sets_answer_one_question():
    keys = [(s.framework, s.form, f, s.device) for s in SETS for f in s.formats]
    assert len(keys) == len(set(keys))


def test_efficiencies_of_products_are_shares():
    for s in SETS:
        if s.form == "matmul" and "bf16" in s.formats and s.points:
            assert 0.6 < s.constants["compute"] < 1.0
            assert 1e3 < s.constants["launch"] < 1e4


def test_constants_travel_within_a_class_of_device_only():
    kin = {d.id: kin_of(d, packaged()) for d in catalog.list_devices()}
    gpus = {d.id for d in catalog.list_devices() if d.vendor in {"NVIDIA", "AMD"}}
    assert len([name for name, found in kin.items() if found]) > 40
    for name, found in kin.items():
        if found is not None:
            assert name in gpus
            assert found.confidence in LEVELS[1:]
            assert found.low < 1 < found.high
            assert found.why
    # Nothing of a CPU, TPU, NPU or Apple GPU was fitted: unknown, not borrowed from an H100.
    for name in ("epyc-9654", "tpu-v5e", "hailo-8", "m3-max", "coral-edge-tpu"):
        assert kin[name] is None


def test_high_confidence_was_shown_on_rows_left_out():
    for s in SETS:
        if s.framework == "torch" and s.confidence == "high":
            assert s.held_out.points >= 40
            assert s.held_out.mape <= 0.15
            assert s.held_out.inside >= 0.85


def test_no_amd_device_borrows_from_nvidia():
    measured = {s.device for s in SETS}
    nvidia = {d for d in measured if catalog.load(d).vendor == "NVIDIA"}
    assert len(nvidia) >= 10
    for device in catalog.list_devices():
        kin = kin_of(device, packaged())
        if device.vendor == "AMD" and kin is not None:
            assert kin.alone
            assert not {kin.borrow, *kin.before, *kin.nearest.values()} & nvidia


def test_the_file_is_as_it_is_written(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "scripts")
    import constants_file

    constants_file.write(constants_file.read(), tmp_path / "again.json")
    again = (tmp_path / "again.json").read_text(encoding="utf-8")
    assert again == constants_file.TARGET.read_text(encoding="utf-8")
