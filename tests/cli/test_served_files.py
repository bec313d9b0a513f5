"""Answers about serving are written like all others; their --output is that of a model."""

import pytest

from gambrel.cli import run

_ASKED = ["llama-3-8b", "-d", "h100", "--input", "256", "--output", "32"]


@pytest.mark.parametrize("command", ["serve-plan", "serve-sim"])
def test_a_suffix_chooses_what_is_written(command, tmp_path):
    more = ["--concurrency", "4"]
    files = [tmp_path / f"found.{suffix}" for suffix in ("md", "csv", "json", "svg")]
    named = [part for file in files for part in ("-o", str(file))]
    assert run([command, *_ASKED, *more, *named]) == 0
    assert files[0].read_text().startswith("# llama-3.1-8b")
    assert all(file.stat().st_size for file in files)


def test_tokens_are_no_file(capsys):
    assert run(["serve-plan", *_ASKED[:-1], "plan.md"]) == 2
    assert "--output" in capsys.readouterr().err
