"""Runs what README.md prints, on the installation at hand: every command, and the Python blocks.

    pip install . && python scripts/run_readme.py

Commands that install are left out, and so are blocks that import a package that is not there (the
core install has no torch); they are named.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

README: Final = Path(__file__).resolve().parent.parent / "README.md"
#: A language model's configuration, as `config.json` in commands.
CONFIG: Final = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128256,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
}  # fmt: skip
#: Verdicts, which are answers: met, missed, unknown.
ANSWERS: Final = {0, 1, 3}


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Each command line, without those that install."""
    lines = [line for block in blocks("bash") for line in block.splitlines() if line.strip()]
    return [line.split("&&")[-1].strip() for line in lines if "pytest" not in line]


def missing(block: str) -> list[str]:
    """Packages that a block imports and that are not installed."""
    named = re.findall(r"^(?:import|from) (\w+)", block, re.MULTILINE)
    return [name for name in named if importlib.util.find_spec(name) is None]


def main() -> int:
    """Prints a line for each; the exit code says whether all ran."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        for command in commands():
            done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
            verdict = ANSWERS if command.split()[1] in ("check", "gate") else {0}
            failed += _said(command, done.returncode in verdict, done.stderr)
        for block in blocks("python"):
            name = " / ".join(block.strip().splitlines()[:2])
            if gone := missing(block):
                print(f"left out  {name} ({', '.join(gone)} is not installed)")
                continue
            done = subprocess.run(
                [sys.executable, "-c", block], cwd=folder, capture_output=True, text=True
            )
            failed += _said(name, done.returncode == 0, done.stderr)
    return 1 if failed else 0


def _said(name: str, ran: bool, errors: str) -> int:
    print(f"{'ran      ' if ran else 'FAILED   '} {name}")
    if not ran:
        print(errors)
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
