"""Which levels of which device are known."""

from itertools import pairwise

import pytest

from gambrel.analysis.levels.hierarchy import hierarchy_of
from gambrel.device.catalog import list_devices
from gambrel.device.lookup import find
from gambrel.device.model import Fact, MemoryLevel
from tests.analysis.small import NOWHERE, device


def levels(name):
    return hierarchy_of(find(name).device)


def test_an_nvidia_gpu():
    dram, l2, l1, registers = levels("a100-sxm4-80gb")
    assert [x.name for x in (dram, l2, l1, registers)] == ["DRAM", "L2", "L1", "registers"]
    assert (dram.capacity_bytes, dram.byte_per_s) == (None, 2.039e12)
    assert (l2.total_bytes, l2.instances, l2.keeps) == (40 * 2**20, 1, True)
    # 108 multiprocessors: 164 KiB of shared memory each, 128 bytes a clock at 1.41 GHz.
    assert (l1.capacity_bytes, l1.instances, l1.keeps) == (164 * 1024, 108, False)
    assert l1.byte_per_s == pytest.approx(108 * 128 * 1.41e9)
    # 64 Ki registers of 4 bytes in four partitions.
    assert registers.total_bytes == 108 * 256 * 1024


def test_an_amd_gpu_of_several_dies():
    dram, llc, l2, l1, _ = levels("mi300x")
    assert (dram.name, llc.name, l2.name, l1.name) == ("DRAM", "LLC", "L2", "L1")
    assert llc.keeps
    # Eight dies with 4 MiB each: none sees what the others wrote.
    assert (l2.instances, l2.capacity_bytes, l2.keeps) == (8, 4 * 2**20, False)


def test_a_processor():
    _, llc, l2, l1 = levels("epyc-9654")
    # Twelve core dies with 32 MiB each, which see each other's data; 96 cores.
    assert (llc.instances, llc.capacity_bytes, llc.keeps) == (12, 32 * 2**20, True)
    assert (l2.instances, l2.capacity_bytes, l2.keeps) == (96, 2**20, False)
    assert l1.capacity_bytes == 32 * 1024


def test_without_a_cache_size_only_the_main_memory_is_known():
    assert [x.name for x in levels("gh200-96gb")] == ["DRAM"]  # the architecture alone is no help
    unsized = device(
        memory=(MemoryLevel(name="DRAM", byte_per_s=10.0), MemoryLevel(name="L2", byte_per_s=50.0))
    )
    assert [x.name for x in hierarchy_of(unsized)] == ["DRAM"]
    assert hierarchy_of(device(memory=())) == ()


def test_a_gap_ends_the_hierarchy():
    sized = MemoryLevel(name="L1", capacity_bytes=100)
    gap = device(
        memory=(
            MemoryLevel(name="DRAM", byte_per_s=10.0),
            MemoryLevel(name="LLC", capacity_bytes=1000),
            MemoryLevel(name="L2"),
            sized,
        )
    )
    assert [x.name for x in hierarchy_of(gap)] == ["DRAM", "LLC"]


def test_what_each_unit_has_for_itself_needs_the_number_of_units():
    memory = (
        MemoryLevel(name="DRAM", byte_per_s=10.0),
        MemoryLevel(name="L2", capacity_bytes=2**20),
        MemoryLevel(name="L1", instance_bytes=1000, per_unit=1, byte_per_clock=128),
        MemoryLevel(name="registers", instance_bytes=300, per_unit=4),
    )
    assert [x.name for x in hierarchy_of(device(memory=memory))] == ["DRAM", "L2"]
    units = Fact(name="num_units", value=2, unit="SM", source=NOWHERE)
    counted = device(memory=memory, facts=(units,))
    _, _, l1, registers = hierarchy_of(counted)
    assert (l1.instances, l1.capacity_bytes, l1.keeps, l1.byte_per_s) == (2, 1000, False, None)
    assert (registers.instances, registers.total_bytes) == (8, 2400)
    clock = Fact(name="boost_clock", value=1e9, unit="Hz", source=NOWHERE)
    assert hierarchy_of(device(memory=memory, facts=(units, clock)))[2].byte_per_s == 2 * 128e9


def test_what_each_unit_has_cannot_be_placed_inside_an_unknown_cache():
    units = Fact(name="num_units", value=2, unit="SM", source=NOWHERE)
    shared = MemoryLevel(name="L1", instance_bytes=1000, per_unit=1)
    cacheless = (MemoryLevel(name="DRAM", byte_per_s=10.0), shared)
    assert [x.name for x in hierarchy_of(device(memory=cacheless, facts=(units,)))] == ["DRAM"]


def test_the_whole_catalog_has_levels_that_grow_outwards():
    for found in list_devices():
        inwards = [x for x in hierarchy_of(found)[1:] if x.name != "registers"]
        for outer, inner in pairwise(inwards):
            assert inner.capacity_bytes < outer.capacity_bytes, found.id
