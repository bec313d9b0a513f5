"""Profiles of real, tiny models: structure, joins and sums; times are never judged."""

import itertools
import json
import re

import msgspec
import pytest

torch = pytest.importorskip("torch")

import gambrel  # noqa: E402
from gambrel import RooflineAnalyzer, RooflinePoint  # noqa: E402
from gambrel.device.lookup import from_peaks  # noqa: E402
from gambrel.errors import CaptureError, DeviceError, InputError  # noqa: E402
from gambrel.measure.records import summarize  # noqa: E402

nn = torch.nn

#: A device so fast that no op lies above its roofs; its kin have expected times.
FAST = msgspec.structs.replace(
    from_peaks(1e18, 1e18, name="fast"), category="datacenter gpu", architecture="sm_90"
)


def profiled(model, sample, peaks=FAST, **options):
    ra = RooflineAnalyzer(model.eval(), sample, peaks)
    ra.profile("cpu", **({"warmup": 1, "steps": 2} | options))
    return ra


def small():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
    )


def names(ra):
    return [(p.module, p.type) for p in ra.results]


def test_the_promised_calls(survey, capsys):
    peaks = summarize(survey, "fp32", "torch.float32")
    model, sample = small().eval(), torch.randn(2, 3, 8, 8)
    ra = RooflineAnalyzer(model, sample, peaks=peaks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *a, **k: None)
        ra.profile(device="cpu", warmup=1, steps=3)
    ra.summary(top=10)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("Measured: ")
    head = next(line for line in lines if line.startswith("name ")).split()
    assert head == ["name", "type", "FLOPs", "bytes", "AI", "GFLOPs/s", "bound", "util%", "time"]
    fig = ra.plot(title="small roofline (CPU)")
    assert fig.layout.title.text.startswith("small roofline (CPU)")
    assert all(isinstance(r, RooflinePoint) for r in ra.results)
    mem_bound = sum(1 for r in ra.results if r.bound == "memory")
    assert 0 <= mem_bound <= len(ra.results)
    assert {r.bound for r in ra.results} <= {"compute", "memory"}


def test_every_op_has_its_work_from_the_capture_and_its_time_from_the_run():
    ra = profiled(small(), torch.randn(2, 3, 8, 8))
    assert names(ra) == [
        ("0", "convolution"),
        ("1", "normalization"),
        ("2", "elementwise"),
        ("4", "matmul"),
    ]
    conv = ra.results[0]
    # 2 * batch 2 * 8 channels out * 3 in * 3x3 kernel * 8x8 places
    assert conv.flops == 2 * 2 * 8 * 3 * 9 * 64
    assert conv.achieved_flop_per_s == pytest.approx(conv.flops / conv.time_s)
    assert conv.utilization == pytest.approx(conv.roofline_time_s / conv.time_s)
    assert all(p.time_s > 0 for p in ra.results)
    assert ra.unmatched == ()


def test_parts_gap_and_instruments_add_up():
    ra = profiled(small(), torch.randn(2, 3, 8, 8), steps=5)
    t = ra.totals
    assert t.ops_s == pytest.approx(sum(p.time_s for p in ra.results))
    assert t.plain_s == pytest.approx(t.ops_s + t.unmatched_s + t.gap_s)
    assert t.instrumented_s == pytest.approx(t.plain_s + t.instrumentation_s)
    assert (t.steps, t.profiled_steps) == (5, 5)
    assert 0 < t.covered <= 1.001


def test_end_to_end_time_is_that_of_the_clock():
    # Each look at the clock is a quarter of a second later than the one before.
    ticks = itertools.count(0, 0.25)
    ra = RooflineAnalyzer(small().eval(), torch.randn(1, 3, 8, 8), FAST, clock=lambda: next(ticks))
    ra.profile("cpu", warmup=0, steps=3)
    assert ra.totals.plain_s == 0.25
    assert ra.totals.instrumented_s == 0.25
    assert ra.totals.plain_spread == 0.0


def test_interrupted_steps_are_left_out_and_the_parts_of_the_others_add_up():
    from gambrel.measure.profile.points import steady

    # The middle half of eight: two of the shortest and two of the longest are left out.
    assert sorted(steady([5.0, 1.0, 9.0, 4.0, 2.0, 6.0, 3.0, 100.0])) == [0, 3, 5, 6]
    assert steady([3.0]) == (0,)
    assert sorted(steady([3.0, 1.0, 2.0])) == [0, 1, 2]


