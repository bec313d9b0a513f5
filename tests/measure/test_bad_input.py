"""What goes wrong is one clear error, and the machine's state is what it was."""

import os

import pytest

torch = pytest.importorskip("torch")

from gambrel import RooflineAnalyzer, measure_peaks  # noqa: E402
from gambrel.device.lookup import from_peaks  # noqa: E402
from gambrel.errors import CaptureError, DeviceError, GambrelError, InputError  # noqa: E402
from gambrel.measure import gpu  # noqa: E402
from tests.measure.gpu.doubles import EFFORT, bench  # noqa: E402

nn = torch.nn
FAST = from_peaks(1e18, 1e18, name="fast")


def state():
    """Everything that measuring touches for a while."""
    return {
        "threads": torch.get_num_threads(),
        "interop": torch.get_num_interop_threads(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "benchmark": torch.backends.cudnn.benchmark,
        "tf32": torch.backends.cudnn.allow_tf32,
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "default": torch.get_default_dtype(),
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
    }


@pytest.fixture(autouse=True)
def nothing_is_left_changed():
    before = state()
    yield
    assert state() == before


def profile(model, sample, device="cpu", **options):
    RooflineAnalyzer(model, sample, FAST).profile(device, **({"warmup": 0, "steps": 1} | options))


class OnlyInThought(nn.Module):
    """Runs on the meta device, where nothing is computed, and raises for real."""

    def __init__(self, error):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.error = error

    def forward(self, x):
        if self.layer.weight.device.type != "meta":
            raise self.error
        return self.layer(x)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    ("error", "seen", "sentence"),
    [
        (RuntimeError("shapes"), InputError, "fails on cpu: RuntimeError: shapes"),
        (ValueError("range"), InputError, "fails on cpu: ValueError: range"),
        (torch.cuda.OutOfMemoryError("tried to"), DeviceError, "too little memory: tried to"),
        (KeyboardInterrupt("now"), KeyboardInterrupt, "now"),
    ],
)
def test_a_model_that_fails_in_forward(error, seen, sentence, train):
    model = OnlyInThought(error).eval()
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    values = [p.clone() for p in model.parameters()]
    with pytest.raises(seen, match=sentence):
        profile(model, torch.ones(1, 4), train=train)
    assert hooks == [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    assert all(torch.equal(p, v) for p, v in zip(model.parameters(), values, strict=True))
    assert all(p.device.type == "cpu" and p.grad is None for p in model.parameters())
    assert not model.training


class Strange(nn.Module):
    """Returns what is no tensor."""

    def forward(self, x):
        return {"n": 3, "text": "words", "inside": [x + 1, None, {"deep": x * 2}]}


class Nothing(nn.Module):
    def forward(self, x):
        x + 1


def test_outputs_that_are_no_tensors_are_fine_and_training_them_is_refused():
    profile(Strange(), torch.ones(4))
    profile(Nothing(), torch.ones(4))
    with pytest.raises(CaptureError, match="nothing to train"):
        profile(Nothing(), torch.ones(4), train=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 0}, "steps=0: give a whole number of at least 1"),
        ({"steps": -1}, "steps=-1"),
        ({"steps": True}, "steps=True"),
        ({"steps": 1.5}, "steps=1.5"),
        ({"warmup": -1}, "warmup=-1: give a whole number of at least 0"),
        ({"device": "tpu"}, "cannot profile on 'tpu'"),
        ({"device": ""}, "cannot profile on ''"),
    ],
)
def test_figures_and_devices_that_make_no_sense(options, sentence):
    with pytest.raises(InputError, match=sentence):
        profile(nn.ReLU(), torch.ones(1), **options)


@pytest.mark.parametrize("device", ["cuda", "cuda:99", "cuda:x"])
def test_a_gpu_that_is_not_there(device):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for use in (lambda: profile(nn.ReLU(), torch.ones(1), device), lambda: measure_peaks(device)):
        with pytest.raises(DeviceError, match="finds no GPU here"):
            use()


def test_a_sample_on_another_device_is_moved_or_refused():
    model = nn.Linear(4, 4)
    with pytest.raises(GambrelError):
        profile(model, torch.ones(1, 4, device="meta"))
    split = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, device="meta"))
    with pytest.raises(InputError, match="meta device and has no values"):
        profile(split, torch.ones(1, 4))


def test_a_sample_of_the_wrong_shape():
    with pytest.raises(GambrelError, match="same reduction dim"):
        profile(nn.Linear(4, 4), torch.ones(1, 5))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
def test_an_interrupted_measurement_of_a_gpu_restores_all_flags(error):
    def timed(call, count):
        torch.set_float32_matmul_precision("medium")
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(7)
        raise error("stop")

    seen = DeviceError if error is RuntimeError else error
    with pytest.raises(seen, match="stop"):
        gpu.measure(bench(timed=timed), EFFORT)


def test_an_interrupted_survey_of_the_processor_leaves_threads_and_pinning(monkeypatch):
    pytest.importorskip("llvmlite")

    def interrupt(done, total, name):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_peaks("cpu", steps=1, warmup=0, rounds=1, cache=False, progress=interrupt)
