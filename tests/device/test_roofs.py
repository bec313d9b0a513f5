"""Which roof serves which work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.device import catalog
from gambrel.device.catalog import load
from gambrel.device.fallbacks import MATRIX_FALLBACKS, VECTOR_FALLBACKS
from gambrel.device.files import ENGINES
from gambrel.device.model import Ceiling, Device, Source
from gambrel.device.roofs import (
    default_precision,
    host_link,
    main_memory,
    peer_link,
    resolve,
)
from gambrel.dtypes import BITS
from gambrel.errors import InputError, UnknownNameError

#: (device, format asked for, engine, format computed in, FLOP/s)
MATRIX = [
    ("h100-sxm5-80gb", "fp16", "matrix", "fp16", 989.4e12),
    ("a100-sxm4-80gb", "tf32", "matrix", "tf32", 156e12),
    ("a100-sxm4-80gb", "fp32", "vector", "fp32", 19.5e12),  # honest fp32 is not TF32
    ("a100-sxm4-80gb", "fp64", "matrix", "fp64", 19.5e12),
    ("a100-sxm4-80gb", "fp8", "matrix", "fp16", 312e12),
    ("a100-sxm4-80gb", "nvfp4", "matrix", "fp16", 312e12),
    ("v100-sxm2-32gb", "bf16", "vector", "fp32", 15.7e12),
    ("v100-sxm2-32gb", "tf32", "vector", "fp32", 15.7e12),
    ("v100-sxm2-32gb", "int8", "vector", "int8", 62e12),  # DP4A
    ("v100-pcie-32gb", "int8", "matrix", "fp16", 112e12),
    ("h100-sxm5-80gb", "int4", "matrix", "int8", 1978.9e12),
    ("h100-sxm5-80gb", "mxfp8", "matrix", "fp8", 1978.9e12),
    ("h100-sxm5-80gb", "fp4", "matrix", "fp8", 1978.9e12),
    ("h100-sxm5-80gb", "uint8", "matrix", "int8", 1978.9e12),
    ("b200-hgx-180gb", "nvfp4", "matrix", "fp4", 9e15),
    ("b300-hgx-270gb", "int8", "matrix", "int8", 153.5e12),  # not as fast as fp8
    ("mi300x", "fp32", "matrix", "fp32", 163.4e12),
    ("mi100", "fp8", "matrix", "fp16", 184.6e12),
    ("tpu-v5e", "fp16", "matrix", "bf16", 197e12),
    ("tpu-v5e", "fp8", "matrix", "bf16", 197e12),
    ("jetson-agx-orin-64gb", "int8", "module", "int8", 137.5e12),
    ("jetson-agx-orin-64gb", "fp16", "matrix", "fp16", 42.5e12),
    ("jetson-nano-4gb", "int8", "vector", "fp16", 0.472e12),
    ("snapdragon-x-elite", "int8", "npu", "int8", 45e12),
    ("blackhole-p150", "fp8", "matrix", "bfp8", 664e12),
    ("groq-lpu", "bf16", "matrix", "fp16", 188e12),
    ("coral-edge-tpu", "int4", "matrix", "int8", 4e12),
    ("h100-sxm5-80gb", "complex64", "vector", "fp32", 66.9e12),
    ("h100-pcie-80gb", "complex128", "matrix", "fp64", 51e12),
    ("h100-sxm5-80gb", "int32", "vector", "fp32", 66.9e12),
]

#: The ridge points of the user's guide: dense peak over bandwidth, FLOP/byte.
RIDGES = [
    ("h100-sxm5-80gb", "fp16", False, 295),
    ("h100-sxm5-80gb", "fp16", True, 591),
    ("a100-sxm4-80gb", "fp16", False, 153),
    ("a100-sxm4-40gb", "fp16", False, 201),
    ("jetson-agx-orin-64gb", "int8", False, 671),
    ("jetson-agx-orin-64gb", "int8", True, 1343),
    ("tpu-v5e", "bf16", False, 241),
    ("h200-sxm-141gb", "fp16", False, 206),
    ("groq-lpu", "fp16", False, 2),  # 188e12 over 80e12 of SRAM
]


@pytest.mark.parametrize(("device", "dtype", "engine", "used", "rate"), MATRIX)
def test_matrix_work_runs_on(device, dtype, engine, used, rate):
    roof = resolve(load(device), "matrix", dtype)
    assert (roof.engine, roof.dtype) == (engine, used)
    assert roof.flop_per_s == pytest.approx(rate, rel=1e-3)
    plain = used == dtype and engine != "module"
    assert bool(roof.note) is (not plain and not dtype.startswith("complex"))


@pytest.mark.parametrize(("device", "dtype", "sparse", "ridge"), RIDGES)
def test_ridge_point(device, dtype, sparse, ridge):
    device = load(device)
    roof = resolve(device, "matrix", dtype, sparsity=sparse)
    assert round(roof.flop_per_s / main_memory(device).byte_per_s) == ridge


@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ("tpu-v5e", "fp32"),  # emulated, at a rate that is not published
        ("coral-edge-tpu", "fp16"),
        ("l4", "fp64"),
        ("snapdragon-8-elite", "fp16"),
    ],
)
def test_an_unpublished_matrix_roof_is_unknown(device, dtype):
    assert resolve(load(device), "matrix", dtype) is None


def test_a_format_that_hardware_lacks_is_said_to_be_lacking():
    assert resolve(load("v100-sxm2-32gb"), "matrix", "bf16").note == (
        "v100-sxm2-32gb has no bf16 engine: bf16 runs as fp32 on the vector engine."
    )


def test_a_format_that_is_only_unpublished_may_be_faster():
    assert resolve(load("rtx-6000-ada"), "matrix", "int8").note == (
        "rtx-6000-ada publishes no int8 roof: int8 is held against its fp16 matrix roof, and may "
        "be faster if the hardware has a path of its own."
    )
    assert resolve(load("tpu-v5e"), "matrix", "fp16").note == (
        "tpu-v5e publishes no fp16 roof: fp16 is held against its bf16 matrix roof."
    )


def test_the_roof_of_a_module_names_its_parts_and_the_way_to_the_gpu_alone():
    orin = load("jetson-agx-orin-64gb")
    assert resolve(orin, "matrix", "int8").note == (
        "jetson-agx-orin-64gb: the int8 roof is that of the whole module, 137.5 TFLOP/s = "
        "GPU 85 TFLOP/s + DLA 52.5 TFLOP/s; engine 'matrix' gives the GPU alone."
    )
    gpu = resolve(orin, "matrix", "int8", engine="matrix")
    assert (gpu.engine, gpu.flop_per_s, gpu.note) == ("matrix", 85e12, "")
    assert resolve(orin, "matrix", "int8", engine="dla").flop_per_s == 52.5e12
    assert resolve(orin, "matrix", "fp16", engine="dla") is None


def test_a_module_that_is_only_a_gpu_needs_no_note():
    assert resolve(load("jetson-orin-nano-8gb"), "matrix", "int8").note == ""


def test_a_module_whose_parts_are_unknown_is_called_whole():
    assert resolve(load("jetson-xavier-nx-8gb"), "matrix", "int8").note == (
        "jetson-xavier-nx-8gb: the int8 roof is that of the whole module."
    )


def test_sparse_peaks_are_used_only_when_asked_for_and_say_so():
    h100 = load("h100-sxm5-80gb")
    assert resolve(h100, "matrix", "fp16").flop_per_s == 989.4e12
    sparse = resolve(h100, "matrix", "fp16", sparsity=True)
    assert sparse.flop_per_s == 1978.9e12
    assert "structured sparsity is used, 1.979 PFLOP/s; dense is 989.4 TFLOP/s" in sparse.note


def test_without_a_sparse_peak_the_dense_one_is_used_with_a_note():
    roof = resolve(load("t4"), "matrix", "fp16", sparsity=True)
    assert roof.flop_per_s == 65e12
    assert "no published sparse peak; the dense one is used" in roof.note


def test_sparsity_does_not_touch_vector_work():
    a100 = load("a100-sxm4-80gb")
    assert resolve(a100, "vector", "fp16", sparsity=True) == resolve(a100, "vector", "fp16")


#: (device, format, format computed in, FLOP/s)
VECTOR = [
    ("a100-sxm4-80gb", "fp16", "fp16", 78e12),
    ("a100-sxm4-80gb", "bf16", "bf16", 39e12),
    ("a100-sxm4-80gb", "fp32", "fp32", 19.5e12),
    ("a100-sxm4-80gb", "tf32", "fp32", 19.5e12),
    ("a100-sxm4-80gb", "fp8", "fp32", 19.5e12),
    ("a100-sxm4-80gb", "fp64", "fp64", 9.7e12),
    ("t4", "fp16", "fp32", 8.1e12),
    ("t4", "int64", "fp32", 8.1e12),
    ("t4", "bool", "fp32", 8.1e12),
    ("v100-sxm2-32gb", "int8", "fp32", 15.7e12),  # DP4A counts dot products
]


@pytest.mark.parametrize(("device", "dtype", "used", "rate"), VECTOR)
def test_vector_work_runs_on(device, dtype, used, rate):
    roof = resolve(load(device), "vector", dtype)
    assert (roof.engine, roof.dtype, roof.flop_per_s) == ("vector", used, rate)


def test_vector_notes():
    t4 = load("t4")
    assert resolve(t4, "vector", "fp16").note == (
        "t4 publishes no fp16 vector roof: element-wise work in fp16 is held against fp32."
    )
    assert resolve(t4, "vector", "bool").note == (
        "t4: integer and boolean element-wise work is held against its fp32 vector roof."
    )
    assert resolve(t4, "vector", "fp32").note == ""


def test_a_choice_of_engine_concerns_matrix_work_only():
    orin = load("jetson-agx-orin-64gb")
    assert resolve(orin, "vector", "fp32", engine="matrix") == resolve(orin, "vector", "fp32")


def test_vector_and_special_work_may_have_no_roof():
    assert resolve(load("tpu-v5e"), "vector", "bf16") is None
    assert all(resolve(d, "special", "fp32") is None for d in catalog.list_devices())


def test_bad_questions():
    t4 = load("t4")
    with pytest.raises(InputError, match="unknown class of work 'tensor'; use matrix, vector, sp"):
        resolve(t4, "tensor", "fp16")
    with pytest.raises(UnknownNameError, match="unknown precision 'fp17'"):
        resolve(t4, "matrix", "fp17")
    with pytest.raises(UnknownNameError, match="unknown engine 'gpu'"):
        resolve(t4, "matrix", "fp16", engine="gpu")


def test_every_format_has_a_rule():
    assert set(MATRIX_FALLBACKS) == set(BITS)
    assert set(VECTOR_FALLBACKS) == set(BITS)


DEVICES = st.sampled_from(sorted(catalog.index().vendors)).map(load)


@given(DEVICES, st.sampled_from(sorted(BITS)), st.sampled_from(["matrix", "vector"]), st.booleans())
def test_a_roof_is_a_figure_of_the_device_and_sparse_only_on_demand(
    device, dtype, work_class, sparsity
):
    roof = resolve(device, work_class, dtype, sparsity=sparsity)
    if roof is None:
        return
    assert roof.ceiling in device.ceilings
    assert roof.ceiling.accumulate == ""
    if sparsity and work_class == "matrix" and roof.ceiling.sparse_flop_per_s is not None:
        assert roof.flop_per_s == roof.ceiling.sparse_flop_per_s
        assert "structured sparsity" in roof.note
    else:
        assert roof.flop_per_s == roof.ceiling.flop_per_s


@given(DEVICES, st.sampled_from(sorted(BITS)))
def test_a_fallback_is_never_silent(device, dtype):
    roof = resolve(device, "matrix", dtype)
    if roof is not None and roof.dtype != dtype and not dtype.startswith("complex"):
        assert dtype in roof.note
        assert roof.dtype in roof.note


@given(DEVICES, st.sampled_from(sorted(BITS)), st.sampled_from(ENGINES))
def test_one_engine_alone_is_never_faster_in_the_same_format(device, dtype, engine):
    whole, part = resolve(device, "matrix", dtype), resolve(device, "matrix", dtype, engine=engine)
    if part is not None:
        assert whole is not None
        if part.dtype == whole.dtype:
            assert part.flop_per_s <= whole.flop_per_s


PRECISIONS = {
    "h100-sxm5-80gb": "fp16",
    "t4": "fp16",
    "tpu-v5e": "bf16",
    "gaudi-3": "bf16",  # four times its fp16 rate
    "xeon-8480+": "bf16",
    "epyc-9654": "fp32",
    "m2-max": "fp32",
    "jetson-nano-4gb": "fp32",
    "jetson-agx-orin-64gb": "fp16",
    "coral-edge-tpu": "int8",
    "snapdragon-x-elite": "int8",
    "hailo-10h": "int8",
    "blackhole-p150": "bfp8",
    "m4-max": "fp32",
}


@pytest.mark.parametrize(("device", "dtype"), PRECISIONS.items())
def test_default_precision(device, dtype):
    chosen, reason = default_precision(load(device))
    assert chosen == dtype
    assert device in reason
    assert reason.endswith(".")


def test_the_default_precision_has_a_roof_wherever_there_is_one():
    for device in catalog.list_devices():
        chosen, reason = default_precision(device)
        if device.ceilings:
            assert resolve(device, "matrix", chosen).dtype == chosen
        else:
            assert "publishes no compute roof" in reason


def single(dtype):
    ceiling = Ceiling(engine="any", dtype=dtype, flop_per_s=1e12, source=Source(title="x"))
    return Device(id="x", name="X", ceilings=(ceiling,))


def test_a_device_with_one_roof_for_everything():
    assert default_precision(single("any")) == (
        "fp16",
        "x has one roof for every format; fp16 is assumed.",
    )
    assert resolve(single("any"), "matrix", "int8", engine="matrix").flop_per_s == 1e12


@pytest.mark.parametrize("dtype", ["fp64", "tf32", "fp8", "fp16", "int4"])
def test_a_device_with_one_roof_for_one_format_is_for_that_format(dtype):
    assert default_precision(single(dtype))[0] == dtype


def test_main_memory_is_dram_else_sram_else_unknown():
    assert main_memory(load("t4")).name == "DRAM"
    assert main_memory(load("groq-lpu")).name == "SRAM"
    assert main_memory(load("cerebras-wse-3")).byte_per_s == 21e15
    assert main_memory(load("coral-edge-tpu")) is None  # the SRAM's bandwidth is not published
    assert main_memory(load("hailo-10h")).byte_per_s is None


def test_links_to_host_and_peers():
    assert host_link(load("coral-edge-tpu")).byte_per_s == 500e6
    assert host_link(load("gh200-96gb")).name == "nvlink-c2c"
    assert host_link(load("tpu-v5e")) is None
    assert peer_link(load("h100-sxm5-80gb")).name == "nvlink"
    assert peer_link(load("mi250x")).name == "infinity-fabric"
    assert peer_link(load("l4")).name == "pcie"
    assert peer_link(load("hailo-8")) is None


@pytest.mark.parametrize(
    ("device", "dtype", "factor"),
    [("rtx-4090", "fp16", 2), ("rtx-4090", "bf16", 1), ("rtx-4090", "fp8", 1), ("l40s", "fp16", 1)],
)
def test_sums_in_fp16_are_faster_where_a_ceiling_says_so(device, dtype, factor):
    plain = resolve(load(device), "matrix", dtype)
    narrow = resolve(load(device), "matrix", dtype, narrow_sums=True)
    assert narrow.flop_per_s == pytest.approx(factor * plain.flop_per_s, rel=1e-3)
    assert ("summed in fp16" in narrow.note) == (factor > 1)
