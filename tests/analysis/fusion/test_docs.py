"""The snippets of docs/fusion.md run as they are printed."""

import re
import shlex
from pathlib import Path

from gambrel.cli import run

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "fusion.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_commands_run(capsys):
    (command,) = [line for block in blocks("console") for line in block.splitlines()]
    assert run(shlex.split(command)[1:]) == 0
    assert "104 kernels" in " ".join(capsys.readouterr().out.split())


def test_python_runs(capsys):
    for block in blocks("python"):
        exec(compile(block, "fusion.md", "exec"), {})
    assert capsys.readouterr().out == "convolution ['layer4.0.conv2'] 9938944\n"
