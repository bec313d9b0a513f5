"""The runtimes: complete files with sources, one default for every question, refusals."""

import itertools

import pytest

import gambrel
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.kinship import FRAMEWORKS
from gambrel.device.catalog import list_devices
from gambrel.device.lookup import find, from_peaks
from gambrel.dtypes import BITS, PRECISIONS
from gambrel.errors import FileFormatError, InputError, UnknownNameError
from gambrel.runtimes import (
    Kernels,
    candidates,
    catalog,
    check_runs,
    choose,
    matches,
    on_device,
    runtime,
    runtimes,
    takes,
)
from gambrel.runtimes.catalog import FALLBACK, _defaults

RUNTIMES = list(runtimes().values())
DEVICES = list_devices()
#: Formats that people ask for; None is the device's own.
FORMATS = (None, *PRECISIONS)
#: Runtimes of devices that users describe themselves: the catalog has none of them.
ABSENT = {"axera"}


def named(found):
    return found.id


@pytest.mark.parametrize("found", RUNTIMES, ids=named)
def test_every_file_is_complete(found):
    assert found.name
    assert found.about.endswith(".")
    assert set(found.formats) <= set(BITS)
    whole = {c.runtime for c in (*packaged().tiled, *packaged().streams, *packaged().engines)}
    assert set(found.constants) <= {*FRAMEWORKS, *whole, "vendor"}  # the last for a user's own
    if found.id in ABSENT:
        return
    assert any(matches(found.runs_on, d) for d in DEVICES)
    for default in found.default_for:
        assert any(matches(default.devices, d) and matches(found.runs_on, d) for d in DEVICES)


@pytest.mark.parametrize("found", RUNTIMES, ids=named)
def test_every_figure_names_its_source(found):
    apart = [part for part in (found.residency, found.workspace) if part]
    figures = [*found.host, *found.evidence, *apart]
    for figure in figures:
        assert figure.source.title
        assert figure.source.url or figure.source.confidence == "derived"
    for host in found.host:
        assert 0 < host.low_s <= host.per_launch_s <= host.high_s
        assert host.per_run_s >= 0
    for evidence in found.evidence:
        assert evidence.rows > 0
        assert evidence.error is None or 0 < evidence.error < 1


def test_what_fuses_says_where_results_stay():
    for found in RUNTIMES:
        assert (found.residency is not None) == (found.kernels is Kernels.TILED), found.id


def test_names_are_unique_and_found_as_people_write_them():
    ids = {r.id for r in RUNTIMES}
    names = [name for r in RUNTIMES for name in (r.id, *(a for a in r.aliases if a not in ids))]
    assert len(names) == len(set(names))
    assert runtime("TensorRT").id == runtime("trt").id == "tensorrt"
    assert runtime("torch_compile").id == runtime("Inductor").id == "torch-compile"
    assert runtime("llama.cpp").id == "llama-cpp"
    with pytest.raises(UnknownNameError, match="unknown runtime 'tensort'; closest: tensorrt"):
        runtime("tensort")
    with pytest.raises(UnknownNameError, match="unknown runtime 'olama'; closest: ollama"):
        runtime("olama")  # an alias that was misspelt
    with pytest.raises(UnknownNameError) as error:
        runtime("foo")
    assert not error.value.closest  # nothing resembles it
    assert "Run 'gambrel runtimes list', or leave it out" in str(error.value)


@pytest.mark.parametrize("device", DEVICES, ids=named)
def test_a_name_means_one_runtime_on_a_device(device):
    there = [r for r in RUNTIMES if matches(r.runs_on, device)]
    names = [name for r in there for name in (r.id, *r.aliases)]
    assert len(names) == len(set(names))


def test_vllm_on_a_tpu_is_the_engine_that_runs_there():
    assert runtime("vllm").id == "vllm"
    for name in ("vllm", "vLLM", "sglang"):
        assert choose(find("tpu-v6e").device, name, language=True).runtime.id == "tpu-inference"
        assert choose(find("h100-sxm5-80gb").device, name, language=True).runtime.id == name.lower()


@pytest.mark.parametrize("device", DEVICES, ids=named)
def test_every_question_has_one_default(device):
    """For language models and others, in any format: of the lowest rank there is one runtime."""
    for language, precision in itertools.product((False, True), FORMATS):
        found = list(_defaults(device, precision, language))
        least = min((default.rank for default, _ in found), default=0)
        first = {r.id for default, r in found if default.rank == least}
        assert len(first) <= 1, (device.id, language, precision, first)
        able = [
            r
            for r in on_device(device, language=language)
            if r.runs_on and (precision is None or takes(r, precision))
        ]
        if not first and not able:
            with pytest.raises(InputError, match=f"no runtime on {device.id} runs {precision}"):
                choose(device, precision=precision, language=language)
            continue
        chosen = choose(device, precision=precision, language=language)
        assert chosen.reason
        assert chosen.runtime.id in (first or {r.id for r in able})
        check_runs(chosen.runtime, device, precision, language=language)
        assert chosen.runtime in candidates(device, precision, language=language)


@pytest.mark.parametrize("device", DEVICES, ids=named)
def test_every_device_of_the_catalog_has_a_default_of_its_own(device):
    for language in (False, True):
        assert choose(device, language=language).reason.startswith(f"the default on {device.id}")


