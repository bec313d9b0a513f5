"""`measure_peaks` as promised, its memory, and its refusals."""

import re

import msgspec
import pytest

import gambrel
from gambrel import HardwarePeaks, clear_peaks_cache, measure_peaks
from gambrel.device.resolve import resolve_hardware
from gambrel.errors import DeviceError, InputError, MissingExtraError, UnknownNameError
from gambrel.measure import cpu, peaks, store
from gambrel.measure.gpu import place


@pytest.fixture
def counted(survey, monkeypatch):
    """Counts measurements and answers them with the one that was made for the tests."""
    calls = []

    def measured(effort, progress=None, between=None):
        calls.append(effort)
        return survey

    monkeypatch.setattr(cpu, "survey", measured)
    return calls


def test_the_promised_call_and_print():
    pytest.importorskip("llvmlite")
    found = measure_peaks("cpu", steps=1, warmup=0, rounds=1)
    assert isinstance(found, HardwarePeaks)
    number = r"\d[\d.e+]*"
    assert re.fullmatch(
        rf"HardwarePeaks\(peak_flops={number}, peak_bandwidth={number}, ridge_point={number}, "
        r"device='cpu', dtype='torch.float32', tf32_enabled=False, cudnn_benchmark=False\)",
        str(found),
    )
    assert found.ridge_point == pytest.approx(found.peak_flops / found.peak_bandwidth)
    attained = [m for m in found.survey.measurements if m.resource == "library"]
    assert {m.mix for m in attained} >= {"numpy matmul"}
    # What a library attains is never the roof.
    assert found.peak_flops == found.survey.best("vector", "fp32").value


def test_a_second_call_recalls_and_clearing_forgets(counted):
    first = measure_peaks("cpu", steps=2)
    assert measure_peaks("cpu", steps=2) == first
    assert len(counted) == 1
    measure_peaks("cpu", steps=3)  # other settings, another measurement
    assert len(counted) == 2
    measure_peaks("cpu", steps=2, refresh=True)
    assert len(counted) == 3
    assert clear_peaks_cache() == 2
    measure_peaks("cpu", steps=2)
    assert len(counted) == 4
    assert clear_peaks_cache() == 1
    assert clear_peaks_cache() == 0


def test_without_the_cache_nothing_is_stored(counted):
    measure_peaks("cpu", cache=False)
    measure_peaks("cpu", cache=False)
    assert len(counted) == 2
    assert store.latest() is None


@pytest.mark.parametrize("damage", [b"", b"{", b'{"device": 3}', b"\xff\xfe"])
def test_a_damaged_store_is_measured_again(counted, damage):
    measure_peaks("cpu")
    for path in store.folder().glob("*.json"):
        path.write_bytes(damage)
    measure_peaks("cpu")
    assert len(counted) == 2


def test_formats_by_any_name(counted):
    import torch

    assert measure_peaks("cpu", dtype="double").dtype == "torch.float64"
    assert measure_peaks(torch.device("cpu"), dtype=torch.float64).dtype == "torch.float64"
    # TF32 is a mode of GPUs; a CPU's fp32 stays honest fp32.
    assert measure_peaks("cpu", allow_tf32=True).tf32_enabled is False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"steps": 0}, "steps=0: give a whole number of at least 1"),
        ({"steps": True}, "steps=True"),
        ({"warmup": -1}, "warmup=-1: give a whole number of at least 0"),
        ({"rounds": 1.5}, "rounds=1.5"),
        ({"device": "tpu"}, "cannot measure 'tpu'; give cpu, cuda or cuda:N"),
        ({"device": "cpu:1"}, "cannot measure 'cpu:1': a processor is measured as a whole"),
    ],
)
def test_impossible_requests_are_refused(arguments, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        measure_peaks(**arguments)


def test_an_unknown_format_is_refused():
    with pytest.raises(UnknownNameError, match="unknown precision 'fp33'"):
        measure_peaks("cpu", dtype="fp33")


def test_a_format_without_loops_is_refused_before_anything_is_measured(counted):
    sentence = "no processor is measured in int4; there are loops for fp64, fp32, fp16, bf16, int8"
    with pytest.raises(DeviceError, match=sentence):
        measure_peaks("cpu", dtype="int4")
    with pytest.raises(DeviceError, match="measured in tf32"):
        measure_peaks("cpu", dtype="tf32")
    assert counted == []


def test_an_interrupted_measurement_leaves_everything_as_it_was(monkeypatch):
    """Ctrl-C in the second round: affinity, threads and settings as before, nothing stored."""
    import os
    import threading

    torch = pytest.importorskip("torch")
    pytest.importorskip("llvmlite")

    def state():
        affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
        return affinity, torch.get_num_threads(), torch.is_grad_enabled()

    def interrupt(done, total, name):
        if done > total // 2:
            raise KeyboardInterrupt

    before, threads = state(), set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        measure_peaks("cpu", steps=1, warmup=0, rounds=2, progress=interrupt)
    assert state() == before
    assert set(threading.enumerate()) == threads
    assert store.latest() is None


def test_no_gpu_is_a_sentence():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceError, match=r"finds no GPU here.* or measure 'cpu'"):
        measure_peaks("cuda")


def test_no_torch_is_a_sentence(monkeypatch):
    monkeypatch.setattr(place, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gambrel\[torch\]'"):
        measure_peaks("cuda:0")


def test_this_is_the_machine_as_measured_last(counted, survey):
    with pytest.raises(InputError, match=r"has not been measured yet\. Run 'gambrel peaks'"):
        resolve_hardware("this")
    measure_peaks("cpu")
    device, notes = resolve_hardware("this")
    assert device.name == survey.name
    assert survey.date in notes[0]
    assert gambrel.analyze("resnet18", "this", precision="fp32").hardware == device


def test_a_survey_of_another_processor_is_passed_over(survey):
    store.save("a", msgspec.structs.replace(survey, id="this-other"))
    assert store.latest(cpu=survey.id) is None
    store.save("b", survey)
    assert store.latest(cpu=survey.id) == survey


def test_importing_gambrel_measures_nothing():
    assert peaks.measure_peaks is measure_peaks
