"""``gambrel compare`` and ``gambrel select``: the commands as promised."""

import json

import pytest

import gambrel
from gambrel.cli import run
from gambrel.device.catalog import list_devices
from gambrel.device.modes import with_modes

COMPARE = (
    "compare yolov8n --hardware jetson-orin-nano,jetson-orin-agx,coral-edge-tpu "
    "--metric latency,power,efficiency"
)
SELECT = "select yolov8n --latency 33ms --power 10W"


def told(command, capsys):
    assert run(command.split()) == 0
    return capsys.readouterr().out


def test_compare(capsys):
    text = told(COMPARE, capsys)
    assert text.index("jetson-agx-orin-64gb") < text.index("jetson-orin-nano-8gb")
    data = json.loads(told(f"{COMPARE} --json", capsys))
    assert data["metrics"] == ["latency", "power", "efficiency"]
    assert data["units"]["latency"] == "s"
    assert data["rows"][-1]["hardware"] == "coral-edge-tpu"
    assert data["rows"][-1]["figures"]["latency"]["value"] is None


def test_compare_takes_models_batches_and_precisions(capsys):
    command = "compare resnet18,resnet50 --hardware l4,t4 --batch 1,8 --precision fp16,int8 --json"
    rows = json.loads(told(command, capsys))["rows"]
    assert len(rows) == 2 * 2 * 2 * 2
    points = {(r["model"], r["hardware"], r["sizes"]["batch"], r["precision"]) for r in rows}
    assert len(points) == 16


def test_select(capsys):
    assert "Meets all limits" in told(SELECT, capsys)
    data = json.loads(told(f"{SELECT} --json", capsys))
    assert data["limits"] == [
        {"metric": "latency", "value": 0.033},
        {"metric": "power", "value": 10.0},
    ]
    for group in ("meets", "unknown", "near"):
        for c in data[group]:
            assert c["row"]["hardware"]
    groups = [data[g] for g in ("meets", "unknown", "near", "over_power", "failed")]
    # Power is limited, so power modes are tried as well.
    assert sum(map(len, groups)) == len(with_modes(list_devices()))
    best = [c["row"]["hardware"] for c in data["meets"]]
    assert {"jetson-orin-nano-8gb@7W", "jetson-orin-nx-16gb@10W"} <= set(best)
    assert all(c["verdict"] in {"PASS", "MARGINAL"} for c in data["meets"])


def test_select_shows_few_of_what_is_not_known(capsys):
    short, whole = told(SELECT, capsys), told(f"{SELECT} --verbose", capsys)
    assert "more; --verbose shows all." in short
    assert "only the thermal design power is known" in " ".join(short.split())
    assert len(short.splitlines()) < 35 < len(whole.splitlines())
    assert "raspberry-pi-5" in json.dumps(json.loads(told(f"{SELECT} --json", capsys))["failed"])


def test_prices(capsys):
    command = "select yolov8n --latency 33ms --max-price 300 --price jetson-orin-nano=249 --json"
    data = json.loads(told(command, capsys))
    assert [c["row"]["hardware"] for c in data["meets"]] == ["jetson-orin-nano-8gb"]
    assert data["sort"] == "price"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("select yolov8n", "give at least one limit"),
        ("select yolov8n --latency 33", "has no unit"),
        ("select yolov8n --latency 33ms --sort speed", "unknown metric 'speed'"),
        ("select yolov8n --latency 33ms --price l4", "write DEVICE=NUMBER"),
        ("select yolov8n --latency 33ms --price l4=cheap", "write a number"),
        ("compare yolov8n --hardware ,", "is not a list of values"),
        ("compare yolov8n --hardware l4 --metric speed", "unknown metric 'speed'"),
        ("compare yolov8n --hardware l5000", "unknown device"),
    ],
)
def test_wrong_use_is_one_sentence(command, message, capsys):
    assert run(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["compare", "select"])
def test_help_has_examples(command, capsys):
    assert run([command, "--help"]) == 0
    assert f"gambrel {command} yolov8n" in capsys.readouterr().out


def test_python_answers_as_the_command_line_does(capsys):
    data = json.loads(told(f"{COMPARE} --json", capsys))
    found = gambrel.compare(
        "yolov8n",
        ["jetson-orin-nano", "jetson-orin-agx", "coral-edge-tpu"],
        metric=["latency", "power", "efficiency"],
    )
    assert [r.hardware for r in found.rows] == [r["hardware"] for r in data["rows"]]


def test_what_does_not_fit_is_never_the_best(capfd):
    """FLUX takes 35 GB: an L40S holds it, a card of 24 or 32 GB does not."""
    assert run(["compare", "flux-dev", "--hardware", "rtx-5090,rtx-4090"]) == 0
    out = capfd.readouterr().out
    assert "None of them fits in the memory of its device." in out
    assert out.count(" NO\n") == 2
    assert run(["compare", "flux-dev,sdxl", "--hardware", "rtx-5090"]) == 0
    assert "stable-diffusion-xl on rtx-5090" in capfd.readouterr().out.splitlines()[1]
    words = [
        "analyze",
        "llama-3.1-8b",
        "--phase",
        "decode",
        "--hardware",
        "h100",
        "--batch",
        "64,4096",
    ]
    assert run(words) == 0
    out = capfd.readouterr().out
    assert "batch 64," in out.splitlines()[1]
    assert " NO\n" in out
