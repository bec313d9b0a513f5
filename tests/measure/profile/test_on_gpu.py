"""A whole profile of a GPU that is not there: real calls on the processor, with kernels put in."""

import contextlib
import dataclasses
import warnings
from types import SimpleNamespace

import msgspec
import pytest

torch = pytest.importorskip("torch")

from torch.autograd import DeviceType  # noqa: E402
from torch.autograd.profiler_util import FunctionEvent  # noqa: E402

from gambrel import RooflineAnalyzer  # noqa: E402
from gambrel.analysis.analyze import Settings, analyze  # noqa: E402
from gambrel.analysis.estimate.constants import packaged  # noqa: E402
from gambrel.analysis.roofs import roofs_of  # noqa: E402
from gambrel.capture.torch import capture  # noqa: E402
from gambrel.device.lookup import find  # noqa: E402
from gambrel.device.model import Ceiling, CeilingKind, Device, MemoryLevel, Source  # noqa: E402
from gambrel.errors import DeviceError  # noqa: E402
from gambrel.measure.gpu import place, precision  # noqa: E402
from gambrel.measure.profile import analyzer, memory, run  # noqa: E402
from gambrel.measure.profile.join import ProfiledCall, join  # noqa: E402
from gambrel.measure.profile.published import with_published  # noqa: E402
from gambrel.measure.profile.rows import as_run, join_name, rows_of  # noqa: E402
from gambrel.report.builders.profile import busy  # noqa: E402

nn = torch.nn
SOURCE = Source(title="a test")


def ceiling(engine, dtype, rate):
    return Ceiling(
        engine=engine, dtype=dtype, flop_per_s=rate, kind=CeilingKind.MEASURED, source=SOURCE
    )


GPU = Device(
    id="this-some-gpu",
    name="Some GPU",
    vendor="NVIDIA",
    category="gpu",
    architecture="sm_90",
    ceilings=(ceiling("vector", "fp32", 50e12), ceiling("matrix", "tf32", 400e12)),
    memory=(
        MemoryLevel(
            name="DRAM",
            capacity_bytes=80 << 30,
            byte_per_s=3e12,
            bandwidth_source=SOURCE,
            kind=CeilingKind.MEASURED,
        ),
    ),
)


class WithKernels:
    """torch's profiler on the processor; each call that computes starts one kernel.

    A kernel begins when its call ends and takes as long as the call did, times ``share``.
    """

    share = 1.0
    asked: tuple = ()
    real = torch.profiler.profile
    empty = False

    def __init__(self, activities):
        type(self).asked = tuple(activities)
        self._inner = WithKernels.real(activities=[torch.profiler.ProfilerActivity.CPU])

    def __enter__(self):
        self._inner.__enter__()
        return self

    def __exit__(self, *error):
        return self._inner.__exit__(*error)

    def events(self):
        found = list(self._inner.events())
        if self.empty:
            return found
        for event in list(found):
            outer = event.cpu_parent.name if event.cpu_parent else ""
            if event.name in COMPUTE and outer not in COMPUTE:
                begin, end = event.time_range.start, event.time_range.end
                length = (end - begin) * self.share
                event.append_kernel(f"kernel of {event.name}", 0, length)
                found.append(
                    FunctionEvent(
                        0,
                        f"kernel of {event.name}",
                        7,
                        begin,
                        begin + length,
                        device_type=DeviceType.CUDA,
                    )
                )
        return found


COMPUTE = {
    f"aten::{name}"
    for name in (
        "convolution",
        "convolution_backward",
        "addmm",
        "mm",
        "relu",
        "native_batch_norm",
        "native_batch_norm_backward",
        "threshold_backward",
        "rms_norm",
        "add",
        "sum",
        "mean",
        "_fused_adamw_",
    )
}


@pytest.fixture
def gpu(monkeypatch):
    """A device cuda:0 whose tensors lie on the processor."""
    called = SimpleNamespace(waits=[], resets=[], emptied=0)

    def put(name, value):
        monkeypatch.setattr(torch.cuda, name, value)

    put("is_available", lambda: True)
    put("device_count", lambda: 1)
    put("current_device", lambda: 0)
    put("synchronize", lambda device=None: called.waits.append(device))
    put("reset_peak_memory_stats", lambda device=None: called.resets.append(device))
    put("max_memory_allocated", lambda device=None: 7_000_000)
    put("memory_allocated", lambda device=None: 2_000_000)
    monkeypatch.setattr(place, "_broken", lambda *said: pytest.fail(str(said)))
    monkeypatch.setattr(analyzer, "_check_device", lambda name: None)
    monkeypatch.setattr(analyzer, "placed", lambda model, device: contextlib.nullcontext())
    monkeypatch.setattr(analyzer, "as_call", lambda sample, device: run.as_call(sample, "cpu"))
    monkeypatch.setattr(analyzer, "moved", lambda value, device: value)
    monkeypatch.setattr(torch.profiler, "profile", WithKernels)
    monkeypatch.setattr(WithKernels, "share", 1.0)
    monkeypatch.setattr(WithKernels, "empty", False)
    return called


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))


