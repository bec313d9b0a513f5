"""``gambrel check``: the commands as promised, exit codes, JSON."""

import json

import pytest

import gambrel
from gambrel.cli import run


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check resnet18 --hardware h100 --latency 10ms", 0),
        (
            "check yolov8n --hardware jetson-orin-nano --latency 33ms --power 15W --memory 4096MB",
            0,
        ),
        ("check resnet50 --hardware jetson-orin-nano --latency 1us", 1),
        ("check resnet18 --hardware h100", 2),
        ("check resnet18 --hardware h100 --latency 10", 2),
        ("check --latency 10ms", 2),
        ("check yolov8n --hardware hailo-8 --latency 10ms", 3),
    ],
)
def test_exit_codes(command, code, capsys):
    assert run(command.split()) == code
    out, err = capsys.readouterr()
    assert bool(out) == (code != 2)
    assert (len(err.splitlines()) == 1) == (code == 2)
    if code != 2:
        assert run([*command.split(), "--json"]) == code
        verdict = json.loads(capsys.readouterr().out)["verdict"]
        assert {"PASS": 0, "MARGINAL": 0, "FAIL": 1, "UNKNOWN": 3}[verdict] == code


def test_help_has_examples(capsys):
    assert run(["check", "--help"]) == 0
    assert "gambrel check resnet18 --hardware h100 --latency 10ms" in capsys.readouterr().out


def test_a_requirements_file_and_options_that_win(tmp_path, capsys):
    path = tmp_path / "limits.toml"
    path.write_text('model = "resnet18"\nhardware = "h100"\nbatch = 8\n[limits]\nlatency = "1us"\n')
    assert run(["check", "--spec", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["sizes"]["batch"] == 8
    assert run(["check", "--spec", str(path), "--latency", "1s"]) == 0


def test_python_answers_as_the_command_line_does(capsys):
    found = gambrel.check("resnet18", "h100", latency="10ms", batch_size=4)
    run(["check", "resnet18", "--hardware", "h100", "--latency", "10ms", "--batch", "4", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["constraints"][0]["figure"]["value"] == found.constraints[0].figure.value
    assert data["verdict"] == found.verdict.value
