"""The plugin in a project of its own: skipped without the option, measured with it."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

SRC = Path(__file__).resolve().parent.parent / "src"
TESTS = """
def seen(roofline):
    import torch
    from gambrel.device.lookup import from_peaks

    roofs = from_peaks(1e12, 5e10, name="box")
    return roofline(torch.nn.Linear(64, 64), torch.randn(8, 64), roofs, steps=2, warmup=1)

def test_efficient(roofline):
    assert seen(roofline).efficiency > 1e-9

def test_too_strict(roofline):
    assert seen(roofline).efficiency > 1e9
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What pytest prints with some options."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_speed.py").write_text(TESTS)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    # Where gambrel is installed, pytest would load the plugin a second time.
    env |= {"PYTHONPATH": str(SRC), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run(*options):
        words = [sys.executable, "-m", "pytest", "-p", "gambrel.testing", "-q"]
        words += ["-p", "no:cacheprovider", "--rootdir", str(folder), *options]
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
        return done.stdout + done.stderr

    return run


def test_without_the_option_nothing_is_measured(said):
    assert "2 skipped" in said()


def test_with_the_option_the_efficiency_decides(said):
    text = said("--gambrel")
    assert "1 failed, 1 passed" in text
    assert "MeasuredEfficiency(measured_s=" in text
    assert "analysis=" not in text


@pytest.mark.parametrize(("workers", "doubt"), [(4, "4 workers"), (1, "")])
def test_workers_that_share_the_machine_are_a_doubt(workers, doubt, monkeypatch):
    from gambrel import testing
    from gambrel.measure import machine

    monkeypatch.setattr(machine, "busy", lambda: None)

    text = testing._doubt(SimpleNamespace(workerinput={"workercount": workers}))
    assert doubt in text
    assert bool(text) is bool(doubt)
