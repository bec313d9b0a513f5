"""The catalog: figures typed by hand from the datasheets' text, and laws over all entries."""

import re
import tomllib

import pytest
from scripts.catalog_checks import FORMULA_EXCEPTIONS, RIDGE_EXCEPTIONS, check_device, numbers

from gambrel.device import catalog
from gambrel.device.catalog import list_devices, load
from gambrel.device.files import load_file
from gambrel.device.model import CeilingKind
from gambrel.errors import FileFormatError, InputError

#: (device, engine, dtype, dense FLOP/s, sparse FLOP/s or None)
PEAKS = [
    ("h100-sxm5-80gb", "matrix", "fp16", 989.4e12, 1978.9e12),
    ("h100-sxm5-80gb", "matrix", "bf16", 989.4e12, 1978.9e12),
    ("h100-sxm5-80gb", "matrix", "fp8", 1978.9e12, 3957.8e12),
    ("h100-sxm5-80gb", "matrix", "tf32", 494.7e12, 989.4e12),
    ("h100-sxm5-80gb", "vector", "fp32", 66.9e12, None),
    ("h100-pcie-80gb", "matrix", "fp16", 756e12, 1513e12),
    ("h100-nvl-94gb", "matrix", "bf16", 835.5e12, 1671e12),
    ("h200-sxm-141gb", "matrix", "fp8", 1979e12, 3958e12),
    ("a100-sxm4-80gb", "matrix", "fp16", 312e12, 624e12),
    ("a100-sxm4-80gb", "matrix", "tf32", 156e12, 312e12),
    ("a100-sxm4-80gb", "matrix", "int8", 624e12, 1248e12),
    ("a100-sxm4-80gb", "matrix", "fp64", 19.5e12, None),
    ("a100-sxm4-80gb", "vector", "fp32", 19.5e12, None),
    ("a100-sxm4-80gb", "vector", "fp16", 78e12, None),
    ("a100-pcie-40gb", "matrix", "bf16", 312e12, 624e12),
    ("v100-sxm2-32gb", "matrix", "fp16", 125e12, None),
    ("v100-sxm2-32gb", "vector", "int8", 62e12, None),
    ("t4", "matrix", "int8", 130e12, None),
    ("l4", "matrix", "fp16", 121e12, 242e12),
    ("l40s", "matrix", "fp16", 362.05e12, 733e12),
    ("rtx-3090", "matrix", "fp16", 71e12, 142e12),
    ("rtx-4090", "matrix", "fp8", 330.3e12, 660.6e12),
    ("rtx-5090", "matrix", "fp4", 1676e12, 3352e12),
    ("b200-hgx-180gb", "matrix", "fp4", 9e15, 18e15),
    ("b300-hgx-270gb", "matrix", "int8", 153.5e12, 307e12),
    ("b300-hgx-270gb", "matrix", "fp4", 14e15, 18e15),
    ("jetson-agx-orin-64gb", "module", "int8", 137.5e12, 275e12),
    ("jetson-agx-orin-64gb", "matrix", "int8", 85e12, 170e12),
    ("jetson-agx-orin-64gb", "dla", "int8", 52.5e12, 105e12),
    ("jetson-orin-nano-8gb", "matrix", "int8", 20e12, 40e12),
    ("jetson-agx-thor-t5000", "matrix", "fp4", 1035e12, 2070e12),
    ("mi100", "matrix", "bf16", 92.3e12, None),
    ("mi250x", "matrix", "fp16", 383e12, None),
    ("mi300x", "matrix", "fp16", 1307.4e12, 2614.9e12),
    ("mi300x", "vector", "fp32", 163.4e12, None),
    ("gaudi-3", "matrix", "bf16", 1835e12, None),
    ("xeon-8480+", "matrix", "bf16", 172.032e12, None),  # 56 cores x 1024 x 3.0 GHz
    ("epyc-9654", "vector", "fp32", 1.13664e13, None),  # 96 cores x 32 x 3.7 GHz
    ("tpu-v4", "matrix", "bf16", 275e12, None),
    ("tpu-v5e", "matrix", "bf16", 197e12, None),
    ("tpu-v5e", "matrix", "int8", 393e12, None),
    ("coral-edge-tpu", "matrix", "int8", 4e12, None),
    ("hailo-8", "matrix", "int8", 26e12, None),
    ("groq-lpu", "matrix", "int8", 750e12, None),
    ("cerebras-wse-3", "matrix", "fp16", 16e15, 125e15),
    ("m2-max", "vector", "fp32", 13.49e12, None),
    ("snapdragon-x-elite", "npu", "int8", 45e12, None),
]

