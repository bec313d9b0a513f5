"""The snippets of the README run as they are printed."""

import json
import re
import shlex
from pathlib import Path

import pytest

from gambrel.cli import run

ROOT = Path(__file__).resolve().parent.parent
#: What a user has at hand where a command names ``config.json``.
CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands():
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [part for part in parts if part.startswith("gambrel ")]


@pytest.mark.parametrize("command", commands())
def test_commands_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    assert run(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out


@pytest.mark.torch
def test_python_runs_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), scope)
    assert scope["training"].model.training


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
