"""The benchmark for machines with a GPU, run on the processor: all of it but the GPU."""

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from gambrel import RooflineAnalyzer  # noqa: E402
from gambrel.measure import gpu, peaks  # noqa: E402
from gambrel.measure.records import Survey, summarize  # noqa: E402
from tests.measure.gpu.doubles import EFFORT, bench, flags  # noqa: E402

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "gpu_checks.py"


@pytest.fixture
def checks(monkeypatch):
    if not SCRIPT.is_file():
        pytest.skip("the benchmarks are not here")
    import sys

    spec = importlib.util.spec_from_file_location("gpu_checks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_checks", module)
    spec.loader.exec_module(module)
    for name, value in {
        "SIDES": (32, 64),
        "COPY_BYTES": (4096, 8192),
        "place_of": lambda name: "cpu",
        "CASES": (
            module.Case("small encoder", lambda: module.encoder(32, 2, 2), (2, 8, 32), "float32"),
            module.Case("broken", lambda: torch.nn.Linear(3, 3), (2, 4), "float32"),
            module.Case(
                "training",
                lambda: torch.nn.Linear(8, 8),
                (2, 8),
                "float32",
                train=True,
                judged=False,
            ),
        ),
    }.items():
        monkeypatch.setattr(module, name, value)
    return module


@pytest.fixture
def measured(monkeypatch):
    """Ceilings of a "GPU" that is this processor."""
    flags(monkeypatch)
    found, unknown = gpu.measure(bench(), EFFORT)
    survey = Survey(
        device="cpu",
        id="this-nvidia-h200",
        name="NVIDIA H200",
        vendor="NVIDIA",
        category="gpu",
        date="2026-11-21",
        measurements=found,
        unknown=unknown,
        versions={"driver": "580.1"},
        architecture="sm_90",
    )
    return summarize(survey, "fp32", "torch.float32")


def test_everything_in_one_command(checks, measured, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(peaks, "measure_peaks", lambda device, cache: measured)
    assert checks.main(["--out", str(tmp_path), "--steps", "4"]) == 1
    text = (tmp_path / "gpu_nvidia_h200.md").read_text()
    assert capsys.readouterr().out.strip() == text.strip()
    assert "driver 580.1" in text
    # 131,072 FLOP/s by the script's clock are nothing beside a real product.
    assert "| bf16 product | 0.0 TFLOP/s |" in text
    assert "| NO |" in text
    assert "| broken | failed: " in text
    assert "## Expected and measured: small encoder" in text
    assert "Expected: " in text
    assert "| (host) |" in text
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 5
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_ceilings_are_judged_by_their_ratio(checks, measured):
    # A copy of 2 * 4096 bytes in half a second, against a little more and much more.
    table = checks.ceilings(measured.survey, (131072.0 / 0.971, "a @ b"), (16384.0 / 0.969, "neg"))
    assert [row[-1] for row in table.rows] == ["yes", "NO"]
    assert [row[-2] for row in table.rows] == ["97.1%", "96.9%"]


def test_without_a_gpu_it_is_a_sentence_and_two(monkeypatch, capsys, checks):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    from gambrel.measure.gpu import index_of

    monkeypatch.setattr(checks, "place_of", lambda name: index_of(name))
    assert checks.main([]) == 2
    assert "nothing was measured: cannot measure 'cuda'" in capsys.readouterr().err


def test_the_model_is_the_published_one(checks):
    from gambrel.capture.torch import capture

    model = checks.resnet50()
    # Parameters of ResNet-50 as published; its convolutions and last layer are 4.089 GMAC.
    assert sum(p.numel() for p in model.parameters()) == 25_557_032
    import gambrel

    workload = capture(model.eval(), torch.randn(1, 3, 224, 224), {})
    found = gambrel.analyze(workload, "h100")
    assert found.total.matrix_flops == pytest.approx(8.178e9, rel=1e-3)


def test_expected_times_by_kind_add_up(checks, measured):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).eval()
    analyzer = RooflineAnalyzer(model, torch.randn(4, 16), measured)
    with pytest.warns(UserWarning, match="above the roof"):
        analyzer.profile("cpu", warmup=0, steps=2)
    rows = checks.by_kind(analyzer)
    assert {row[0] for row in rows} == {p.type for p in analyzer.results} | {"all"}
    assert rows[-1][:2] == ("all", "2")
    assert checks.why_expected(analyzer).startswith("Expected: ")
    analyzer.results.clear()
    assert checks.by_kind(analyzer) == []


def test_names_of_files(checks):
    assert checks.file_name("NVIDIA GeForce RTX 4090 (Laptop)") == (
        "gpu_nvidia_geforce_rtx_4090_laptop.md"
    )
    longest = checks.longest([("a", 1.0), ("b", 5.0), ("a", 3.0)], 1)
    assert longest == [("b", 5.0)]
