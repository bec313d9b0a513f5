"""Power modes: the clocks, units and memory of the mode, by hand; and names."""

import pytest

from gambrel.device.catalog import list_devices, load
from gambrel.device.lookup import find
from gambrel.device.modes import MARK, in_mode, with_modes
from gambrel.errors import UnknownNameError


def test_by_hand():
    # Orin NX 16GB at 10 W: 4 of 8 SM at 612 of 918 MHz; accelerators at (153.6 + 115) / 2 of 614.4
    full, mode = load("jetson-orin-nx-16gb"), find("jetson-orin-nx-16gb@10W").device
    gpu, dla = 4 / 8 * 612 / 918, 134.3 / 614.4
    assert mode.ceiling("matrix", "fp16").flop_per_s == pytest.approx(15e12 * gpu)
    assert mode.ceiling("matrix", "int8").sparse_flop_per_s == pytest.approx(60e12 * gpu)
    assert mode.ceiling("dla", "int8").flop_per_s == pytest.approx(20e12 * dla)
    assert mode.ceiling("module", "int8").flop_per_s == pytest.approx(30e12 * gpu + 20e12 * dla)
    assert mode.level("DRAM").byte_per_s == 68e9
    assert full.level("DRAM").byte_per_s == 102e9
    assert (mode.tdp_w, full.tdp_w) == (10, 25)
    assert mode.fact("boost_clock").value == 612e6
    assert mode.fact("num_units").value == 4
    assert mode.level("DRAM").capacity_bytes == full.level("DRAM").capacity_bytes
    assert (mode.id, mode.id.partition(MARK)[0]) == (
        "jetson-orin-nx-16gb@10W",
        "jetson-orin-nx-16gb",
    )
    assert mode.notes[0].startswith("Mode 10W of jetson-orin-nx-16gb: 4 of 8 SM at 612 MHz")


def test_what_holds_at_full_clocks_alone_is_left_out():
    full, mode = load("jetson-agx-orin-64gb"), find("jetson-agx-orin-64gb@15w").device
    assert any(f.name.startswith("peak_") for f in load("jetson-agx-orin-32gb").facts)
    for one in with_modes(list_devices()):
        if one.modes or one.id.partition(MARK)[0] == one.id:
            continue
        assert not one.demonstrated
        assert not any(f.name.startswith("peak_") for f in one.facts)
        assert one.typical_power_w is one.idle_power_w is None
    assert mode.ceiling("dla", "int8").flop_per_s < full.ceiling("dla", "int8").flop_per_s


def test_a_mode_is_no_faster_than_the_device():
    modes = [d for d in with_modes(list_devices()) if d.id.partition(MARK)[0] != d.id]
    assert {"jetson-orin-nano-8gb@7W", "jetson-nano-4gb@5W"} <= {d.id for d in modes}
    for mode in modes:
        full = load(mode.id.partition(MARK)[0])
        for slow, fast in zip(mode.ceilings, full.ceilings, strict=True):
            assert slow.flop_per_s <= fast.flop_per_s, mode.id
        assert mode.tdp_w <= full.tdp_w
        assert mode.level("DRAM").byte_per_s <= full.level("DRAM").byte_per_s


@pytest.mark.parametrize("name", ["orin-nano-8gb@7W", "NVIDIA Jetson Orin Nano 8GB@7w"])
def test_names(name):
    assert find(name).device.id == "jetson-orin-nano-8gb@7W"


def test_a_mode_that_does_not_exist_is_refused():
    with pytest.raises(UnknownNameError, match=r"power mode of jetson-orin-nano-8gb.*7W"):
        find("jetson-orin-nano-8gb@9W")
    with pytest.raises(UnknownNameError, match="power mode of h100-sxm5-80gb"):
        in_mode(load("h100-sxm5-80gb"), "7W")


def test_a_clock_in_the_name_of_a_processor_is_no_mode():
    assert find("Intel(R) Xeon(R) Platinum 8480+ @ 2.00GHz").device.id == "xeon-8480+"
