"""Roofs from the attributes of a device: against chips that the catalog has, and for others."""

from __future__ import annotations

import pytest

from gambrel.analysis.samples import place
from gambrel.device.lookup import find
from gambrel.traces.devices import roofs_for
from gambrel.traces.ncu.reader import from_text

from .ncu_files import Kernel, dram, fp32, time_ns, write

#: Name, compute capability, SM, clock and memory clock in kHz as the driver reports them, bus.
CHIPS = {
    "a100-sxm4-80gb": ("NVIDIA A100-SXM4-80GB", (8, 0), 108, 1_410_000, 1_593_000, 5120),
    "a100-sxm4-40gb": ("NVIDIA A100-SXM4-40GB", (8, 0), 108, 1_410_000, 1_215_000, 5120),
    "t4": ("Tesla T4", (7, 5), 40, 1_590_000, 5_001_000, 256),
    "rtx-4090": ("NVIDIA GeForce RTX 4090", (8, 9), 128, 2_520_000, 10_501_000, 384),
    "rtx-3090": ("NVIDIA GeForce RTX 3090", (8, 6), 82, 1_695_000, 9_751_000, 384),
    "rtx-5090": ("NVIDIA GeForce RTX 5090", (12, 0), 170, 2_407_000, 14_001_000, 512),
    "l4": ("NVIDIA L4", (8, 9), 58, 2_040_000, 6_251_000, 192),
    "v100-sxm2-32gb": ("Tesla V100-SXM2-32GB", (7, 0), 80, 1_530_000, 877_000, 4096),
    # Tensor figures of H100 are published at 1830 MHz, those of the CUDA cores at 1980 MHz.
    "h100-sxm5-80gb": ("NVIDIA H100 80GB HBM3", (9, 0), 132, 1_830_000, 2_619_000, 5120),
}


def attributes(chip):
    name, (major, minor), units, clock, memory, bus = chip
    a = "device__attribute_"
    return {
        f"{a}compute_capability_major": (major, ""),
        f"{a}compute_capability_minor": (minor, ""),
        f"{a}multiprocessor_count": (units, ""),
        f"{a}clock_rate": (clock, ""),
        f"{a}memory_clock_rate": (memory, ""),
        f"{a}global_memory_bus_width": (bus, ""),
    }, {f"{a}display_name": name}


def export(chip, more=None, layout="wide"):
    metrics, texts = attributes(chip)
    work = fp32(0, 0, 10**9) | time_ns(10**6) | dram(10**8)
    cc = f"{chip[1][0]}.{chip[1][1]}"
    kernel = Kernel("k", work | metrics | (more or {}), cc=cc, texts=texts if chip[0] else {})
    return from_text(write([kernel], layout), "f.csv")


@pytest.mark.parametrize("layout", ["wide", "long", "details"])
@pytest.mark.parametrize("name", CHIPS)
def test_within_two_percent_of_the_datasheet(name, layout):
    published = find(name).device
    found = export(CHIPS[name], layout=layout).implied
    compared = 0
    for c in found.ceilings:
        known = published.ceiling(c.engine, c.dtype)
        # H100 prints its CUDA cores at 1980 MHz, eight percent above.
        scale = 1.98 / 1.83 if name.startswith("h100") and c.engine == "vector" else 1.0
        if name.startswith("h100") and (c.engine, c.dtype) == ("matrix", "fp64"):
            scale = 1.98 / 1.83
        if known is not None:
            assert c.flop_per_s * scale == pytest.approx(known.flop_per_s, rel=0.02), c
            compared += 1
    assert compared >= 3
    rate = published.level("DRAM").byte_per_s
    assert found.level("DRAM").byte_per_s == pytest.approx(rate, rel=0.02)
    assert all(c.source.confidence == "derived" for c in found.ceilings)