class Mixed(nn.Module):
    """Functional attention, @, F.linear and a layer that is used three times."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        for _ in range(3):
            x = self.layer(x)
        y = nn.functional.scaled_dot_product_attention(x, x, x)
        y = y @ y.transpose(-1, -2)
        return nn.functional.linear(x, self.layer.weight) + y.sum()


def test_functional_ops_are_seen_and_a_shared_module_counts_each_time():
    ra = profiled(Mixed(), torch.randn(2, 4, 16))
    kinds = [p.type for p in ra.results]
    assert [p.module for p in ra.results if p.type == "matmul"].count("layer") == 3
    assert "attention" in kinds
    assert kinds.count("matmul") == 5
    assert all(p.time_s is not None for p in ra.results)


def test_recurrent_layers_and_a_fast_path_are_joined():
    lstm = profiled(nn.LSTM(8, 16), torch.randn(5, 2, 8))
    assert [p.type for p in lstm.results if p.flops] == ["recurrent"]
    encoder = nn.TransformerEncoderLayer(16, 2, batch_first=True)
    enabled = torch.backends.mha.get_fastpath_enabled()
    ra = profiled(encoder, torch.randn(2, 4, 16))
    # Attention returns the layout of its queries, which makes the copy after it unnecessary.
    assert all(p.time_s is not None for p in ra.results)
    assert torch.backends.mha.get_fastpath_enabled() == enabled


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 8)

    def forward(self, ids, scale=None):
        found = self.table(ids)
        return {"out": (found if scale is None else found * scale,)}


def test_integer_samples_and_keyword_calls_work_and_an_embedding_moves_its_rows():
    ids = torch.randint(0, 1000, (2, 5))
    for sample in (ids, (ids,), {"ids": ids}, [ids], {"ids": ids, "scale": torch.ones(8)}):
        ra = profiled(Lookup(), sample)
        row = next(p for p in ra.results if p.type == "embedding")
        # 10 rows of 8 fp32 read and written, and 10 indices of 8 bytes; the table has 32000 bytes.
        assert row.traffic_bytes == 10 * 8 * 4 * 2 + 10 * 8
    ra = RooflineAnalyzer(Lookup(), ids, FAST, kwargs={"scale": torch.ones(8)})
    ra.profile("cpu", warmup=0, steps=1)
    assert [p.type for p in ra.results] == ["embedding", "elementwise"]


def test_above_the_roof_is_a_warning_that_names_causes():
    slow = from_peaks(1e3, 1e3, name="slow")
    ra = RooflineAnalyzer(small().eval(), torch.randn(2, 3, 8, 8), slow)
    with pytest.warns(UserWarning, match=r"4 of 4 ops lie above the roof, most .* peak may be"):
        ra.profile("cpu", warmup=1, steps=1)
    assert all(p.utilization > 1 for p in ra.results)
    assert all("above the roof" in p.reason for p in ra.results)


def test_in_cache_is_a_cause_where_the_data_fit(survey):
    device = summarize(survey, "fp32", "torch.float32").to_device()
    if device.level("L2") is None:
        pytest.skip("this system does not say how large its caches are")
    import msgspec

    slow = msgspec.structs.replace(
        device,
        memory=tuple(msgspec.structs.replace(m, byte_per_s=1e3) for m in device.memory),
    )
    with pytest.warns(UserWarning, match="ops lie above the roof"):
        ra = profiled(nn.ReLU(), torch.randn(64), peaks=slow)
    assert "fit in L1" in ra.results[0].reason


def test_small_problems_far_below_the_roof_say_why():
    ra = profiled(nn.ReLU(), torch.randn(4), steps=9)
    assert ra.results[0].utilization < 0.2
    assert ra.results[0].reason


def test_running_statistics_training_flag_and_place_are_as_they_were():
    model = small().train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    ra = RooflineAnalyzer(model, torch.randn(2, 3, 8, 8), FAST)
    ra.profile("cpu", warmup=1, steps=1)
    assert model.training
    assert torch.is_grad_enabled()
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_json_has_units_totals_and_one_entry_an_op(tmp_path):
    ra = profiled(small(), torch.randn(2, 3, 8, 8))
    ra.save(tmp_path / "p.json")
    record = json.loads((tmp_path / "p.json").read_text())
    assert record["schema_version"] == 2
    assert record["units"]["time_s"] == "s"
    assert len(record["ops"]) == len(ra.results)
    assert record["totals"]["gap_s"] == pytest.approx(ra.totals.gap_s)
    assert list(tmp_path.iterdir()) == [tmp_path / "p.json"]


def test_the_chart_has_the_roofs_and_the_measured_points():
    ra = profiled(small(), torch.randn(2, 3, 8, 8))
    fig = ra.plot()
    markers = [t for t in fig.data if t.mode == "markers"]
    assert sum(len(t.x) for t in markers) == 4 + 1  # the ops, and the star of the whole
    assert any(t.mode == "lines" for t in fig.data)
    assert "measured" in fig.layout.title.text
    low, high = fig.layout.yaxis.range
    assert all(10**low <= y <= 10**high for t in markers for y in t.y)


def test_measured_beside_bound(capsys):
    ra = profiled(small(), torch.randn(2, 3, 8, 8))
    compared = ra.compare(top=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Measured beside expected"
    head = ["name", "measured", "expected", "roofline", "×expected", "×roofline"]
    assert lines[1].split() == head
    # The rule, two ops, how many more there are, and perhaps the sums.
    assert lines[5].startswith(f"{len(ra.results) - 2} more")
    whole = ra.compare(top=len(ra.results))
    assert str(whole) == capsys.readouterr().out.rstrip("\n")
    known = [p for p in ra.results if p.expected_time_s and p.roofline_time_s]
    assert compared.measured_s == pytest.approx(sum(p.time_s for p in known))
    assert compared.expected_s == pytest.approx(sum(p.expected_time_s for p in known))
    assert compared.roofline_s == pytest.approx(sum(p.roofline_time_s for p in known))


class Broken(nn.Module):
    def forward(self, x):
        raise RuntimeError("no such luck")


class Values(nn.Module):
    """Fails only on real values."""

    def forward(self, x):
        if x.device.type != "meta":
            raise RuntimeError("only in thought")
        return x + 1


def test_errors_are_sentences():
    sample = torch.randn(1)
    with pytest.raises(InputError, match="cannot profile a str"):
        RooflineAnalyzer("resnet50", sample)
    with pytest.raises(CaptureError, match="no such luck"):
        profiled(Broken(), sample)
    with pytest.raises(InputError, match="Values fails on cpu: RuntimeError: only in thought"):
        profiled(Values(), sample)
    with pytest.raises(InputError, match="steps=0: give a whole number of at least 1"):
        profiled(nn.ReLU(), sample, steps=0)
    with pytest.raises(InputError, match="cannot profile on 'tpu'"):
        RooflineAnalyzer(nn.ReLU(), sample, FAST).profile("tpu")
    with pytest.raises(InputError, match="nothing was profiled yet"):
        RooflineAnalyzer(nn.ReLU(), sample, FAST).summary()
    with pytest.raises(InputError, match="meta device and has no values"):
        profiled(nn.Linear(2, 2, device="meta"), torch.randn(1, 2))


def test_a_gpu_that_is_not_there(survey):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    ra = RooflineAnalyzer(nn.ReLU(), torch.randn(1), FAST)
    with pytest.raises(DeviceError, match="finds no GPU here"):
        ra.profile("cuda")


def test_peaks_of_another_kind_of_device_are_refused(survey):
    import msgspec

    peaks = summarize(survey, "fp32", "torch.float32")
    other = msgspec.structs.replace(peaks, device="cuda:0")
    with pytest.raises(DeviceError, match="the peaks are those of cuda:0"):
        RooflineAnalyzer(nn.ReLU(), torch.randn(1), other).profile("cpu")


def test_grad_mode_and_fast_path_survive_an_interruption():
    class Interrupted(nn.Module):
        def forward(self, x):
            if x.device.type != "meta":
                raise KeyboardInterrupt
            return x + 1

    enabled = torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(KeyboardInterrupt):
        profiled(Interrupted(), torch.randn(1))
    assert torch.is_grad_enabled()
    assert torch.backends.mha.get_fastpath_enabled() == enabled


def test_the_public_names():
    assert gambrel.RooflineAnalyzer is RooflineAnalyzer
    assert re.match(r"RooflinePoint\(name=", repr(profiled(nn.ReLU(), torch.randn(4)).results[0]))


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (AttributeError("no such layer"), InputError, "AttributeError: no such layer"),
        (ZeroDivisionError("by zero"), InputError, "ZeroDivisionError: by zero"),
        (AssertionError(), InputError, ": AssertionError"),
        (MemoryError("all of it"), DeviceError, "cpu has too little memory: all of it"),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: "
                "can't allocate memory: you tried to allocate 9 bytes."
            ),
            DeviceError,
            "cpu has too little memory: you tried to allocate 9 bytes.",
        ),
    ],
)
def test_whatever_a_forward_raises_is_one_sentence(error, kind, said):
    class Later(nn.Module):
        """Is captured, and fails when it runs."""

        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls > 2:
                raise error
            return self.inner(x)

    with pytest.raises(kind, match=re.escape(said)):
        profiled(Later(), torch.randn(2, 4), warmup=5)


def test_random_numbers_go_on_as_if_nothing_had_run():
    model, sample = nn.Sequential(nn.Linear(4, 4), nn.Dropout()), torch.randn(2, 4)
    before = torch.random.get_rng_state()
    RooflineAnalyzer(model.train(), sample, FAST).profile("cpu", warmup=1, steps=2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert model.training
