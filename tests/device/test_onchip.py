"""What may stay on a chip between runs."""

import pytest
from msgspec.structs import replace

from gambrel.device.catalog import build_index, index, list_devices, load
from gambrel.device.levels import (
    byte_per_s,
    capacity_bytes,
    instances,
    largest_on_chip,
    publishes_on_chip,
)
from gambrel.device.lookup import from_peaks
from gambrel.device.onchip import on_chip

MIB, KIB = 2**20, 2**10

#: (device, byte, levels)
KNOWN = [
    ("coral-edge-tpu", 8 * MIB, ("SRAM",)),
    ("tpu-v5e", 128 * MIB, ("SRAM",)),
    # 132 multiprocessors with 228 KiB of shared memory and 64 Ki registers of 4 byte.
    ("h100-sxm5-80gb", 50 * MIB + 132 * (228 + 256) * KIB, ("L2", "L1", "registers")),
    # 148 of them; their tensor cores have 128 lanes x 512 columns x 4 byte each.
    (
        "b200-hgx-180gb",
        126 * MIB + 148 * (228 + 256 + 256) * KIB,
        ("L2", "L1", "registers", "TMEM"),
    ),
    ("mi300x", 256 * MIB + 32 * MIB + 304 * (64 + 512) * KIB, ("LLC", "L2", "L1", "registers")),
    ("epyc-9654", 384 * MIB + 96 * (1024 + 32) * KIB, ("LLC", "L2", "L1")),
    ("rx-7900-xtx", (96 + 6) * MIB + 48 * (128 + 768) * KIB, ("LLC", "L2", "L1", "registers")),
]


@pytest.mark.parametrize(("device", "size", "levels"), KNOWN)
def test_published_levels_add_up(device, size, levels):
    found = on_chip(load(device))
    assert (found.capacity_bytes, found.levels, found.assumed, found.note) == (
        size, levels, False, "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("device", "like"),
    [
        ("hailo-8", "metis-m2"),  # publishes nothing: the largest of the edge devices
        ("snapdragon-8-gen-3", "metis-m2"),  # VTCM only, not the system cache
        ("jetson-agx-orin-32gb", "metis-m2"),  # multiprocessors, but no L2
        ("h100-nvl-94gb", "mi300x"),  # L2, but not the number of multiprocessors
        ("rx-7800-xt", "rtx-5090"),
        ("m1", "ipu-bow"),  # no Apple chip publishes all of it: the largest of all but a wafer
    ],
)
def test_what_is_not_published_is_assumed_to_be_large(device, like):
    device, like = load(device), load(like)
    found = on_chip(device)
    assert found.assumed
    assert found.levels == ()
    assert found.capacity_bytes == sum(capacity_bytes(like, m) for m in like.memory
                                       if m.name != "DRAM")  # fmt: skip
    assert f"as much as {like.id}" in found.note


def test_two_numbers_get_the_largest_of_all_but_a_wafer():
    found = on_chip(from_peaks(989e12, 3.35e12))
    assert found.capacity_bytes == index().on_chip[""][1] == 900_000_000
    assert found.note == (
        "custom does not publish all of its on-chip memory: 858.3 MiB is assumed, as much as "
        "ipu-bow, so that no limit is too strict."
    )


@pytest.mark.parametrize("device", ["groq-lpu", "cerebras-wse-3", "ipu-gc200"])
def test_nothing_lies_inside_a_main_memory_that_is_on_the_chip(device):
    found = on_chip(load(device))
    assert found.capacity_bytes == 0
    assert "the main memory is on the chip" in found.note


def test_no_device_has_more_than_what_is_assumed_for_its_class():
    for device in list_devices():
        if not publishes_on_chip(device) and on_chip(device).capacity_bytes:
            known = [capacity_bytes(device, m) or 0 for m in device.memory if m.name != "DRAM"]
            assert on_chip(device).capacity_bytes >= sum(known), device.id


def test_the_index_holds_the_largest_of_each_class():
    devices = list_devices()
    assert build_index(devices, {"x": ["t4", "l4"]}).on_chip == index().on_chip
    assert largest_on_chip([load("t4"), load("l4"), load("cerebras-wse-3")]) == {
        "": ("l4", 48 * MIB + 58 * (100 + 256) * KIB),
        "datacenter": ("l4", 48 * MIB + 58 * (100 + 256) * KIB),
    }


def test_a_level_of_several_memories():
    mi250x = load("mi250x")
    assert instances(mi250x, mi250x.level("L2")) == 2  # one per die
    a100 = load("a100-sxm4-80gb")
    registers, shared = a100.level("registers"), a100.level("L1")
    assert instances(a100, registers) == 4 * 108
    assert byte_per_s(a100, shared) == pytest.approx(108 * 128 * 1.41e9)
    assert byte_per_s(a100, registers) is None
    uncounted = replace(a100, facts=())
    assert instances(uncounted, shared) is None
    assert capacity_bytes(uncounted, shared) is None
