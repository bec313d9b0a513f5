"""Memory over time as text, figure and picture; the energy estimate in words."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import gambrel
from gambrel.analysis.analyze import analyze
from gambrel.analysis.needs import EnergyEstimate
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import Settings
from gambrel.cli import run
from gambrel.errors import InputError, UnknownNameError
from gambrel.report import Options, check_file, load_analysis, write
from gambrel.report import render as render_report
from gambrel.report.answers import Memory
from gambrel.report.builders.figures_of import energy_text, facts
from gambrel.report.page import page_data
from gambrel.report.timeline import plot
from tests.analysis.small import device, perceptron


@pytest.fixture(scope="module")
def small() -> Analysis:
    """Live bytes 144, 176, 152: see test_footprint.py."""
    return analyze(perceptron(), device(), Settings(sizes={"batch": 2}, precision="fp16"))


@pytest.fixture(scope="module")
def resnet() -> Analysis:
    return gambrel.analyze("resnet18", "h100", batch_size=4)


def render(analysis: Analysis, options: Options | None = None) -> str:
    return str(render_report(Memory(analysis=analysis), "table", options))


def picture(analysis: Analysis, name: str) -> bytes:
    drawn = render_report(Memory(analysis=analysis), name)
    return drawn.encode() if isinstance(drawn, str) else drawn


def test_text(small: Analysis) -> None:
    shown = render(small, Options(width=43))
    assert shown.startswith("Memory over ti")
    # 32 columns for three ops: the first is the lowest, the second fills all rows
    lines = shown.splitlines()
    at = next(i for i, line in enumerate(lines) if "│" in line)
    bars = [line.partition("│")[2] for line in lines[at : at + 8]]
    assert all(row[12] == "█" for row in bars)
    assert all(row[:10].strip() == "" for row in bars)
    # the third, 8 of 32 above the lowest: a quarter of 8 rows
    assert [row[25:26] for row in bars] == [""] * 6 + ["█"] * 2
    assert lines[at + 8].startswith("     144 B└")
    assert lines[at + 8].count("▲") == 1
    shown = " ".join(" ".join(lines).split())
    assert "176 B at act aten.relu (forward)" in shown
    assert "weights 96 B" in shown
    assert "activations 80 B" in shown
    assert "Largest of 5 alive at the peak" in shown
    assert "w1" in shown


@pytest.mark.parametrize("width", [40, 80, 200])
def test_fits(resnet: Analysis, width: int) -> None:
    assert max(map(len, render(resnet, Options(width=width)).splitlines())) <= width


def test_one_peak_in_every_report(resnet: Analysis) -> None:
    table = str(render_report(resnet, "table", Options(width=120)))
    line = next(line for line in table.splitlines() if line.startswith("Memory:"))
    assert f"Peak:     {' '.join(line.split()[1:3]).rstrip(',')} at " in render(resnet)


def test_names_from_files_cannot_move_the_cursor(small: Analysis) -> None:
    assert small.workload is not None
    tensors = tuple(
        msgspec.structs.replace(t, name="w\x1b[2J") if t.name else t for t in small.workload.tensors
    )
    hostile = msgspec.structs.replace(
        small, workload=msgspec.structs.replace(small.workload, tensors=tensors)
    )
    assert "\x1b" not in render(hostile)


def test_flat_and_empty() -> None:
    flat = analyze(perceptron(ops=(), outputs=()), device())
    assert "no ops" in render(flat)
    assert plot(flat).data == ()


def test_figure(small: Analysis) -> None:
    figure = small.plot_memory()
    assert [t.name for t in figure.data] == ["weights", "activations"]
    assert list(figure.data[0].y) == [96, 96, 96]
    assert list(figure.data[1].y) == [48, 80, 56]
    assert figure.layout.shapes[0].x0 == 1


@pytest.mark.parametrize(
    ("suffix", "magic"), [("svg", b"<svg xmlns"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_pictures(small: Analysis, tmp_path: Path, suffix: str, magic: bytes) -> None:
    assert picture(small, suffix).startswith(magic)
    assert write(Memory(analysis=small), tmp_path / f"m.{suffix}").read_bytes().startswith(magic)
    assert picture(small, "svg") == picture(small, "svg")


def test_page(small: Analysis) -> None:
    (chart,) = page_data(Memory(analysis=small))["views"][0]["charts"]
    # Weights of 96 bytes all the time, activations above them: 144, 176 and 152 in all.
    assert [c["style"] for c in chart["curves"][:2]] == ["area", "area"]
    assert max(y for c in chart["curves"][:2] for _, y in c["points"]) == 176
    assert chart["notes"][-1]["text"] == "peak 176 B at act aten.relu"


def test_refuses_files(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"suffix '\.gif'"):
        check_file("m.gif", Memory)
    with pytest.raises(InputError, match="there is no folder"):
        check_file(tmp_path / "no" / "m.svg", Memory)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "m.svg"
    command = ["analyze", "resnet18", "--hardware", "h100"]
    assert run([*command, "--memory", "--memory-plot", str(target)]) == 0
    shown = capsys.readouterr()
    assert "Memory over time: resnet18" in shown.out
    assert "alive at the peak" in shown.out
    assert shown.err == f"wrote {target}\n"
    assert target.is_file()
    assert run([*command, "--json", "--memory"]) == 0
    assert json.loads(capsys.readouterr().out)["energy"]["confidence"] == "medium"
    assert run([*command, "--checkpoint", "auto"]) == 2
    assert "no backward pass: checkpointing is for training" in capsys.readouterr().err
    assert run([*command, "--batch", "1,2", "--memory-plot", str(target)]) == 2
    assert "this format shows one analysis" in capsys.readouterr().err
    assert run([*command, "--memory-plot", "m.gif"]) == 2
    assert "file suffix '.gif'" in capsys.readouterr().err


def estimate(**changes: object) -> EnergyEstimate:
    fields = {
        "energy_j": 6.0, "static_j": 3.0, "compute_j": 2.0, "memory_j": 1.0,
        "energy_upper_bound_j": 10.0, "capped": False, "time_s": 0.5, "time_kind": "expected",
        "inferences": 4, "confidence": "low", "reason": "made up",
    }  # fmt: skip
    return EnergyEstimate(**{**fields, **changes})  # type: ignore[arg-type]


def words(analysis: Analysis, **changes: object) -> str:
    found = msgspec.structs.replace(analysis, energy=estimate(**changes))
    return dict(facts(found))["Energy"]


def test_energy_in_words(small: Analysis) -> None:
    assert words(small) == (
        "6 J estimated (static 3 J, arithmetic 2 J, memory 1 J), low confidence; "
        "10 J if it drew its TDP for the expected time; 12 W on average; 1.5 J per inference, "
        "0.667 per J"
    )
    assert "capped by TDP" in words(small, capped=True)
    unknown = words(small, energy_j=None, static_j=None, reason="no published constant for x")
    assert unknown == (
        "unknown (no published constant for x; static unknown, arithmetic 2 J, memory 1 J); "
        "10 J if it drew its TDP for the expected time"
    )
    assert "achieved" not in words(small)
    assert "Energy" not in dict(facts(msgspec.structs.replace(small, energy=None)))
    assert energy_text(estimate()) == words(small)


def test_energy_in_json(resnet: Analysis, tmp_path: Path) -> None:
    path = write(resnet, tmp_path / "a.json")
    data = json.loads(path.read_text())
    assert resnet.energy is not None
    assert data["energy"]["average_power_w"] == resnet.energy.average_power_w
    assert data["energy"]["sources"][0]["title"]
    assert data["units"]["energy_j"] == "J"
    assert load_analysis(path) == resnet
    older = {k: v for k, v in data.items() if k != "energy"}
    assert load_analysis(json.dumps(older).encode()).energy is None


def test_the_picture_names_the_peak_and_the_phases() -> None:
    analysis = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=8, precision="fp16")
    drawn = picture(analysis, "svg").decode()
    assert "peak 90.96 MiB at " in drawn
    assert ">64 MiB<" in drawn  # ticks are binary, as capacities are
    assert "backward" not in drawn
    torch = pytest.importorskip("torch")
    step = gambrel.analyze(
        torch.nn.Linear(8, 8), "a100-sxm4-80gb", torch.empty(2, 8), train=True, precision="fp32"
    )
    assert all(phase in picture(step, "svg").decode() for phase in ("forward", "backward"))
