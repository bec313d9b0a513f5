"""The commands of docs/serving.md run as they are printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from gambrel.cli import run
from gambrel.llm.known import _entries

TEXT = (Path(__file__).parents[2] / "docs/serving.md").read_text(encoding="utf-8")
BLOCK = re.search(r"```console\n(.*?)```", TEXT, re.DOTALL).group(1).replace("\\\n", "")
COMMANDS = [line.removeprefix("$ ") for line in BLOCK.splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(_entries()["llama-3.1-70b"]["config"]))
    assert run(shlex.split(command)[1:]) == 0
    assert "tokens" in capsys.readouterr().out


def test_python_runs():
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(block, "docs/serving.md", "exec"), {})


def test_the_topology_is_one(tmp_path):
    from gambrel.llm.topology import load

    path = tmp_path / "node.toml"
    path.write_text(re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL).group(1))
    assert load(path).network_byte_per_s == 50e9
