"""The options that check, compare, select and what-if share."""

import json
import re
import shlex

import pytest

COMMANDS = {
    "check": "check llama-3-8b --hardware h100 --latency 1ms",
    "compare": "compare llama-3-8b --hardware h100",
    "select": "select llama-3-8b --hardware h100 --latency 1ms",
    "what-if": "what-if llama-3-8b --hardware h100 --change fuse",
}
SHARED = ("seq", "context", "image", "phase", "size", "stack", "sparse", "engine", "train", "trust")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_them_once(gambrel, command):
    text = gambrel(command, "--help").out
    for option in SHARED:
        assert len(re.findall(rf"│ +--{option} ", text)) == 1, option


def roofline_s(command, data):
    if command == "check":
        return data["constraints"][0]["figure"]["best"]
    if command == "what-if":
        return data["before"]["total"]["roofline_time_s"]
    rows = data["rows"] if command == "compare" else [c["row"] for g in GROUPS for c in data[g]]
    return rows[0]["roofline_time_s"] if rows else data["failed"]


GROUPS = ("meets", "unknown", "near")


@pytest.mark.parametrize("command", ["check", "compare", "what-if"])
def test_sparse_and_engine_reach_the_analysis(gambrel, command):
    def asked(*more):
        found = gambrel(*shlex.split(COMMANDS[command]), *more, "--json")
        assert found.code in (0, 1)
        return roofline_s(command, json.loads(found.out))

    plain = asked()
    assert asked("--sparse") < plain
    # 989.4 TFLOP/s on the matrix engine against 133.8 on the vector engine
    assert asked("--engine", "vector") > 5 * plain
    assert asked("--size", "seq=64") < plain / 5


def test_select_takes_the_sparse_peak(gambrel):
    words = ("select", "llama-3-8b", "--hardware", "h100", "--latency", "33ms", "--json")
    dense, sparse = (json.loads(gambrel(*words, *more).out) for more in ((), ("--sparse",)))
    assert dense != sparse


@pytest.mark.parametrize("command", COMMANDS.values())
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--engine warp", "unknown engine 'warp'"),
        ("--train", "the built-in models are inference workloads"),
        ("--stack fast", "unknown stack 'fast'"),
        ("--size seq", "write NAME=NUMBER"),
    ],
)
def test_wrong_use_is_one_sentence(gambrel, command, more, message):
    found = gambrel(*shlex.split(command), *more.split())
    assert found.code == 2
    assert message in found.err
    assert len(found.err.splitlines()) == 1


def test_the_printed_command_repeats_the_choices(gambrel):
    text = gambrel(*shlex.split(COMMANDS["check"]), "--sparse", "--engine", "matrix").out
    shown = " ".join(text.split())
    assert "--sparse --engine matrix" in shown


@pytest.mark.torch
def test_training_steps_may_be_checked_and_changed(gambrel, tmp_path):
    source = (
        "import torch\n"
        "def build():\n"
        "    return torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(3))),"
        " torch.zeros(4, 64)\n"
    )
    (tmp_path / "net.py").write_text(source)
    found = gambrel("check", "net.py:build", "--hardware", "a100", "--memory", "1GB", "--train")
    assert found.code == 0, found.err
    again = "what-if net.py:build --hardware a100 --train --change checkpoint --json"
    moved = gambrel(*again.split())
    assert moved.code == 0, moved.err
    total = json.loads(moved.out)
    assert total["after"]["total"]["flops"] >= total["before"]["total"]["flops"]
