"""What each command prints when all is well: help, version, tables, pure JSON, files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import gambrel as package
from gambrel.cli.app import build
from gambrel.device.model import Device
from tests.cli.conftest import Gambrel


@pytest.mark.parametrize("what", ["models", "hardware", "runtimes"])
def test_lists_that_another_program_reads_are_whole(what, gambrel, monkeypatch):
    """Piped, no cell is cut; a width that is asked for, or a terminal's, is kept."""
    whole = gambrel(what, "list").out
    assert "…" not in whole
    assert max(map(len, whole.splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    narrow = gambrel(what, "list").out
    assert max(map(len, narrow.splitlines())) <= 80
    assert len(narrow) < len(whole)


def _tree(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command and group below."""
    found = []
    context = click.Context(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        below = command.get_command(context, name)
        found += [(*path, name), *_tree(below, (*path, name))]
    return found


COMMANDS = _tree(build())
RESNET = ("analyze", "resnet50", "--hardware", "a100-sxm4-80gb")


def test_version(gambrel: Gambrel) -> None:
    done = gambrel("--version")
    assert (done.code, done.out, done.err) == (0, f"gambrel {package.__version__}\n", "")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", [(), *COMMANDS])
def test_help_has_an_example(gambrel: Gambrel, command: tuple[str, ...], flag: str) -> None:
    done = gambrel(*command, flag)
    assert (done.code, done.err) == (0, "")
    example = " ".join(("gambrel", *command)) if command else "gambrel analyze"
    usage, rest = done.out.split("Usage:")[1].split("\n", 1)
    assert example.split()[0] in usage
    assert re.search(rf'{example} [\w"<>-]', rest)


def test_help_lists_every_command(gambrel: Gambrel) -> None:
    some = {("analyze",), ("hardware", "list"), ("runtimes", "show"), ("models", "list")}
    assert some <= set(COMMANDS)
    shown = gambrel("--help").out
    for command in COMMANDS:
        assert f" {command[0]} " in shown


def test_table(gambrel: Gambrel) -> None:
    done = gambrel(*RESNET)
    assert (done.code, done.err) == (0, "")
    head, *lines = done.out.splitlines()
    assert head.startswith("resnet50, batch 1, image 224, fp16 on NVIDIA A100 SXM4 80GB ")
    leads = [line.split(":")[0] for line in lines[:6] if line[:1].isupper()]
    assert leads == ["Expected", "Limited by", "Memory"]
    assert max(map(len, done.out.splitlines())) <= 80


def test_json_of_one(gambrel: Gambrel) -> None:
    done = gambrel(*RESNET, "--json", "--precision", "fp16")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert data["schema_version"] == 2
    assert data["runtime"] == "pytorch"
    assert data["units"]["flops"] == "FLOP"
    # 312e12 / 2.039e12 = 153.0; convolutions and fc of ResNet-50: 8.178 GFLOP.
    assert data["total"]["ridge_point"] == pytest.approx(153.0, abs=0.05)
    assert data["total"]["flops"] == pytest.approx(8.178e9, rel=1e-4)
    assert data["total"]["bound"] == "memory"
    promised = {"flops", "traffic_bytes", "arithmetic_intensity", "ridge_point", "bound"}
    promised |= {"roofline_time_s", "sol_time_s", "sol_bound", "sol_arithmetic_intensity"}
    promised |= {"expected_time_s", "expected_low_s", "expected_high_s", "confidence"}
    promised |= {"limited_by", "coverage", "coverage_time"}
    assert promised <= set(data["total"])
    assert all(promised <= set(op) for op in data["ops"])
    assert data["total"]["expected_low_s"] <= data["total"]["expected_time_s"]


def test_json_of_several_has_one_head(gambrel: Gambrel) -> None:
    done = gambrel(*RESNET, "--json", "--batch", "1,8")
    assert (done.code, done.err) == (0, "")
    one, eight = json.loads(done.out)["analyses"]
    assert eight["total"]["flops"] == 8 * one["total"]["flops"]


def test_json_leaves_other_output_out(gambrel: Gambrel) -> None:
    done = gambrel(*RESNET, "--json", "--roofline", "--recommend", "-o", "a.csv")
    assert json.loads(done.out)["advice"]["recommendations"]
    assert done.err == "wrote a.csv\n"
    assert Path("a.csv").read_text().startswith("model,hardware,precision,")


def test_json_of_code_that_prints(gambrel: Gambrel) -> None:
    pytest.importorskip("torch")
    Path("net.py").write_text(
        "import torch\nprint('loading')\n"
        "def build():\n    print('building')\n"
        "    return torch.nn.Linear(3, 5), torch.ones(7, 3)\n"
    )
    done = gambrel("analyze", "net.py:build", "--hardware", "a100-sxm4-80gb", "--json")
    # 2 * 7 * 3 * 5 = 210
    assert json.loads(done.out)["total"]["matrix_flops"] == 210
    assert done.err.split() == ["loading", "building"]


def test_batches_get_a_line_each(gambrel: Gambrel) -> None:
    lines = gambrel(*RESNET, "--batch", "1,8,64").out.splitlines()
    rows = [line.split()[:4] for line in lines if line.startswith("resnet50  batch")]
    assert rows == [["resnet50", "batch", f"{batch},", "image"] for batch in (1, 8, 64)]


def test_roofline_and_recommendations(gambrel: Gambrel) -> None:
    shown = gambrel(*RESNET, "--roofline", "--recommend", "--top", "1").out
    assert "★ whole model" in shown
    assert "\nRecommendations\n" in shown
    # One row for conv1 alone or for a repeated op; the rest is summed.
    assert re.search(r"\d+ more take", shown)


def test_own_peaks(gambrel: Gambrel) -> None:
    done = gambrel("analyze", "resnet50", "--peak", "100T", "--bandwidth", "1T", "--json")
    assert json.loads(done.out)["total"]["ridge_point"] == 100.0


def test_files(gambrel: Gambrel) -> None:
    files = ["a.json", "a.csv", "a.md", "a.svg", "a.txt"]
    done = gambrel(*RESNET, "--html", "a.html", *(w for f in files for w in ("-o", f)))
    assert (done.code, done.err) == (0, "".join(f"wrote {f}\n" for f in ["a.html", *files]))
    assert sorted(p.name for p in Path().iterdir()) == sorted(["a.html", *files])
    assert package.load("a.json").model.name == "resnet50"
    assert Path("a.html").read_text().lower().startswith("<!doctype html>")


def test_hardware_list(gambrel: Gambrel) -> None:
    rows = json.loads(gambrel("hardware", "list", "--json").out)["devices"]
    assert len(rows) >= 103
    found = next(row for row in rows if row["id"] == "a100-sxm4-80gb")
    assert (found["peak_flop_per_s"], found["peak_byte_per_s"]) == (312e12, 2.039e12)
    assert len(gambrel("hardware", "list").out.splitlines()) >= len(rows)


def test_hardware_list_filters_and_sorts(gambrel: Gambrel) -> None:
    words = ("hardware", "list", "--category", "edge", "--max-tdp", "10W", "--sort", "tdp")
    rows = json.loads(gambrel(*words, "--json").out)["devices"]
    watts = [row["tdp_w"] for row in rows]
    assert watts
    assert max(watts) <= 10
    assert watts == sorted(watts, reverse=True)
    turned = json.loads(gambrel(*words, "--reverse", "--json").out)["devices"]
    assert [row["tdp_w"] for row in turned] == watts[::-1]
    none = gambrel("hardware", "list", "no such thing")
    assert (none.code, none.out) == (
        *(0, "No device matches. Run 'gambrel hardware list' to see all.\n"),
    )


def test_hardware_show(gambrel: Gambrel) -> None:
    done = gambrel("hardware", "show", "h100-sxm5-80gb", "--json")
    assert msgspec.json.decode(done.out, type=Device).id == "h100-sxm5-80gb"
    shown = gambrel("hardware", "show", "h100").out
    assert shown.startswith("NVIDIA H100 SXM5 80GB (h100-sxm5-80gb)\n")
    assert "h100 is ambiguous: using h100-sxm5-80gb" in " ".join(shown.split())


def test_models_list(gambrel: Gambrel) -> None:
    rows = json.loads(gambrel("models", "list", "--json").out)["models"]
    assert len(rows) >= 40
    # 11,689,512 as torchvision publishes it
    assert next(r for r in rows if r["name"] == "resnet18")["parameters"] == 11_689_512
    only = json.loads(gambrel("models", "list", "llama", "--json").out)["models"]
    assert only
    assert all("llama" in " ".join((r["name"], *r["aliases"])).lower() for r in only)
    assert gambrel("models", "list", "no such thing").out.startswith("No model matches.")


@pytest.mark.parametrize("words", [RESNET, ("hardware", "show", "h100"), ("models", "list")])
def test_colour_only_where_asked(
    gambrel: Gambrel, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = gambrel(*words).out
    assert "\x1b" not in plain  # captured, so no terminal
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in gambrel(*words).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert gambrel(*words).out == plain


def test_width_of_the_terminal(gambrel: Gambrel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert max(map(len, gambrel(*RESNET).out.splitlines())) == 200
