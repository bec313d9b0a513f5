"""``gambrel peaks`` and ``gambrel profile`` from arguments to output."""

import json
import re

import pytest

from gambrel.cli import run
from gambrel.device.files import load_file
from gambrel.measure import cpu
from gambrel.report.builders.peaks import LOW, CeilingRow, compare


@pytest.fixture
def measured(survey, monkeypatch):
    monkeypatch.setattr(cpu, "survey", lambda effort, progress=None, between=None: survey)


def test_peaks_prints_the_compact_view_and_every_figure(measured, survey, capsys):
    assert run(["peaks", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].startswith("Compute: ")
    assert "; ridge point " in out
    for m in survey.measurements:
        assert m.mix in out
    assert "bytes are those that the program reads and writes" in out


def test_peaks_as_json_is_json_and_nothing_else(measured, survey, capsys):
    assert run(["peaks", "--json", "--compare", "epyc-9755"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema_version"] == 2
    assert record["device"] == "cpu"
    assert record["ridge_point"] == pytest.approx(record["peak_flops"] / record["peak_bandwidth"])
    assert len(record["survey"]["measurements"]) == len(survey.measurements)
    assert {row["ceiling"] for row in record["comparison"]} >= {"vector fp32", "DRAM"}


def test_peaks_as_a_page(measured, survey, tmp_path, capsys):
    path = tmp_path / "peaks.html"
    assert run(["peaks", "--html", str(path), "--compare", "epyc-9755"]) == 0
    page = path.read_text(encoding="utf-8")
    assert page.count("<script>") == page.count("script-src 'sha256-") == 1
    data = json.loads(re.search(r'id="gambrel-data">(.*?)</script>', page, re.S)[1])
    assert data["type"] == "gambrel/peaks"
    assert data["views"][0]["charts"]
    assert "epyc-9755" in page
    assert run(["peaks", "--html", "/nowhere/p.html"]) == 2
    assert "there is no folder /nowhere" in capsys.readouterr().err


def test_saved_peaks_are_hardware(measured, tmp_path, capsys):
    path = tmp_path / "lab.toml"
    assert run(["peaks", "--quick", "--save", str(path)]) == 0
    assert load_file(path).id == "lab"
    assert list(tmp_path.glob("*.tmp")) == []
    capsys.readouterr()
    assert run(["analyze", "resnet18", "--hardware", str(path), "-p", "fp32", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hardware"]["id"] == "lab"
    assert run(["analyze", "resnet18", "--hardware", "this", "-p", "fp32"]) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--save", "lab.csv"], "a device file ends in .toml"),
        (["--save", "/nowhere/lab.toml"], "there is no folder /nowhere"),
        (["--save", "/proc/lab.toml"], "cannot write /proc/lab.toml: "),
        (["--html", "/proc/lab.html"], "cannot write /proc/lab.html: "),
        (["--device", "tpu"], "cannot measure 'tpu'"),
        (["--compare", "h10000"], "unknown device 'h10000'"),
        (["--precision", "fp33"], "unknown precision 'fp33'"),
    ],
)
def test_peaks_refuses_in_one_line(measured, arguments, sentence, capsys):
    assert run(["peaks", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_what_cannot_be_written_is_found_before_the_measurement(monkeypatch, capsys):
    monkeypatch.setattr(cpu, "survey", lambda *arguments, **options: pytest.fail("measured"))
    assert run(["peaks", "--save", "/proc/lab.toml"]) == 2
    assert "cannot write /proc/lab.toml" in capsys.readouterr().err


def test_a_ceiling_is_low_below_four_fifths():
    rows = [
        CeilingRow(ceiling="a", unit="B/s", measured=79.0, published=100.0),
        CeilingRow(ceiling="b", unit="B/s", measured=80.0, published=100.0),
        CeilingRow(ceiling="c", unit="B/s", measured=None, published=100.0),
    ]
    assert [r.low for r in rows] == [True, False, False]
    assert [r.ratio for r in rows] == [0.79, LOW, None]


def test_ceilings_that_only_one_has_stay_in_the_comparison():
    from gambrel.device.lookup import find

    cpu_device, gpu_device = find("epyc-9755").device, find("a100").device
    rows = {r.ceiling: r for r in compare(cpu_device, gpu_device)}
    assert rows["matrix bf16"].measured is None
    assert rows["matrix bf16"].published == 312e12
    assert rows["vector fp32"].ratio == pytest.approx(33.5872 / 19.5)


MODEL = """
import torch
def build():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    return model, torch.randn(2, 8)
"""


@pytest.fixture
def target(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "my_model.py"
    path.write_text(MODEL)
    return f"{path}:build"


def test_profile_prints_the_table_and_the_whole(measured, target, capsys):
    assert run(["profile", target, "--device", "cpu", "--steps", "2", "--compare"]) == 0
    out = capsys.readouterr().out
    assert "End to end" in out
    assert "Sum of ops" in out
    assert "×roofline" in out
    assert "measured" in out
    assert "★ whole model" in out  # the chart
    assert max(map(len, out.splitlines())) <= 80


def test_profile_of_training_by_module(measured, target, capsys):
    options = ["--train", "--optimizer", "sgd", "--steps", "1", "--by", "module"]
    assert run(["profile", target, "-d", "a100", *options]) == 0
    out = capsys.readouterr().out
    assert "(model)" in out
    assert "Memory" in out
    assert run(["profile", target, "--by", "layer"]) == 2
    assert "give op or module" in capsys.readouterr().err


def test_calibrate_takes_a_file_or_measures(capsys):
    assert run(["calibrate"]) == 2
    assert "give a FILE of measured kernels, or --measure" in capsys.readouterr().err


def test_profile_as_json_and_files(measured, target, tmp_path, capsys):
    page, record = tmp_path / "p.html", tmp_path / "p.json"
    files = ["--html", str(page), "--save", str(record)]
    assert run(["profile", target, "-d", "a100", "--steps", "1", "--json", *files]) == 0
    out = json.loads(capsys.readouterr().out)
    assert [op["type"] for op in out["ops"]] == ["matmul", "elementwise"]
    assert json.loads(record.read_text())["ops"] == out["ops"]
    assert "<html" in page.read_text(encoding="utf-8")[:200]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["resnet50"], "a profile needs a model with values"),
        (["nowhere.py:build"], "nowhere.py"),
        (["x.py:build", "--html", "/nowhere/p.html"], "there is no folder /nowhere"),
    ],
)
def test_profile_refuses_in_one_line(arguments, sentence, capsys):
    assert run(["profile", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err
    assert said.err.count("\n") == 1
