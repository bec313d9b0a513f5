"""``gambrel what-if``: the command as promised."""

import json

import pytest

import gambrel
from gambrel.cli import run

COMMAND = "what-if resnet50 --hardware a100 --change precision=int8 --change fuse"


def test_text_and_json(capsys):
    assert run(COMMAND.split()) == 0
    assert capsys.readouterr().out.startswith("resnet50: precision=int8 + fuse\n")
    assert run([*COMMAND.split(), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["after"]["precision"] == "int8"
    assert data["after"]["runtime"] == "torch-compile"
    again = gambrel.analyze("resnet50", "a100", precision="int8", runtime="torch-compile")
    assert data["after"]["total"]["roofline_time_s"] == again.roofline_time_s
    assert data["after"]["total"]["expected_time_s"]["value"] == again.expected_time_s.value


def test_python_answers_as_the_command_line_does():
    before = gambrel.analyze("resnet50", "a100")
    after = before.with_change("precision=int8", "fuse")
    found = gambrel.what_if("resnet50", "a100", ["precision=int8", "fuse"])
    assert found.after.total.roofline_time_s == after.roofline_time_s
    assert found.before.total.roofline_time_s == before.roofline_time_s


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("what-if resnet50 --hardware a100", "--change"),
        ("what-if resnet50 --hardware a100 --change speed=2", "unknown change 'speed=2'"),
        ("what-if resnet50 --hardware a100 --change batch=0", "batch"),
    ],
)
def test_wrong_use_is_one_sentence(command, message, capsys):
    assert run(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_help_has_examples(capsys):
    assert run(["what-if", "--help"]) == 0
    assert "gambrel what-if resnet50 --hardware a100" in capsys.readouterr().out
