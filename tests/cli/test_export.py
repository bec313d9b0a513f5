"""``gambrel export`` as it is typed."""

import json

import pytest

from gambrel.cli import run


def test_it_says_what_it_wrote_and_what_opens_it(tmp_path, capsys):
    target = tmp_path / "trace.json"
    assert run(["export", "resnet18", "-d", "a100", "--to", "perfetto", "-o", str(target)]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {target}: predicted timeline")
    assert json.loads(target.read_text("utf-8"))["otherData"]["model"] == "resnet18"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--to", "bar", "-o", "x.json"), "unknown export format 'bar'"),
        (("-o", "x.yaml"), "timeloop or zigzag"),
        (("-o", "x.json", "--batch", "1,2"), "export takes one batch"),
    ],
)
def test_refusals(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert run(["export", "resnet18", "-d", "a100", *words]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not said.out