def profiled(model, sample, **options):
    ra = RooflineAnalyzer(model, sample, GPU)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ra.profile("cuda", warmup=1, steps=8, **options)
    return ra


def test_a_forward_pass(gpu):
    ra = profiled(Net().eval(), torch.randn(2, 3, 32, 32))
    activity = torch.profiler.ProfilerActivity
    assert set(WithKernels.asked) == {activity.CPU, activity.CUDA}
    by_name = {p.name: p for p in ra.results}
    assert all(p.time_s for p in ra.results), by_name
    t = ra.totals
    # Here every kernel takes as long as its call, one after another: the parts are the whole.
    assert t.device_sum_s == pytest.approx(t.ops_s + t.unmatched_s, rel=1e-6)
    assert t.device_busy_s == pytest.approx(t.device_sum_s, rel=1e-6)
    assert t.plain_s == pytest.approx(t.ops_s + t.unmatched_s + t.gap_s)
    # What others hold on the device is not the model's; its own tensors are not there before.
    assert t.peak_bytes == 5_000_000
    assert gpu.resets == ["cuda"]
    # Each step ends with a wait: one after warming up, 8 untouched, 8 profiled, 4 thrown away.
    assert gpu.waits == ["cuda"] * 21
    said = ra.summary()
    assert "Device" in said
    assert "busy" in said
    assert ra.to_html()
    assert '"device_busy_s"' in ra.to_json()


def test_a_training_step_adds_up(gpu):
    ra = profiled(Net(), torch.randn(4, 3, 16, 16), train=True)
    t = ra.totals
    assert t.device_sum_s == pytest.approx(t.ops_s + t.unmatched_s, rel=1e-6)
    (optimizer,) = [p for p in ra.results if p.phase == "optimizer"]
    assert optimizer.time_s > 0


def test_a_kernel_for_several_captured_ops_is_one_row(gpu):
    """A gate that the model spells out, and that a library runs as one kernel."""

    class Gate(nn.Module):
        def forward(self, x):
            return x * (1.0 / torch.cosh(x))

    model = nn.Sequential(nn.Linear(64, 64), Gate(), nn.Linear(64, 64)).eval()
    ra = profiled(model, torch.randn(8, 64))
    computed = ra.analysis
    rows = rows_of(computed.ops, roofs_of(GPU))
    assert [join_name(r) for r in rows] == ["addmm", "cosh", "reciprocal", "mul", "mul", "addmm"]
    calls = [
        ProfiledCall(name="linear", time_s=4.0, children=(ProfiledCall(name="addmm", time_s=4.0),)),
        ProfiledCall(
            name="gated", time_s=3.0, children=(ProfiledCall(name="fused_gate", time_s=3.0),)
        ),
        ProfiledCall(name="addmm", time_s=5.0),
    ]
    made = as_run(rows, calls, roofs_of(GPU), device=True)
    assert [r.name for r in made][1] == "1.gated (4 ops)"
    assert made[1].count == 4
    assert made[1].measures.vector_flops == sum(r.measures.vector_flops for r in rows[1:5])
    found = join(calls, [join_name(r) for r in made], device=True)
    assert found.times_s == (4.0, 3.0, 5.0)
    assert found.unmatched == ()


def test_a_profiler_that_sees_no_kernel_is_an_error_and_not_no_time(gpu, monkeypatch):
    monkeypatch.setattr(WithKernels, "empty", True)
    with pytest.raises(DeviceError, match=r"saw no kernel on cuda, .* a step\)\. .*CUPTI"):
        profiled(Net().eval(), torch.randn(2, 3, 32, 32))


