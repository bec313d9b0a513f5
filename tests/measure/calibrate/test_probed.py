"""Expected times from measured kernels: interpolation, classes, storage, and the analysis."""

import math

import pytest

torch = pytest.importorskip("torch")

import gambrel  # noqa: E402
from gambrel.analysis.estimate import classes, probed, store  # noqa: E402
from gambrel.analysis.evaluate import Evaluator  # noqa: E402
from gambrel.capture.torch import capture  # noqa: E402
from gambrel.device.lookup import from_peaks  # noqa: E402
from gambrel.errors import FileFormatError, InputError  # noqa: E402
from gambrel.measure.calibrate import fit, fit_rows, measure_kernels, rows_of_profile  # noqa: E402
from gambrel.measure.calibrate.cases import Case, cases  # noqa: E402
from gambrel.ops import Conventions  # noqa: E402

nn = torch.nn
DEVICE = from_peaks(1e12, 1e11, name="box")


@pytest.fixture
def no_fresh_pages(monkeypatch):
    """The first touch of memory takes seconds to measure, and is none of some tests' business."""
    monkeypatch.setattr(fit, "fresh_rows", lambda *_: [])


def only_op(module, *inputs):
    workload = capture(module.eval(), inputs)
    costs = Evaluator(workload, {}, {}, Conventions()).costs()
    return next((v, c) for op, v, c in costs if op.kind != "view" and c is not None)


def test_classes_are_what_one_library_kernel_serves():
    image = torch.zeros(1, 8, 4, 4)
    expected = {
        "matmul:fp32": (nn.Linear(16, 32), torch.zeros(2, 16)),
        "matmul.odd:fp32": (nn.Linear(16, 33), torch.zeros(2, 16)),
        "convolution.1x1:fp32": (nn.Conv2d(8, 8, 1), image),
        "convolution.1x1.strided:fp32": (nn.Conv2d(8, 8, 1, stride=2), image),
        "convolution.kxk:fp32": (nn.Conv2d(8, 8, 3), image),
        "convolution.depthwise:fp32": (nn.Conv2d(8, 8, 3, groups=8), image),
        "convolution.grouped:fp32": (nn.Conv2d(8, 8, 3, groups=2), image),
        "elementwise.relu:fp32": (nn.ReLU(), torch.zeros(4)),
        "elementwise.relu!:fp32": (nn.ReLU(inplace=True), torch.zeros(4)),
        "normalization.layer_norm:fp32": (nn.LayerNorm(4), torch.zeros(2, 4)),
    }
    for key, (module, x) in expected.items():
        assert classes.key_of(only_op(module, x)[0]) == key
    assert classes.key_of(
        only_op(nn.Linear(16, 16).bfloat16(), torch.zeros(2, 16).bfloat16())[0]
    ) == ("matmul:bf16")


def test_an_exact_power_law_is_recovered_between_its_points():
    # Everything takes ten times its bound, and the bound is two nanoseconds an element.
    rows = [((float(n),), 2e-9 * 2**n, 2e-8 * 2**n) for n in range(10, 24, 2)]
    found = probed.fit("box", "elementwise.add:fp32", rows)
    for n in (11, 15, 21):
        assert probed.predict(found, (float(n),), 2e-9 * 2**n) == pytest.approx(
            2e-8 * 2**n, rel=0.35
        )
    # At a point itself the near ones agree.
    assert probed.predict(found, (16.0,), 2e-9 * 2**16) == pytest.approx(2e-8 * 2**16, rel=0.15)
    assert found.low <= 1 <= found.high


def test_far_away_the_efficiency_stays_near_what_was_measured():
    rows = [((float(n),), 1e-9 * 2**n, 4e-9 * 2**n * (1 + 0.1 * n)) for n in range(10, 20, 2)]
    found = probed.fit("box", "k", rows)
    far = probed.predict(found, (60.0,), 1.0)
    most = max(s / (b + found.start_s) for _, b, s in rows)
    assert far <= (1.0 + found.start_s) * most * math.exp(0.5) * 1.0001


def test_a_disturbed_measurement_hardly_counts():
    rows = [((n / 2,), 1e-6 * 2 ** (n / 2), 5e-6 * 2 ** (n / 2)) for n in range(20, 32)]
    quiet = probed.predict(probed.fit("box", "k", rows), (12.75,), 1e-6 * 2**12.75)
    rows[5] = (rows[5][0], rows[5][1], 60 * rows[5][1])  # sixty times its bound, not five
    busy = probed.predict(probed.fit("box", "k", rows), (12.75,), 1e-6 * 2**12.75)
    assert busy == pytest.approx(quiet, rel=0.15)


def test_confidence_follows_from_spread_and_points():
    made = probed.fit("box", "k", [((float(n),), 1.0, 2.0) for n in range(8)])
    import msgspec

    assert probed.confidence_of(made, exact=True) == "high"
    assert probed.confidence_of(made, exact=False) == "medium"
    wide = msgspec.structs.replace(made, low=0.5, high=2.0)
    assert probed.confidence_of(wide, exact=True) == "medium"
    assert probed.confidence_of(msgspec.structs.replace(made, low=0.1), exact=True) == "medium"
    worst = msgspec.structs.replace(made, low=0.1, high=1.5)
    assert probed.confidence_of(worst, exact=True) == "low"


