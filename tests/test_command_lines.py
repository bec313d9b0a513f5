"""Random command lines: one sentence or an answer, and only the exit codes that are promised."""

import random
import sys
from pathlib import Path

import pytest

import gambrel

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.sweeps import commands


@pytest.mark.parametrize("seed", range(4))
def test_random_command_lines(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    gambrel.analyze("resnet18", "h100").save("a.json")
    gambrel.analyze("resnet50", "h100").save("b.json")
    chance = random.Random(seed)
    known = list(commands.commands())
    codes = set()
    for _ in range(12):
        line = commands.command_line(*chance.choice(known), chance)
        fault, code = commands.outcome(line)
        assert not fault, line
        codes.add(code)
    assert codes <= {0, 1, 2, 3}


def test_most_random_values_are_right():
    chance = random.Random(0)
    option = next(p for p in dict(commands.commands())["analyze",].params if p.name == "phase")
    drawn = [commands._value(option, ("analyze",), chance) for _ in range(1000)]
    assert 0.85 < sum(value in {"prefill", "decode"} for value in drawn) / 1000 < 0.99


def test_a_fault_is_seen():
    outcome = commands.outcome
    assert outcome(["nosuch"]) == ("", 2)
    judge = commands._fault
    assert "exit 70" in judge(["analyze"], 70, "", "gambrel: this is a defect")
    assert "without a verdict" in judge(["analyze"], 1, "", "")
    assert judge(["check"], 1, "", "") == ""
    assert "not one sentence" in judge(["check"], 2, "", "Traceback\nValueError")
    assert "no JSON" in judge(["check", "--json"], 0, "NaN", "")
    assert "codes" in judge(["check"], 0, "", "\x07")
