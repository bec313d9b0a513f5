"""``gambrel check``: the commands as promised, exit codes, JSON."""

import contextlib
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gambrel
from gambrel.cli import run
from gambrel.device.catalog import list_devices


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check resnet18 --hardware h100 --latency 10ms", 0),
        (
            "check yolov8n --hardware jetson-orin-nano --latency 33ms --power 15W --memory 4096MB",
            0,
        ),
        ("check resnet50 --hardware jetson-orin-nano --latency 1us", 1),
        ("check vgg16 --hardware jetson-orin-nano --latency 10s --batch 2048", 1),  # does not fit
        ("check resnet18 --hardware h100", 2),
        ("check resnet18 --hardware h100 --latency 10", 2),
        ("check --latency 10ms", 2),
        ("check yolov8n --hardware coral-edge-tpu --latency 33ms", 3),
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


def test_a_limit_that_is_far_away_is_a_factor(capsys):
    """What is 44,806 times too slow is said so, not as -4480542 %; JSON keeps the share."""
    command = ["check", "resnet50", "-d", "coral-edge-tpu", "--latency", "1us"]
    assert run(command) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "times too slow" in text
    assert "× beyond" in text
    assert run([*command, "--json"]) == 1
    (latency,) = json.loads(capsys.readouterr().out)["constraints"]
    assert f"{1 - latency['headroom']:,.0f} times too slow" in text
    assert run([*command[:-2], "--power", "0.5W", "--memory", "1MB"]) == 1
    assert "times too much" in capsys.readouterr().out


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


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["resnet18", "yolov8n", "bert-base", "llama-3-8b-decode", "mobilenet-v2"]),
    st.sampled_from([d.id for d in list_devices()]),
    st.sampled_from(["latency", "throughput", "power", "energy", "memory"]),
    st.floats(-4, 4),
)
def test_verdict_exit_code_and_json_agree_over_zoo_and_catalog(model, device, metric, size):
    units = {"latency": "s", "throughput": "/s", "power": "W", "energy": "J", "memory": "MB"}
    limit = f"{10**size:.9f}{units[metric]}"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run(["check", model, "--hardware", device, f"--{metric}", limit, "--json"])
    data = json.loads(out.getvalue())
    assert {"PASS": 0, "MARGINAL": 0, "FAIL": 1, "UNKNOWN": 3}[data["verdict"]] == code
    verdicts = [c["verdict"] for c in data["constraints"]]
    assert data["verdict"] in verdicts
    for c in data["constraints"]:
        figure = c["figure"]
        if c["verdict"] in {"PASS", "MARGINAL"}:
            assert figure["value"] is not None or figure["worst"] is not None
        if c["verdict"] == "UNKNOWN":
            assert figure["value"] is None or figure["high"] is None
    tried = {fix["verdict"] for fix in data["fixes"]}
    assert not (tried and code != 1)