#: (device, level, capacity in byte or None, byte/s or None)
LEVELS = [
    ("h100-sxm5-80gb", "DRAM", 80 * 2**30, 3.35e12),
    ("h100-sxm5-80gb", "L2", 50 * 2**20, None),
    ("h200-sxm-141gb", "DRAM", 141 * 2**30, 4.8e12),
    ("a100-sxm4-80gb", "DRAM", 80 * 2**30, 2.039e12),
    ("a100-sxm4-40gb", "DRAM", 40 * 2**30, 1.555e12),
    ("a100-sxm4-80gb", "L2", 40 * 2**20, 7.2192e12),  # 5120 B x 1.41 GHz
    ("v100-sxm2-32gb", "DRAM", 32 * 2**30, 900e9),
    ("t4", "DRAM", 16 * 2**30, 320e9),
    ("jetson-agx-orin-64gb", "DRAM", 64 * 2**30, 204.8e9),
    ("jetson-orin-nano-8gb", "DRAM", 8 * 2**30, 68e9),
    ("mi300x", "DRAM", 192 * 2**30, 5.325e12),
    ("mi300x", "LLC", 256 * 2**20, 17.2e12),
    ("mi300x", "L2", 32 * 2**20, 34.4e12),
    ("tpu-v5e", "DRAM", 16 * 2**30, 819e9),
    ("raspberry-pi-5", "DRAM", None, 17.068e9),
    ("coral-edge-tpu", "SRAM", 8 * 2**20, None),
    ("groq-lpu", "SRAM", 230_000_000, 80e12),
]


@pytest.mark.parametrize(("device", "engine", "dtype", "dense", "sparse"), PEAKS)
def test_peak_is_the_published_one(device, engine, dtype, dense, sparse):
    ceiling = load(device).ceiling(engine, dtype)
    assert ceiling.flop_per_s == pytest.approx(dense, rel=5e-4)
    if sparse is None:
        assert ceiling.sparse_flop_per_s is None
    else:
        assert ceiling.sparse_flop_per_s == pytest.approx(sparse, rel=1e-3)


@pytest.mark.parametrize(("device", "name", "capacity", "rate"), LEVELS)
def test_memory_level_is_the_published_one(device, name, capacity, rate):
    level = load(device).level(name)
    assert level.capacity_bytes == capacity
    assert level.byte_per_s == (None if rate is None else pytest.approx(rate, rel=1e-4))


def test_accumulating_in_fp16_is_a_ceiling_of_its_own():
    card = load("rtx-4090")
    assert card.ceiling("matrix", "fp16").flop_per_s == 165.2e12
    assert card.ceiling("matrix", "fp16", "fp16").flop_per_s == 330.3e12


def test_links_say_their_direction():
    links = {link.name: link for link in load("h100-sxm5-80gb").links}
    assert links["nvlink"].direction == "bidirectional total"
    assert links["nvlink"].byte_per_s_per_direction == 450e9
    assert links["pcie"].byte_per_s_per_direction == 63e9
    assert load("trainium").links[0].byte_per_s_per_direction is None


def test_both_clocks_of_a_two_clock_device_are_kept():
    h100 = load("h100-sxm5-80gb")
    assert h100.fact("boost_clock").value == 1.83e9
    assert h100.fact("boost_clock_vector").value == 1.98e9
    assert h100.fact("num_units").value == 132


def test_second_readings_are_facts_and_not_ceilings():
    v3 = load("tpu-v3")
    assert v3.ceiling("matrix", "bf16").flop_per_s == 123e12
    assert v3.fact("peak_matrix_bf16_alt").value == 140e12
    assert v3.fact("dram_bandwidth_alt").value == 825e9


def test_what_is_not_published_is_listed_as_unknown():
    assert "dram_bandwidth" in load("hailo-10h").unknown
    assert load("hailo-10h").level("DRAM").byte_per_s is None
    assert "tdp" in load("tpu-v5e").unknown
    assert load("tpu-v5e").tdp_w is None


def test_what_does_not_exist_is_not_unknown():
    assert "peak_matrix_fp8" not in load("a100-sxm4-80gb").unknown  # Ampere has no such engine
    assert not {"memory_capacity", "dram_bandwidth"} & set(load("coral-edge-tpu").unknown)


@pytest.mark.parametrize(
    "device",
    ["coral-edge-tpu", "hailo-8", "hailo-8l", "groq-lpu", "cerebras-wse-3", "ipu-gc200", "ipu-bow"],
)
def test_a_device_without_dram_has_no_such_level_and_says_so(device):
    assert load(device).level("DRAM") is None
    assert any("no DRAM" in note for note in load(device).notes)