def test_runs_that_differ_are_a_warning(no_fresh_pages):
    calls = []

    def clock():
        """Every other run of a layer of four kernels takes nine seconds instead of one."""
        calls.append(1)
        index = (len(calls) - 1) // 2
        return 100.0 * len(calls) + (0 if len(calls) % 2 else (9 if index // 4 % 2 else 1) - 100)

    def some(dtype):
        for n in (4, 8, 16, 32):
            yield Case(run=torch.relu, inputs=(torch.rand(n),))

    with pytest.warns(UserWarning, match="4 of 4 kernels differ by more than 50% between runs"):
        measure_kernels(DEVICE, ("fp32",), clock=clock, chosen=some, written=lambda d: ())


def test_kernels_are_timed_by_the_clock_given(no_fresh_pages):
    ticks = iter(range(10_000_000))

    def some(dtype):
        for n in (4, 8, 16, 32):
            x = torch.rand(n, 16 * n).to(dtype)
            weights = ((16 * n, 16 * n),)
            yield Case(run=torch.nn.functional.linear, inputs=(x,), weights=weights)
        yield Case(run=lambda a: a.exp().sum(), inputs=(torch.rand(4),))  # two ops are no kernel
        yield Case(run=lambda a: torch.linalg.cholesky(-a), inputs=(torch.eye(3),))  # fails

    found = measure_kernels(
        DEVICE, ("fp32",), clock=lambda: next(ticks), chosen=some, written=lambda d: ()
    )
    assert [(p.key, p.points, p.seconds) for p in found] == [("matmul:fp32", 4, (1, 1, 1, 1))]
    assert found[0].device == DEVICE.name
    assert "threads" in found[0].notes


def test_cases_cover_what_models_are_made_of():
    keys = set()
    for i, case in enumerate(cases(torch.float32)):
        if i % 7 == 0 and sum(t.numel() for t in case.inputs) < 1 << 17:
            weights = tuple(torch.zeros(shape) for shape in case.weights)
            workload = capture(case.run, (*case.inputs, *weights), source=False)
            keys.update(op.kind for op in workload.ops if op.kind != "view")
    assert {"matmul", "convolution", "elementwise"} <= keys


def test_formats_that_cannot_be_timed_are_refused():
    with pytest.raises(InputError, match="cannot time kernels in fp8; choose of fp32, bf16, fp16"):
        measure_kernels(DEVICE, ("fp8",))


def test_an_analysis_of_that_device_uses_what_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "folder", lambda: tmp_path)
    net, x = nn.Linear(64, 64).eval(), torch.zeros(8, 64)
    view, cost = only_op(net, x)
    features = classes.features_of(view, cost)
    rows = [
        ("matmul:fp32", tuple(f + d for f in features), 1e-6, 3e-3 * (1 + d / 100))
        for d in (-1.0, 0.0, 1.0, 2.0)
    ]
    assert gambrel.analyze(net, DEVICE, x).expected_time_s is None  # nothing of it is known
    path = store.save_probed("lab", fit_rows(DEVICE, rows))
    assert path == tmp_path / "machines" / "lab.json"
    after = gambrel.analyze(net, DEVICE, x).expected_time_s
    assert after.value == pytest.approx(3e-3, rel=0.2)
    assert "measured on this machine" in after.reason
    other = from_peaks(1e12, 1e11, name="another")
    assert gambrel.analyze(net, other, x).expected_time_s is None
    path.write_text("[{")
    with pytest.raises(FileFormatError, match="cannot use the calibration"):
        store.load()


def test_too_few_points_are_no_class():
    row = ("matmul:fp32", (1.0, 1.0, 1.0, 1.0), 1e-6, 1e-5)
    assert fit_rows(DEVICE, [row] * 3) == ()
    with pytest.raises(InputError, match="is no name for a calibration"):
        store.save_probed("../x", ())


def test_a_profile_gives_rows_too():
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).eval()
    ra = gambrel.RooflineAnalyzer(net, torch.randn(2, 16), from_peaks(1e18, 1e18, name="f"))
    ra.profile("cpu", warmup=0, steps=1)
    rows = rows_of_profile(ra.analysis.workload, ra.results, ra.analysis.hardware)
    assert [r[0] for r in rows] == ["matmul:fp32", "elementwise.relu:fp32", "matmul:fp32"]
    assert [r[3] for r in rows] == [p.time_s for p in ra.results]
    with pytest.raises(InputError, match="only the profile of an eager forward pass"):
        rows_of_profile(ra.analysis.workload, ra.results[:1], ra.analysis.hardware)


def test_a_profile_calibrates_later_analyses(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "folder", lambda: tmp_path)
    net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4))).eval()
    device = from_peaks(1e15, 1e15, name="box")
    ra = gambrel.RooflineAnalyzer(net, torch.randn(2, 8), device)
    with pytest.raises(InputError, match="nothing was profiled yet"):
        ra.calibrate()
    ra.profile("cpu", warmup=1, steps=3)
    path = ra.calibrate("mine")
    assert path == tmp_path / "machines" / "mine.json"
    found = gambrel.analyze(net, device, torch.randn(2, 8)).expected_time_s
    assert "measured on this machine" in found.reason
    times = [p.time_s for p in ra.results]
    # Four equal ops: each is expected between the fastest and the slowest that was seen.
    assert 4 * min(times) * 0.6 <= found.value <= 4 * max(times) * 1.7
    ra.profile("cpu", warmup=0, steps=1, train=True)
    with pytest.raises(InputError, match="only the profile of an eager forward pass"):
        ra.calibrate()
