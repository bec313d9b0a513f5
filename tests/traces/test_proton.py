"""Profiles of Proton: kernels, scopes with work, roofs from attributes, damaged files."""

from __future__ import annotations

import json

import pytest

from gambrel.analysis.samples import Known
from gambrel.errors import FileFormatError
from gambrel.traces import read
from gambrel.traces.devices import roofs_for

H100 = {"arch": "90", "bus_width": 5120, "clock_rate": 1980000, "memory_clock_rate": 2619000,
        "num_sms": 132}  # fmt: skip


def node(name, *children, **metrics):
    metrics = {key.replace("time_ns", "time (ns)"): value for key, value in metrics.items()}
    frame = {"name": name, "type": "function"}
    return {"children": list(children), "frame": frame, "metrics": metrics}


def kernel(name, time_ns, count=1, device="0", **more):
    on = {"device_id": device, "device_type": "CUDA"}
    return node(name, count=count, time_ns=time_ns, **on, **more)


@pytest.fixture
def write(tmp_path):
    def write(*children, devices=None):
        root = node("ROOT", *children, count=0, time_ns=0)
        path = tmp_path / "proton.hatchet"
        path.write_text(json.dumps([root, {"CUDA": devices or {"0": H100}}]))
        return path

    return write


def test_a_kernel_has_the_work_that_its_launch_told(write):
    (found,) = read(write(kernel("gemm", 20_000, 10, flops16=1e9, bytes=4e6))).launches
    assert (found.count, found.time_s, found.flops) == (10, pytest.approx(20e-6), 10**9)
    assert found.work[0].dtype == "fp16"
    assert found.bytes_at("DRAM") == 4_000_000


def test_a_scope_with_work_stands_for_its_kernels(write):
    scope = node("attention", kernel("a", 3000), kernel("b", 5000), flops16=8e6)
    (found,) = read(write(scope)).launches
    assert (found.name, found.time_s, found.flops) == ("attention", pytest.approx(8e-6), 8_000_000)


def test_scopes_without_work_name_where_kernels_ran(write):
    hook = node("__proton_launch_metadata", kernel("helper", 9000))
    first, second = read(
        write(node("model", node("mlp", hook, kernel("gelu", 1000))), kernel("copy", 2000))
    ).launches
    assert (first.name, first.range, first.state) == ("gelu", "model / mlp", Known.MISSING)
    assert (second.name, second.range) == ("copy", "")


def test_roofs_follow_from_the_attributes(write):
    """132 SMs x 4096 FLOP a clock x 1.98 GHz in fp16; 2 x 2.619 GHz x 5120 bit / 8."""
    device, _ = roofs_for(read(write(kernel("gemm", 1000, flops16=1e6))))
    roofs = {(c.engine, c.dtype): c.flop_per_s for c in device.ceilings}
    assert roofs["matrix", "fp16"] == pytest.approx(132 * 4096 * 1.98e9)
    assert device.level("DRAM").byte_per_s == pytest.approx(2 * 2.619e9 * 5120 / 8)


def test_devices_stay_apart(write):
    path = write(kernel("a", 1000, device="0"), kernel("a", 1000, device="1"),
                 devices={"0": H100, "1": H100})  # fmt: skip
    assert [s.origin for s in read(path).launches] == ["CUDA 0", "CUDA 1"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[: len(text) // 2], "no complete profile"),
        (lambda text: text.replace('"time (ns)": 1000', '"time (ns)": "x"'), "no kernel"),
        (lambda text: text.replace('"children"', '"kids"'), "no kernel|no complete|no known"),
        (lambda text: text.replace('"metrics": {"count": 1', '"metrics": {"count": [1]'), None),
        (lambda text: text.replace("1000", "-1000"), "no kernel"),
    ],
)
def test_damage_is_said_in_a_sentence(write, change, says):
    path = write(kernel("a", 1000))
    path.write_text(change(path.read_text()))
    if says is None:
        assert read(path).launches[0].count == 1
        return
    with pytest.raises(FileFormatError, match=says):
        read(path)