def test_the_catalog_is_complete():
    devices = list_devices()
    assert len(devices) == len(list(catalog.CATALOG.glob("[!_]*.toml")))
    assert {d.vendor for d in devices} >= {"NVIDIA", "AMD", "Intel", "Google", "AWS", "Apple"}
    # Without a compute roof: NPUs and GPUs whose makers publish none that was found.
    without = {d.id for d in devices if not d.ceilings}
    npus = ("ax", "google-tensor", "iq-", "q", "sa7", "sa8", "snapdragon-8")
    others = ("ndp120", "rh850", "m5")  # a neural core and an automotive one, beside Arm's; Apple
    assert all(i.startswith((*npus, *others)) for i in without)


def test_figures_of_a_device_fit_each_other():
    violations = [f for d in list_devices() for f in check_device(d) if not f.reason]
    assert violations == []


def test_every_exception_is_still_needed():
    found = [f for d in list_devices() for f in check_device(d) if f.reason]
    assert len(found) == len(FORMULA_EXCEPTIONS) + len(RIDGE_EXCEPTIONS)


def test_every_number_has_a_source_with_confidence_and_date():
    for device in list_devices():
        for what, source in numbers(device):
            assert source is not None, (device.id, what)
            assert source.confidence in {"primary", "primary-quoted", "secondary", "derived"}
            assert re.fullmatch(r"\d{4}(-\d\d){0,2}", source.date), (device.id, what, source)
            assert source.url == "" or source.url.startswith(("http://", "https://"))


def test_derived_ceilings_are_marked():
    assert load("epyc-9654").ceiling("vector", "fp32").kind is CeilingKind.DERIVED
    assert load("jetson-agx-orin-64gb").ceiling("matrix", "bf16").kind is CeilingKind.DERIVED
    assert load("h100-sxm5-80gb").ceiling("matrix", "fp16").kind is CeilingKind.DATASHEET


def test_files_are_named_after_their_device():
    for path in catalog.CATALOG.glob("[!_]*.toml"):
        assert load_file(path).id == path.stem


def test_the_index_is_in_sync_with_the_files():
    shared = tomllib.loads(catalog.AMBIGUOUS_FILE.read_text(encoding="utf-8"))
    files = catalog.read_files()
    assert catalog.build_index(files, shared) == catalog.index()


def test_the_generated_devices_say_what_the_files_say():
    assert catalog.read_files() == catalog.list_devices()


def test_a_doubled_id_is_refused():
    t4 = load("t4")
    with pytest.raises(InputError, match="two devices have the id 't4'"):
        catalog.build_index([t4, t4], {})


def test_a_name_of_two_devices_must_be_declared_ambiguous():
    from msgspec.structs import replace

    pair = [replace(load("t4"), aliases=("gpu-x",)), replace(load("l4"), aliases=("GPU X",))]
    with pytest.raises(InputError, match="l4: the name 'GPU X' also stands for t4"):
        catalog.build_index(pair, {})


def test_an_ambiguous_name_cannot_stand_for_an_unknown_device():
    with pytest.raises(InputError, match="unknown ids: nowhere"):
        catalog.build_index([load("t4")], {"t": ["t4", "nowhere"]})


def test_a_lost_index_says_how_to_get_it_back(monkeypatch, tmp_path):
    monkeypatch.setattr(catalog, "INDEX_FILE", tmp_path / "index.json")
    catalog.index.cache_clear()
    try:
        with pytest.raises(FileFormatError, match=r"build_catalog\.py --index"):
            catalog.index()
    finally:
        catalog.index.cache_clear()


def test_a_module_has_the_peaks_of_its_own_clock():
    # Data sheet DA-09366-001: 384 cores and 48 tensor cores at 1,100 MHz at most; GPU databases
    # list the chip at 1,377 MHz.
    xavier = load("jetson-xavier-nx-8gb")
    assert xavier.ceiling("vector", "fp32").flop_per_s == pytest.approx(384 * 2 * 1.1e9)
    assert xavier.ceiling("matrix", "fp16").flop_per_s == pytest.approx(48 * 64 * 2 * 1.1e9)
    assert load("jetson-tx2-8gb").ceiling("vector", "fp16").flop_per_s == 1.33e12


def test_last_level_cache_of_a_sapphire_rapids():
    assert load("xeon-8480+").level("LLC").capacity_bytes == 56 * 1.875 * 2**20


@pytest.mark.parametrize(
    ("device", "links", "each_way"), [("tpu-v3", 4, 100e9), ("tpu-v4", 6, 45e9)]
)
def test_interconnects_count_all_links_of_a_chip(device, links, each_way):
    (ici,) = load(device).links
    assert ici.byte_per_s_per_direction == links * each_way
