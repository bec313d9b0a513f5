"""Which levels of which device are known."""

from itertools import pairwise

import pytest

from gambrel.analysis.levels import hierarchy_of
from gambrel.analysis.levels.near import NEAR, PARTS, near_of, part_bytes
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


def test_near_memories_need_the_number_of_units():
    memory = (
        MemoryLevel(name="DRAM", byte_per_s=10.0),
        MemoryLevel(name="L2", capacity_bytes=2**20),
    )
    bare = device(architecture="Ampere (GA100, sm_80)", memory=memory)
    assert [x.name for x in hierarchy_of(bare)] == ["DRAM", "L2"]
    units = Fact(name="num_units", value=2, unit="SM", source=NOWHERE)
    counted = device(architecture="Ampere (GA100, sm_80)", memory=memory, facts=(units,))
    assert [x.name for x in hierarchy_of(counted)] == ["DRAM", "L2", "L1", "registers"]
    assert hierarchy_of(counted)[2].byte_per_s is None  # no clock


def test_architectures_are_whole_words():
    assert near_of("Blackwell (GB100 dual die, sm_100)")[0].capacity_bytes == 228 * 1024
    assert near_of("Something (sm_1000)") == ()
    assert part_bytes("CDNA2 (gfx90a)", "L2") is None
    assert part_bytes("CDNA2 (gfx90a, 2 GCD)", "L2") == 8 * 2**20


def test_the_whole_catalog_has_levels_that_grow_outwards():
    for found in list_devices():
        inwards = [x for x in hierarchy_of(found)[1:] if x.name != "registers"]
        for outer, inner in pairwise(inwards):
            assert inner.capacity_bytes < outer.capacity_bytes, found.id


def test_every_near_memory_has_a_source():
    for memories in NEAR.values():
        for near in memories:
            assert near.source.title
            assert near.source.url.startswith("https://")
    assert all(size % 1024 == 0 for size in PARTS.values())