def test_above_the_roof_in_tf32_is_said_with_the_setting_that_allows_it(gpu, monkeypatch):
    monkeypatch.setattr(WithKernels, "share", 1e-9)
    ra = profiled(Net().eval(), torch.randn(2, 3, 32, 32))
    conv = next(p for p in ra.results if p.type == "convolution")
    assert conv.bound in {"compute", "memory"}
    assert conv.utilization > 1
    wide = RooflineAnalyzer(nn.Linear(512, 512).eval(), torch.randn(512, 512), GPU)
    monkeypatch.setattr(analyzer, "tf32_allowed", lambda: frozenset({"matmul"}))
    with pytest.warns(UserWarning, match=r"it may have run in TF32 \(torch.set_float32_matmul"):
        wide.profile("cuda", warmup=0, steps=4)
    (row,) = [p for p in wide.results if p.type == "matmul"]
    assert "whose roof is 400 TFLOP/s" in row.reason
    half = nn.Linear(512, 512).eval().bfloat16()
    half_ra = RooflineAnalyzer(half, torch.randn(512, 512).bfloat16(), GPU)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        half_ra.profile("cuda", warmup=0, steps=4)
    assert not any("TF32" in p.reason for p in half_ra.results)


def test_flags_of_tf32_by_version(monkeypatch):
    # In a new process convolutions may, products may not.
    assert precision.tf32_allowed() == {"convolution", "recurrent"}
    torch.set_float32_matmul_precision("high")
    try:
        assert "matmul" in precision.tf32_allowed()
    finally:
        torch.set_float32_matmul_precision("highest")
    old = SimpleNamespace(allow_tf32=True)
    monkeypatch.setattr(torch.backends.cuda, "matmul", old)
    assert precision.tf32_allowed() == {"convolution", "recurrent", "matmul"}


def test_sentences_about_the_device():
    assert busy(None, None, 1.0) == ""
    assert busy(0.97, 0.97, 1.0) == "970 ms busy, 97.0% of end to end"
    assert "add up to 1.2 s: what overlaps counts for each" in busy(0.97, 1.2, 1.0)
    assert "waits for the host: larger" in busy(0.4, 0.4, 1.0)


def test_memory_of_others_is_theirs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device=None: 5000)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert memory.others_on("cuda", [torch.zeros(100)]) == 5000
    mine = SimpleNamespace(
        device=torch.device("cuda:0"), untyped_storage=torch.zeros(1000).untyped_storage
    )
    assert memory.others_on("cuda", [mine]) == 1000
    assert memory.others_on("cuda:1", [mine]) == 5000
    assert memory.others_on("cuda:0", [mine, mine]) == 1000


def test_expected_times_are_those_of_the_published_device_of_that_name(gpu, monkeypatch):
    """Measured roofs are what libraries attain; shares of them would count the loss twice."""
    attained = msgspec.structs.replace(
        GPU,
        id="this-nvidia-h100-80gb-hbm3",
        name="NVIDIA H100 80GB HBM3",
        ceilings=(*GPU.ceilings, ceiling("matrix", "bf16", 780e12)),
    )
    model = nn.Linear(4096, 4096, bias=False).eval().bfloat16()
    workload = capture(model, torch.empty(4096, 4096, dtype=torch.bfloat16), {})
    settings = Settings(warm=True, runtime="pytorch", calibration=packaged())
    plain = analyze(workload, attained, settings)
    made = with_published(plain, workload, settings, attained)
    wanted = analyze(workload, find("h100").device, settings).total.expected_time_s
    assert made.total.expected_time_s.value == wanted.value
    # The whole also waits for the host: one launch, and the start of the run.
    op = made.ops[0].measures.expected_time_s
    assert op.value == pytest.approx(wanted.value - wanted.host_s)
    assert plain.total.expected_time_s.value > wanted.value
    assert made.total.roofline_time_s == plain.total.roofline_time_s
    assert "as on h100-sxm5-80gb with its published peaks" in made.total.expected_time_s.reason
    # Never below the bound that was measured.
    slow = msgspec.structs.replace(attained, ceilings=(ceiling("matrix", "bf16", 1e12),))
    computed = analyze(workload, slow, settings)
    made = with_published(computed, workload, settings, slow)
    assert made.total.expected_time_s.low == computed.total.roofline_time_s
    # Nothing is known of this one, or the user knows better.
    unknown = msgspec.structs.replace(attained, name="Some GPU")
    assert with_published(plain, workload, settings, unknown) is plain
    fitted = msgspec.structs.replace(settings.calibration.sets[0], device=attained.id)
    theirs = dataclasses.replace if dataclasses.is_dataclass(settings) else msgspec.structs.replace
    calibration = msgspec.structs.replace(packaged(), sets=(fitted,))
    own = theirs(settings, calibration=calibration)
    assert with_published(plain, workload, own, attained) is plain
