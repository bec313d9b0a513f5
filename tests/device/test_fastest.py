"""The fastest rate that any runtime may use: figures by hand, and laws over the catalog."""

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace

import gambrel
from gambrel.device.catalog import list_devices, load
from gambrel.device.fastest import fastest, fastest_memory
from gambrel.device.lookup import from_peaks
from gambrel.device.model import Ceiling, CeilingKind, Device, MemoryLevel, Source
from gambrel.device.roofs import resolve
from gambrel.dtypes import BITS
from gambrel.errors import InputError, UnknownNameError

ROWS = Path(__file__).parents[2] / "benchmarks/data/accelerators/rows.csv"
#: (device, format, FLOP/s): what the vendor prints, or sums of it.
MATRIX = [
    ("h100-sxm5-80gb", "fp32", 494.7e12),  # TF32
    ("h100-sxm5-80gb", "int8", 1978.9e12),
    ("h100-sxm5-80gb", "int4", 1978.9e12),  # Hopper has no int4: it runs as int8
    ("a100-sxm4-80gb", "fp32", 156e12),
    ("a100-sxm4-80gb", "fp8", 312e12),  # Ampere has no fp8: it is widened to 16 bits
    ("t4", "fp32", 8.1e12),  # Turing has no TF32
    ("rtx-4090", "fp16", 1.3 * 330.3e12),  # fp16 accumulation, above the rated clock
    ("rtx-4090", "bf16", 1.3 * 165.2e12),
    ("rtx-6000-ada", "int8", 1.3 * 728.5e12),  # unpublished: not faster than the 8-bit floats
    ("b300-hgx-270gb", "int8", 2250e12),  # its int8 engine is slower than 16-bit floats
    ("v100-pcie-32gb", "bf16", 112e12),
    ("jetson-agx-orin-64gb", "int8", 137.5e12),  # the module: GPU 85 + DLA 52.5
    ("jetson-agx-orin-64gb", "fp16", (42.5 + 52.5) * 1e12),  # the DLA is at most as fast as in int8
    ("jetson-agx-orin-64gb", "bf16", 42.5e12),  # which the DLA does not take
    ("jetson-orin-nano-8gb", "fp16", 10e12),  # no DLA
    ("tpu-v5e", "fp32", 197e12),  # in bf16 passes
    ("tpu-v3", "bf16", 140e12),  # second reading
    ("epyc-9654", "fp32", 96 * 32 * 3.7e9),  # cores x FLOP per cycle x boost clock
    ("hailo-10h", "int8", 20.01e12),  # a published run exceeds the datasheet's 20
    ("groq-lpu", "fp32", 188e12),
]


@pytest.mark.parametrize(("device", "dtype", "rate"), MATRIX)
def test_matrix_work_is_at_most(device, dtype, rate):
    roof = fastest(load(device), "matrix", dtype)
    assert roof.flop_per_s == pytest.approx(rate, rel=1e-3)
    assert roof.flop_per_s == pytest.approx(sum(part.flop_per_s for part in roof.parts))
    assert roof.proves


@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ("m1", "fp16"),  # the neural engine's rate is not published
        ("epyc-9654", "int8"),  # it has VNNI, which fp32 does not bound
        ("jetson-agx-orin-64gb", "int4"),  # faster than int8 on the GPU, by how much is not printed
        ("snapdragon-8-elite", "fp32"),
    ],
)
def test_a_format_that_only_slower_ones_could_stand_in_for_is_unknown(device, dtype):
    assert fastest(load(device), "matrix", dtype) is None


def test_vector_work_needs_a_roof_in_its_own_format():
    h100 = load("h100-sxm5-80gb")
    assert fastest(h100, "vector", "fp16").flop_per_s == 133.8e12
    assert fastest(h100, "vector", "fp32").flop_per_s == 66.9e12
    assert fastest(h100, "vector", "bf16") is None  # resolve() holds it against fp32
    assert fastest(h100, "special", "fp32") is None


def test_sparse_peaks_count_when_asked_for():
    orin = load("jetson-agx-orin-64gb")
    assert fastest(orin, "matrix", "int8", sparsity=True).flop_per_s == 275e12
    assert fastest(load("t4"), "matrix", "fp16", sparsity=True).flop_per_s == 65e12


def test_mixed_operands_take_the_faster_one():
    a100 = load("a100-sxm4-80gb")
    assert fastest(a100, "matrix", ("int4", "fp16")).flop_per_s == 1248e12
    assert fastest(load("m1"), "matrix", ("fp16", "fp32")) is None


def test_what_was_only_reached_proves_nothing():
    roof = fastest(load("snapdragon-8-gen-3"), "matrix", "int8")
    assert (roof.flop_per_s, roof.proves) == (47.5e12, False)
    assert roof.parts[0].kind is CeilingKind.DEMONSTRATED
    assert roof.note == "The rate is the best seen so far, not a limit."
    elite = fastest(load("snapdragon-x-elite"), "matrix", "fp16")
    assert (elite.flop_per_s, elite.proves) == (45e12, True)  # its int8 roof bounds it


