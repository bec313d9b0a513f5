"""Which GPU is meant, and what a user reads when there is none that works."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from gambrel import RooflineAnalyzer, measure_peaks  # noqa: E402
from gambrel.device.lookup import from_peaks  # noqa: E402
from gambrel.errors import DeviceError, InputError  # noqa: E402
from gambrel.measure.gpu import place  # noqa: E402
from gambrel.measure.gpu.engines import engines_of, fp8_of  # noqa: E402


def h100(**changes):
    plain = {
        "name": "NVIDIA H100 80GB HBM3",
        "major": 9,
        "minor": 0,
        "L2_cache_size": 50 << 20,
        "total_memory": 80 << 30,
        "multi_processor_count": 132,
        "clock_rate": 1_980_000,
        "is_integrated": 0,
        "uuid": "1234-abcd",
    }
    return SimpleNamespace(**(plain | changes))


@pytest.fixture
def machine(monkeypatch):
    """Two GPUs that work; what a test changes on it happens in torch."""

    def put(name, value):
        monkeypatch.setattr(torch.cuda, name, value)

    put("is_available", lambda: True)
    put("device_count", lambda: 2)
    put("current_device", lambda: 1)
    put("get_arch_list", lambda: ["sm_80", "sm_90"])
    put("get_device_properties", lambda device: h100())
    real = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *size, device: real(*size))
    return put


def test_names_of_devices(machine):
    assert place.index_of("cuda") == 1
    assert place.index_of("cuda:0") == 0
    assert place.index_of("cuda:1") == 1
    for wrong in ("cuda:2", "cuda:x", "cuda:-1", "cuda:1:2", "cuda:²"):
        with pytest.raises(DeviceError, match=r"there is no device .*; torch finds cuda:0, cuda:1"):
            place.index_of(wrong)


def test_a_gpu_that_this_torch_has_no_kernels_for(machine, monkeypatch):
    def fails(*size, device):
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device\n")

    monkeypatch.setattr(torch, "ones", fails)
    with pytest.raises(DeviceError) as caught:
        place.index_of("cuda:0")
    said = str(caught.value)
    assert "'cuda:0' does not work: CUDA error: no kernel image" in said
    assert "kernels for sm_80, sm_90" in said
    assert "install a build of torch" in said


@pytest.fixture
def nothing(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def refused(name="cuda"):
    with pytest.raises(DeviceError) as caught:
        place.index_of(name)
    return str(caught.value)


def test_a_build_for_processors_alone(nothing):
    nothing.setattr(torch.version, "cuda", None)
    nothing.setattr(torch.version, "hip", None)
    assert "finds no GPU here, since it is built for processors alone" in refused()
    assert "install a build of torch for your GPU" in refused()


@pytest.mark.parametrize("value", ["", "-1"])
def test_a_variable_that_hides_all(nothing, value):
    nothing.setattr(torch.version, "cuda", "13.0")
    nothing.setenv("CUDA_VISIBLE_DEVICES", value)
    assert "since CUDA_VISIBLE_DEVICES hides them all; unset it" in refused()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "The NVIDIA driver on your system is too old (found version 11040). Please update",
            "The NVIDIA driver on your system is too old (found version 11040). Install or update",
        ),
        (
            "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
            "Found no NVIDIA driver on your system. Install or update the driver",
        ),
    ],
)
def test_a_driver_that_is_missing_or_too_old(nothing, error, said):
    def init():
        raise RuntimeError(error)

    nothing.setattr(torch.version, "cuda", "13.0")
    nothing.setattr(torch.cuda, "init", init)
    assert said in refused()


def test_a_warning_of_torch_is_the_reason_where_it_raises_nothing(nothing):
    import warnings

    def asked():
        warnings.warn("CUDA initialization: Unexpected error 802. Did you", stacklevel=1)
        return False

    nothing.setattr(torch.version, "cuda", "13.0")
    nothing.setattr(torch.cuda, "is_available", asked)
    nothing.setattr(torch.cuda, "init", lambda: None)
    assert "finds no GPU here: CUDA initialization: Unexpected error 802. Install" in refused()


@pytest.mark.parametrize("device", ["mps", "xpu", "xpu:0", "meta", "tpu", ""])
def test_devices_that_are_neither_are_refused_with_what_to_do(device):
    with pytest.raises(InputError, match=r"cannot measure .*; give cpu, cuda or cuda:N"):
        measure_peaks(device)
    roofs = from_peaks(1e12, 1e12, name="some")
    analyzer = RooflineAnalyzer(torch.nn.ReLU(), torch.ones(1), roofs)
    with pytest.raises(InputError, match=r"cannot profile on .*; give cpu, cuda or cuda:N"):
        analyzer.profile(device, warmup=0, steps=1)


def test_what_torch_says_of_a_gpu(machine, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", None)
    seen = place.about(0)
    assert (seen.architecture, seen.units, seen.level2_bytes) == ("sm_90", 132, 50 << 20)
    assert seen.clock_hz == 1.98e9
    assert not seen.integrated
    machine("get_device_properties", lambda device: h100(clock_rate=0))
    assert place.about(0).clock_hz is None
    old = h100()
    for name in ("L2_cache_size", "clock_rate", "is_integrated", "uuid"):
        delattr(old, name)
    machine("get_device_properties", lambda device: old)
    seen = place.about(0)
    assert (seen.level2_bytes, seen.clock_hz, seen.integrated, seen.uuid) == (None, None, False, "")


def test_a_gpu_of_amd(machine, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    machine(
        "get_device_properties",
        lambda device: h100(major=9, minor=4, gcnArchName="gfx942:sramecc+:xnack-"),
    )
    seen = place.about(0)
    assert (seen.amd, seen.architecture) == (True, "gfx942")
    assert fp8_of(seen) == "float8_e4m3fnuz"
    assert {d: e for d, (e, _) in engines_of(seen).items()} == {
        "fp64": "matrix",
        "fp32": "vector",
        "tf32": "matrix",
        "fp16": "matrix",
        "bf16": "matrix",
        "int8": "matrix",
        "fp8": "matrix",
    }
    machine("get_device_properties", lambda device: h100(major=10, minor=3, gcnArchName="gfx1030"))
    seen = place.about(0)
    assert fp8_of(seen) == "float8_e4m3fn"
    assert engines_of(seen)["fp16"] == ("vector", "")
    assert engines_of(seen)["bf16"] == ("", "gfx1030 has no instructions for it")


ENGINES = {
    # name, capability: fp64, tf32, fp16, bf16, int8, fp8
    ("Tesla P100", 6, 0): "vector - vector - vector -",
    ("Tesla V100", 7, 0): "vector - matrix - vector -",
    ("NVIDIA GeForce GTX 1660 Ti", 7, 5): "vector - vector - vector -",
    ("Tesla T4", 7, 5): "vector - matrix - matrix -",
    ("NVIDIA A100", 8, 0): "matrix matrix matrix matrix matrix -",
    ("NVIDIA GeForce RTX 3090", 8, 6): "vector matrix matrix matrix matrix -",
    ("NVIDIA GeForce RTX 4090", 8, 9): "vector matrix matrix matrix matrix matrix",
    ("NVIDIA H200", 9, 0): "matrix matrix matrix matrix matrix matrix",
    ("NVIDIA B200", 10, 0): "matrix matrix matrix matrix matrix matrix",
    ("NVIDIA GeForce RTX 5090", 12, 0): "vector matrix matrix matrix matrix matrix",
    ("NVIDIA GB10", 12, 1): "vector matrix matrix matrix matrix matrix",
}


@pytest.mark.parametrize(("key", "wanted"), ENGINES.items(), ids=[k[0] for k in ENGINES])
def test_engines_by_generation(machine, key, wanted, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", None)
    name, major, minor = key
    machine("get_device_properties", lambda device: h100(name=name, major=major, minor=minor))
    found = engines_of(place.about(0))
    assert found["fp32"] == ("vector", "")
    row = [found[d] for d in ("fp64", "tf32", "fp16", "bf16", "int8", "fp8")]
    assert " ".join(engine or "-" for engine, _ in row) == wanted
    assert all(bool(engine) is not bool(why) for engine, why in row)


def test_what_a_stored_measurement_depends_on(machine, monkeypatch):
    before = place.identity(0)
    assert before["uuid"] == "1234-abcd"
    assert before["device"] == "NVIDIA H100 80GB HBM3 cuda:0"
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    assert place.identity(0) == before | {"NVIDIA_TF32_OVERRIDE": "1"}
    assert place.identity(1) != place.identity(0)