def test_a_chip_that_no_catalog_has():
    # GA102 with 80 SM: 80 x 256 x 1.31508 GHz = 26.93 TFLOP/s, and 2 x 6251 MHz x 384 / 8 =
    # 600.1 GB/s.
    chip = ("NVIDIA Test Board 7", (8, 6), 80, 1_710_000, 6_251_000, 384)
    samples = export(chip, {"sm__cycles_elapsed.avg.per_second": (1_315_080_000, "hz")})
    device, notes = roofs_for(samples)
    peak = device.ceiling("vector", "fp32")
    assert peak.flop_per_s == pytest.approx(26.932838e12, rel=1e-6)
    # 20480 x 1.71e9 = 35.0 TFLOP/s.
    assert peak.note.endswith("35.02 TFLOP/s at the boost clock of 1.71 GHz")
    assert device.level("DRAM").byte_per_s == pytest.approx(600.096e9)
    assert "not in the catalog; roofs derived from the attributes" in notes[0]
    # 2e9 FLOP in 1 ms = 2 TFLOP/s; 20 FLOP/byte x 600.1 GB/s = 12.0 TFLOP/s binds.
    (kernel,) = place(samples, device).kernels
    assert kernel.roofline_efficiency == pytest.approx(2 / 12.00192, rel=1e-6)


def test_without_a_clock_while_profiling_the_highest_is_used():
    device = export(("NVIDIA Test Board 7", (8, 6), 80, 1_710_000, 6_251_000, 384)).implied
    assert device.ceiling("vector", "fp32").flop_per_s == pytest.approx(80 * 256 * 1.71e9)


@pytest.mark.parametrize("name", ["NVIDIA GeForce GTX 1650", "NVIDIA GeForce GTX 1660 SUPER"])
def test_turing_without_tensor_cores(name):
    device = export((name, (7, 5), 14, 1_665_000, 4_001_000, 128)).implied
    assert {c.engine for c in device.ceilings} == {"vector"}


def test_an_unknown_board_says_that_geforce_has_half():
    device = export(("", (8, 6), 80, 1_710_000, 6_251_000, 384)).implied
    assert "half of it on GeForce" in device.ceiling("matrix", "fp16").note


def test_peaks_of_the_report_come_before_attributes():
    chip = ("NVIDIA Test Board 7", (8, 6), 80, 1_710_000, 6_251_000, 384)
    more = {
        "sm__cycles_elapsed.avg.per_second": (1e9, "hz"),
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": (10_000, "inst/cycle"),
    }
    device, _ = roofs_for(export(chip, more))
    # 10,000 x 2 x 1 GHz by the report; fp64 by the attributes: 80 x 4 x 1 GHz.
    assert device.ceiling("vector", "fp32").flop_per_s == 2e13
    assert device.ceiling("vector", "fp64").flop_per_s == 3.2e11


def test_the_catalog_comes_before_attributes():
    device, notes = roofs_for(export(CHIPS["t4"]))
    assert device.id == "t4"
    assert "by the device's name" in notes[0]


def test_a_name_alone_says_what_is_missing():
    kernel = Kernel("k", time_ns(10), texts={"device__attribute_display_name": "NVIDIA Board 7"})
    device, notes = roofs_for(from_text(write([kernel], "wide"), "f.csv"))
    assert device is None
    assert "give --peak and --bandwidth" in notes[0]
    assert "multiprocessor_count" in notes[0]


def test_memory_shared_with_the_cpu_has_no_roof_of_its_clock():
    device = export(("NVIDIA GB10", (12, 1), 48, 2_418_000, 0, 0)).implied
    assert device.level("DRAM") is None
    # 48 x 256 x 2.418 GHz = 29.7 TFLOP/s.
    assert device.ceiling("vector", "fp32").flop_per_s == pytest.approx(29.712e12, rel=1e-4)


def test_a10g_accumulates_in_fp32_at_half_rate():
    # 80 SM x 512 x 1.71 GHz = 70 TFLOP/s; A10, the other board of this chip, has 1024 a clock.
    board = (80, 1_710_000, 6_251_000, 384)
    peaks = [
        export((name, (8, 6), *board)).implied.ceiling("matrix", "fp16").flop_per_s
        for name in ("NVIDIA A10G", "NVIDIA A10")
    ]
    assert peaks == pytest.approx([70.04e12, 140.08e12], rel=1e-3)
