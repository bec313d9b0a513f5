"""What CI of a user runs: the steps of action.yml with the inputs of the documentation.

``python scripts/run_action.py`` does the same with an installation of its own.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("run_action", ROOT / "scripts" / "run_action.py")
runner = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(runner)
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))


@pytest.fixture
def step(tmp_path):
    """Runs one line as a runner does, with gambrel on its path."""
    program = tmp_path / "bin" / "gambrel"
    program.parent.mkdir()
    home = ROOT / "src"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{home}" exec "{sys.executable}" -m gambrel "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return lambda what, inputs: runner.run_step(what, inputs, tmp_path, path)


def test_the_action_passes_and_fails(step, tmp_path):
    inputs = runner.inputs_of(ACTION, {k: str(v) for k, v in runner.workflow()["with"].items()})
    inputs |= {"history": "history.jsonl"}
    (tmp_path / inputs["config"]).write_text(runner.GATE)
    record = f"gambrel gate record {inputs['baseline']} --config {inputs['config']}"
    assert step({"run": record}, inputs) == 0
    check = ACTION["runs"]["steps"][-1]
    assert step(check, inputs) == 0
    runner.better(tmp_path / inputs["baseline"])
    assert step(check, inputs) == 1
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert "PASS: 4 unchanged" in summary
    assert "FAIL: 4 regression" in summary
    assert len((tmp_path / "history.jsonl").read_text().splitlines()) == 8


def test_an_input_that_the_action_does_not_have_is_refused():
    with pytest.raises(SystemExit, match="basline"):
        runner.inputs_of(ACTION, {"basline": "x"})


def test_every_input_is_used_and_every_use_is_an_input():
    text = (ROOT / "action.yml").read_text("utf-8")
    assert {name for name in ACTION["inputs"] if f"inputs.{name} " in text} == set(ACTION["inputs"])


def test_the_hook_of_the_documentation_is_one_of_the_repository():
    hooks = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    text = (ROOT / "docs" / "gate.md").read_text("utf-8")
    assert hooks == {"gambrel-gate"}
    assert "- id: gambrel-gate" in text
