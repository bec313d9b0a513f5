"""The checks must find what is wrong: each is given a device with one slip."""

import pytest
from msgspec.structs import replace
from scripts.catalog_checks import check_device, formulas

from gambrel.device.catalog import load
from gambrel.device.model import Ceiling, Source


def changed(device, engine, dtype, **fields):
    ceilings = tuple(
        replace(c, **fields) if (c.engine, c.dtype, c.accumulate) == (engine, dtype, "") else c
        for c in device.ceilings
    )
    assert ceilings != device.ceilings
    return replace(device, ceilings=ceilings)


def found(device):
    return {(f.check, bool(f.reason)) for f in check_device(device)}


def test_a_right_device_has_no_findings():
    assert check_device(load("a100-sxm4-80gb")) == ()


def test_a_sparse_figure_taken_for_dense_breaks_the_formula():
    wrong = changed(load("a100-sxm4-80gb"), "matrix", "fp16", flop_per_s=624e12)
    (finding,) = [f for f in check_device(wrong) if f.check == "formula"]
    # 108 x 2048 x 1.41e9 = 311.9e12, half of 624e12.
    assert finding.message == "matrix fp16: 108 SM x 2048 x 1.41 GHz is -50.0% off 6.24e+14"
    assert finding.reason == ""


def test_the_vector_peaks_of_hopper_belong_to_the_higher_clock():
    computed = {
        (f.ceiling.engine, f.ceiling.dtype): f.computed_flop_per_s
        for f in formulas(load("h100-sxm5-80gb"))
    }
    assert computed["matrix", "fp16"] == pytest.approx(989.4e12, rel=1e-3)  # 132 x 4096 x 1.83e9
    assert computed["vector", "fp32"] == pytest.approx(66.9e12, rel=1e-3)  # 132 x 256 x 1.98e9
    assert computed["matrix", "fp64"] == pytest.approx(66.9e12, rel=1e-3)  # 132 x 256 x 1.98e9


@pytest.mark.parametrize(
    ("name", "flop_per_s"),
    [
        ("epyc-9654", 96 * 32 * 3.7e9),  # of a single core
        ("xeon-8480+", 56 * 64 * 3.0e9),  # of all cores at once
        ("core-i9-13900k", 8 * 32 * 5.8e9 + 16 * 16 * 4.3e9),  # of both kinds
    ],
)
def test_the_peaks_of_a_cpu_belong_to_its_highest_clock(name, flop_per_s):
    device = load(name)
    (fp32,) = [f for f in formulas(device) if f.ceiling.dtype == "fp32"]
    assert fp32.computed_flop_per_s == pytest.approx(flop_per_s)
    assert fp32.ceiling.flop_per_s == pytest.approx(flop_per_s)


def test_a_bandwidth_in_the_wrong_unit_shows_in_the_ridge():
    a100 = load("a100-sxm4-80gb")
    dram = replace(a100.memory[0], byte_per_s=2.039e9)
    assert ("ridge", False) in found(replace(a100, memory=(dram, *a100.memory[1:])))


def test_a_sparse_peak_below_the_dense_one():
    assert ("sparse", False) in found(
        changed(load("a100-sxm4-80gb"), "matrix", "fp16", sparse_flop_per_s=311e12)
    )


def test_a_module_that_is_not_the_sum_of_its_parts():
    wrong = changed(load("jetson-agx-orin-64gb"), "dla", "int8", flop_per_s=98e12)
    (finding,) = [f for f in check_device(wrong) if f.check == "module"]
    assert "add up to 1.83e+14, the module says 1.375e+14" in finding.message


def test_an_inner_level_must_be_smaller_and_faster():
    mi300x = load("mi300x")
    assert ("levels", False) in found(replace(mi300x, memory=mi300x.memory[::-1]))


def test_parts_of_a_level_must_add_up_to_it():
    mi300x = load("mi300x")
    odd = tuple(
        replace(m, instance_bytes=3 * 2**20) if m.name == "L2" else m for m in mi300x.memory
    )
    assert ("levels", False) in found(replace(mi300x, memory=odd))


def test_a_demonstrated_rate_below_the_roof_says_nothing():
    hailo = load("hailo-10h")
    low = replace(hailo.demonstrated[0], flop_per_s=19e12)
    assert ("demonstrated", False) in found(replace(hailo, demonstrated=(low,)))
    unsourced = replace(hailo.demonstrated[0], source=Source(title="x"))
    assert ("source", False) in found(replace(hailo, demonstrated=(unsourced,)))


def test_a_number_without_a_vendor_or_press_source():
    ceiling = Ceiling(engine="vector", dtype="fp16", flop_per_s=1e13, source=Source(title="x"))
    t4 = load("t4")
    assert ("source", False) in found(replace(t4, ceilings=(*t4.ceilings, ceiling)))
    assert ("source", False) in found(replace(t4, tdp_source=None))


def test_a_known_exception_carries_its_reason():
    (finding,) = check_device(load("b200-hgx-180gb"))
    assert "+5.9%" in finding.message  # 148 x 8192 x 1.965e9 = 2382e12 against 2250e12
    assert "1.856 GHz" in finding.reason


def test_an_exception_excuses_only_its_own_device():
    renamed = replace(load("b200-hgx-180gb"), id="b201")
    assert ("formula", False) in found(renamed)