def test_a_peak_at_a_base_clock_proves_nothing_without_the_boost_clock():
    assert not fastest(load("xeon-8580"), "matrix", "bf16").proves
    assert fastest(load("xeon-8480+"), "matrix", "bf16").proves


SELF = Source(title="here", confidence="measured")


def measured(rate):
    return Device(
        id="mine",
        name="mine",
        ceilings=(
            Ceiling(
                engine="matrix",
                dtype="bf16",
                flop_per_s=rate,
                kind=CeilingKind.MEASURED,
                source=SELF,
            ),
        ),
        memory=(MemoryLevel(name="DRAM", byte_per_s=2e12, kind=CeilingKind.MEASURED),),
    )


def test_measured_peaks_count_beside_published_ones_only():
    a100 = load("a100-sxm4-80gb")
    assert fastest(measured(250e12), "matrix", "bf16") is None
    assert fastest_memory(measured(250e12)) is None
    assert fastest(measured(250e12), "matrix", "bf16", published=a100).flop_per_s == 312e12
    above = fastest(measured(320e12), "matrix", "bf16", published=a100)
    assert (above.flop_per_s, above.proves) == (320e12, True)
    assert fastest_memory(measured(1e12), published=a100).byte_per_s == 2.039e12


def test_a_user_s_own_figures_are_his_to_state():
    custom = from_peaks(989e12, 3.35e12)
    roof = fastest(custom, "matrix", "int8")
    assert (roof.flop_per_s, roof.proves) == (989e12, True)
    assert fastest(custom, "vector", "fp16").flop_per_s == 989e12
    assert fastest_memory(custom).byte_per_s == 3.35e12


@pytest.mark.parametrize(
    ("device", "rate"),
    [("tpu-v4", 1.23e12), ("xeon-6980p", 844.8e9), ("groq-lpu", 80e12), ("h100", 3.35e12)],
)
def test_memory_is_at_most(device, rate):
    name = {"h100": "h100-sxm5-80gb"}.get(device, device)
    assert fastest_memory(load(name)).byte_per_s == pytest.approx(rate)


def test_a_device_fed_over_a_link_has_no_main_memory():
    assert fastest_memory(load("coral-edge-tpu")) is None
    assert fastest_memory(load("hailo-8")) is None
    assert fastest_memory(load("hailo-10h")) is None


@pytest.mark.parametrize("sparsity", [False, True])
def test_no_roof_of_the_catalog_is_above_it(sparsity):
    for device in list_devices():
        for work in ("matrix", "vector"):
            for dtype in BITS:
                most = fastest(device, work, dtype, sparsity=sparsity)
                roof = resolve(device, work, dtype, sparsity=sparsity)
                if most is not None and roof is not None:
                    assert most.flop_per_s >= roof.flop_per_s, (device.id, work, dtype)


def test_more_published_figures_never_make_it_slower():
    for device in list_devices():
        fewer = replace(device, ceilings=tuple(c for c in device.ceilings if not c.accumulate))
        for dtype in ("fp32", "fp16", "bf16", "fp8", "int8"):
            most, less = fastest(device, "matrix", dtype), fastest(fewer, "matrix", dtype)
            if most is not None and less is not None:
                assert most.flop_per_s >= less.flop_per_s, (device.id, dtype)


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="unknown class of work 'tensor'"):
        fastest(load("t4"), "tensor", "fp16")
    with pytest.raises(UnknownNameError, match="fp17"):
        fastest(load("t4"), "matrix", "fp17")


@pytest.mark.parametrize("asked", [None, "fp32"])
def test_no_run_under_ncnn_is_faster_than_the_speed_of_light_of_a_raspberry_pi_5(asked):
    """Published runs are called fp32, but ncnn computes in 16 bits unless told otherwise."""
    with ROWS.open(encoding="utf-8") as stream:
        rows = [r for r in csv.DictReader(stream) if r["device"] == "raspberry-pi-5"]
    assert len(rows) == 15
    for r in rows:
        found = gambrel.analyze(r["model"], r["device"], runtime="ncnn", precision=asked)
        assert found.sol_time_s < float(r["seconds"])


def test_fp32_counts_as_fp16_on_arm_processors_alone():
    assert fastest(load("raspberry-pi-5"), "matrix", "fp32").flop_per_s == pytest.approx(3.072e11)
    assert fastest(load("raspberry-pi-5"), "vector", "fp32").flop_per_s == pytest.approx(3.072e11)
    assert fastest(load("raspberry-pi-4"), "matrix", "fp32").flop_per_s == pytest.approx(5.76e10)
    own = load("xeon-8480+").ceiling("vector", "fp32").flop_per_s
    assert fastest(load("xeon-8480+"), "vector", "fp32").flop_per_s == pytest.approx(own)
