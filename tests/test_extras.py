"""What needs an optional dependency says so in one sentence, and nothing else needs one."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Makes the extras unimportable, as on a core install.
HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"matplotlib", "pandas", "plotly", "prompt_toolkit", "torch"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    try:
        return found(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find_spec
from gambrel.cli import main
"""


def run(tmp_path, *arguments):
    code = f"{HIDE}sys.argv = ['gambrel', *{arguments!r}]\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )


@pytest.mark.parametrize("suffix", ["html", "svg", "md", "csv", "json"])
def test_files_that_need_no_extra(tmp_path, suffix):
    done = run(tmp_path, "analyze", "resnet18", "-d", "a100", "-o", f"out.{suffix}")
    assert (done.returncode, done.stderr) == (0, f"wrote out.{suffix}\n")
    assert (tmp_path / f"out.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("analyze", "resnet18", "-d", "a100", "-o", "out.png"),
            "a .png picture needs matplotlib, which is not installed. "
            "Run: pip install 'gambrel[plot]'",
        ),
        (
            ("profile", "model.py:build"),
            "torch, which is not installed. Run: pip install 'gambrel[torch]'",
        ),
    ],
)
def test_a_missing_extra_is_named_with_its_command(tmp_path, arguments, sentence):
    (tmp_path / "model.py").write_text("def build(): return None\n")
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr
