"""A whole survey, run on the processor behind the seam: the figures are those of a clock."""

import contextlib
import dataclasses

import pytest

torch = pytest.importorskip("torch")

from gambrel.analysis.estimate.constants import packaged  # noqa: E402
from gambrel.analysis.estimate.kinship import kin_of  # noqa: E402
from gambrel.device.files import load_file  # noqa: E402
from gambrel.device.lookup import find  # noqa: E402
from gambrel.errors import DeviceError  # noqa: E402
from gambrel.measure import gpu, peaks  # noqa: E402
from gambrel.measure.convert import to_device, to_toml  # noqa: E402
from gambrel.measure.gpu import surveying  # noqa: E402
from gambrel.measure.gpu.place import About  # noqa: E402
from gambrel.measure.records import summarize  # noqa: E402
from gambrel.report.builders.peaks import compare, remarks  # noqa: E402
from tests.measure.gpu.doubles import EFFORT, bench, flags  # noqa: E402

H100 = About(
    name="NVIDIA H100 80GB HBM3",
    architecture="sm_90",
    capability=(9, 0),
    amd=False,
    units=132,
    total_bytes=80 << 30,
    level2_bytes=50 << 20,
    integrated=False,
    clock_hz=1.98e9,
    uuid="1234",
)
GIB = 1 << 30
#: Calls of all rounds that `measure_peaks` makes of each figure unless told otherwise.
EFFORT_OF_PEAKS = 20 * 3


def test_rates_sizes_and_mixes(monkeypatch):
    flags(monkeypatch)
    found, unknown = gpu.measure(bench(), EFFORT)
    rows = {(m.resource, m.mix, m.dtype): m for m in found}
    # 2 * 32^3 = 65536 FLOP in half a second.
    fp32 = rows["vector", "matmul", "fp32"]
    assert fp32.value == pytest.approx(131072.0)
    assert fp32.note.startswith("square product of side 32")
    assert rows["vector", "matmul sustained", "fp32"].value == pytest.approx(131072.0)
    assert rows["matrix", "matmul", "tf32"].value == pytest.approx(131072.0)
    assert rows["matrix", "matmul, fast sums", "fp8"].value == pytest.approx(131072.0)
    # A copy reads and writes: 2 * 4096 bytes in half a second; a dot product reads two arrays.
    assert rows["DRAM", "read", ""].value == pytest.approx(16384.0)
    assert rows["DRAM", "copy", ""].value == pytest.approx(16384.0)
    assert rows["DRAM", "triad", ""].value == pytest.approx(24576.0)
    assert rows["host link", "to device", ""].value == pytest.approx(8192.0)
    assert unknown == ("L2 bandwidth: this version of torch does not know its size",)


def test_the_l2_is_measured_where_its_size_is_known_and_kernels_can_be_repeated():
    made = []

    def repeated(call, count):
        made.append(count)
        return lambda: [call() for _ in range(count)]

    found, unknown = gpu.measure(bench(level2_bytes=16384, repeated=repeated), EFFORT)
    rows = {m.mix: m for m in found if m.resource == "L2"}
    # Half of the L2, read 64 times, or read and written 64 times, in half a second.
    assert rows["read"].value == pytest.approx(8192 * 64 / 0.5)
    assert rows["update"].value == pytest.approx(2 * 8192 * 64 / 0.5)
    assert rows["read"].working_set_bytes == 8192
    assert set(made) == {64}
    assert not any("L2" in text for text in unknown)


def test_an_l2_that_seems_slower_than_memory_is_unknown_and_no_roof():
    def timed(call, count):
        call()
        return [1.0] * count

    # 64 sums of 2,048 bytes a second, against a triad of three times 400,000.
    found, unknown = gpu.measure(
        bench(level2_bytes=4096, timed=timed, stream_bytes=(400_000,)), EFFORT
    )
    assert not [m for m in found if m.resource == "L2"]
    assert "L2 bandwidth: torch's kernels on it are no faster than memory" in unknown


def test_a_gpu_that_shares_its_memory_has_no_link():
    found, unknown = gpu.measure(bench(host_link=False), EFFORT)
    assert not [m for m in found if m.resource == "host link"]
    assert "host link: the GPU and the processor share their memory" in unknown


@pytest.fixture
def free(monkeypatch):
    amount = {"bytes": 79 * GIB}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (amount["bytes"], 80 * GIB))
    monkeypatch.setattr(surveying, "timed_by_events", lambda index: gpu.timed_by_clock())
    monkeypatch.setattr(surveying, "board_reader", lambda uuid, index: None)
    return amount


def sizes(seen=H100, rough=False):
    return [s / GIB for s in surveying.bench_of(0, seen, rough=rough).stream_bytes]


def test_sizes_that_no_cache_holds_and_the_memory_does(free):
    # At least eight times the L2, half a GiB at least, four GiB at most.
    assert sizes() == [0.5, 1.0, 2.0]
    b200 = dataclasses.replace(H100, level2_bytes=128 << 20)
    assert sizes(b200) == [1.0, 2.0, 4.0]
    # Behind the L2 of an MI300 lie 256 MiB more, of which torch knows nothing.
    amd = dataclasses.replace(H100, amd=True, level2_bytes=4 << 20)
    assert sizes(amd) == [2.0, 4.0]
    assert sizes(rough=True) == [2.0]
    # Three arrays within 80 % of what is free.
    free["bytes"] = 4 * GIB
    assert sizes() == [0.5, 1.0]
    free["bytes"] = GIB
    assert sizes() == [pytest.approx(0.8 / 3, rel=1e-4)]


def test_a_rough_round_takes_less_of_everything(free):
    full = surveying.bench_of(0, H100, rough=False)
    rough = surveying.bench_of(0, H100, rough=True)
    assert rough.settle_s + rough.sustained_s < 0.25 * (full.settle_s + full.sustained_s)
    assert set(rough.sides) < set(full.sides)
    assert rough.finalists < full.finalists
    quick = peaks.quick("cuda:0")
    assert quick["steps"] * quick["rounds"] <= surveying._FEW < EFFORT_OF_PEAKS
    assert full.free_bytes == int(0.8 * 79 * GIB)


@pytest.fixture
def found(monkeypatch, free):
    """A survey of a scripted H100."""
    flags(monkeypatch)
    monkeypatch.setattr(surveying, "about", lambda index: H100)
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    parts = dict.fromkeys(("gambrel", "torch", "runtime", "driver"), "1")
    monkeypatch.setattr(surveying, "identity", lambda index: parts)
    monkeypatch.setenv("HIPBLASLT_ALLOW_TF32", "1")
    measure = surveying.measure

    def on_processor(made, effort, progress):
        return measure(bench(engines=made.engines, level2_bytes=65536), effort, progress)

    monkeypatch.setattr(surveying, "measure", on_processor)
    return gpu.survey(0, EFFORT)


def test_a_whole_survey(found, tmp_path):
    assert (found.device, found.vendor, found.category) == ("cuda:0", "NVIDIA", "gpu")
    assert found.id == "this-nvidia-h100-80gb-hbm3"
    assert found.capacities == {"DRAM": 80 << 30, "L2": 50 << 20}
    assert found.settings["HIPBLASLT_ALLOW_TF32"] == "1"
    device = to_device(found)
    assert device.ceiling("vector", "fp32").flop_per_s == pytest.approx(131072.0)
    assert device.ceiling("matrix", "fp64") is not None
    assert device.level("DRAM").byte_per_s == pytest.approx(24576.0)
    assert device.level("L2").byte_per_s > 24576.0
    path = tmp_path / "lab.toml"
    path.write_text(to_toml(device), encoding="utf-8")
    assert load_file(path) == device
    rows = {r.ceiling: r for r in compare(device, find("h100").device)}
    assert rows["vector fp32"].low
    assert rows["matrix fp64"].measured is not None
    assert "square product of side 32" in " ".join(remarks(found))


def test_a_measured_gpu_is_expected_to_run_the_kernels_of_its_generation(found):
    device = to_device(found)
    assert device.architecture == "sm_90"
    assert device.fact("num_units").value == 132
    assert device.fact("boost_clock").value == 1.98e9
    assert kin_of(device, packaged()).borrow == "h100-sxm5-80gb"
    assert kin_of(device, packaged()).confidence == "medium"


def test_a_format_that_is_missing_is_named_with_its_reason(found):
    none = dataclasses.replace(H100, capability=(8, 0))
    assert "fp8" in {m.dtype for m in found.measurements}
    from gambrel.measure.gpu.engines import engines_of

    measured, unknown = gpu.measure(bench(engines=engines_of(none)), EFFORT)
    import msgspec

    lesser = msgspec.structs.replace(found, measurements=measured, unknown=unknown)
    with pytest.raises(DeviceError, match=r"no fp8 compute roof \(fp8 matmul: compute capability"):
        summarize(lesser, "fp8", "torch.float8_e4m3fn")
    assert summarize(found, "tf32", "torch.float32").peak_flops == pytest.approx(131072.0)