@pytest.mark.parametrize(
    ("device", "precision", "language", "expected"),
    [
        ("a100-sxm4-80gb", None, False, "pytorch"),
        ("a100-sxm4-80gb", "int8", False, "tensorrt"),
        ("a100-sxm4-80gb", None, True, "vllm"),
        ("h100-sxm5-80gb", "fp8", True, "vllm"),
        ("mi300x", None, False, "pytorch"),
        ("mi300x", None, True, "vllm"),
        ("jetson-orin-nano-8gb", None, False, "tensorrt"),
        ("epyc-9654", None, False, "pytorch"),
        ("epyc-9654", "int4", True, "llama-cpp"),
        ("m3-max", None, True, "llama-cpp"),
        ("tpu-v5e", None, False, "xla"),
        ("snapdragon-8-gen-3", None, False, "qnn"),
        ("rk3588-npu", None, False, "rknn"),
        ("hailo-8", None, False, "hailort"),
        ("coral-edge-tpu", None, False, "edgetpu"),
        ("groq-lpu", None, False, "vendor"),
    ],
)
def test_what_people_use(device, precision, language, expected):
    found = choose(find(device).device, precision=precision, language=language)
    assert found.runtime.id == expected


@pytest.mark.parametrize(
    ("name", "device", "precision", "says"),
    [
        ("edgetpu", "coral-edge-tpu", "fp16", "Edge TPU compiler does not run fp16; it takes int8"),
        ("coreml-ane", "m1", None, "does not run on m1; it does on m1-ane; choose from coreml"),
        ("tensorrt", "mi300x", None, "NVIDIA TensorRT does not run on mi300x; choose from"),
        ("edgetpu", "h100-sxm5-80gb", None, "Edge TPU compiler does not run on h100-sxm5-80gb"),
        ("vllm", "a100-sxm4-80gb", None, "vLLM runs language models only; choose from"),
        ("openvino", "m1", None, "Intel OpenVINO does not run on m1"),
        ("hailort", "hailo-8", "fp32", "HailoRT does not run fp32; it takes int8, int4"),
    ],
)
def test_what_does_not_run_is_refused(name, device, precision, says):
    with pytest.raises(InputError, match=says):
        choose(find(device).device, name, precision=precision)


def test_no_language_models_where_a_runtime_takes_none():
    h100 = find("h100-sxm5-80gb").device
    with pytest.raises(InputError, match="NVIDIA TensorRT runs no phases of language models"):
        choose(h100, "tensorrt", language=True)


def test_a_device_of_two_numbers_may_be_anything():
    unknown = from_peaks(1e12, 1e11)
    assert choose(unknown).runtime.id == FALLBACK
    assert choose(unknown, "tensorrt").runtime.id == "tensorrt"
    with pytest.raises(InputError, match="Edge TPU compiler does not run fp16"):
        choose(unknown, "edgetpu", precision="fp16")


def test_mixed_formats_are_the_business_of_the_engine():
    assert takes(runtime("vllm"), "w4a16,kv=fp8")
    assert takes(runtime("edgetpu"), "weights=int4")


def test_only_real_runtimes_are_candidates():
    for device in DEVICES:
        ids = [r.id for r in candidates(device)]
        assert "perfect" not in ids
        assert set(ids) <= {r.id for r in on_device(device)}


@pytest.mark.parametrize("model", ["whisper-small", "t5-small"])
@pytest.mark.parametrize("device", ["xeon-8480+", "m1", "h100"])
def test_an_encoder_and_its_decoder_at_once_is_no_phase_of_a_language_model(model, device):
    """What runs phases of language models alone would not run it."""
    found = gambrel.analyze(model, device)
    assert runtimes()[found.runtime].language is not True


def test_what_is_read_was_built_from_the_files():
    assert catalog.runtimes() == catalog.read_files()


def test_a_lost_build_says_how_to_get_it_back(monkeypatch, tmp_path):
    monkeypatch.setattr(catalog, "BUILT", tmp_path / "runtimes.json")
    catalog.runtimes.cache_clear()
    try:
        with pytest.raises(FileFormatError, match=r"build_catalog\.py --index"):
            catalog.runtimes()
    finally:
        catalog.runtimes.cache_clear()


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("a100-sxm4-80gb", "onnxruntime-cuda"),
        ("rtx-4090", "onnxruntime-cuda"),
        ("snapdragon-8-elite", "onnxruntime-qnn"),
        ("jetson-orin-nano-8gb", "onnxruntime"),
        ("mi300x", "onnxruntime"),
        ("xeon-8480+", "onnxruntime"),
    ],
)
def test_onnx_runtime_means_its_execution_provider(device, expected):
    machine = find(device).device
    assert choose(machine, "ort").runtime.id == expected
    names = [r.id for r in on_device(machine) if r.id.startswith("onnxruntime")]
    assert names == [expected]  # a runtime and its part are not two answers


#: Runtimes that run on devices of one maker.
_OF_ONE_MAKER = {
    "Apple": ("coreml", "coreml-ane", "mlx"),
    "NVIDIA": ("tensorrt", "tensorrt-llm", "tensorrt-edge-llm", "onnxruntime-cuda"),
    "Qualcomm": ("qnn", "genie", "onnxruntime-qnn"),
}


@pytest.mark.parametrize("device", DEVICES, ids=named)
def test_what_a_device_is_called_by_chance_brings_no_runtime(device):
    """An "ATOM (8 neural engines)" is no Neural Engine, and a processor by NVIDIA is no GPU."""
    there = {r.id for language in (False, True) for r in on_device(device, language=language)}
    for maker, ids in _OF_ONE_MAKER.items():
        if device.vendor != maker or device.category == "cpu":
            assert not there.intersection(ids)
