"""The command: one line in, an answer or one line of what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys

ASKED = ["serve-plan", "llama-3.1-8b", "--hardware", "h200", "--input", "1k", "--output", "256"]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "gambrel", *arguments], capture_output=True, text=True, check=False
    )


def test_an_answer():
    found = run(*ASKED, "--tpot", "30ms", "--ttft", "1s", "--price", "3.5/h", "-p", "fp8")
    assert found.returncode == 0
    assert found.stderr == ""
    assert "Why not the next" in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= 80


def test_json_and_nothing_else():
    found = run(*ASKED, "--json", "--tensor", "2")
    assert found.returncode == 0
    assert json.loads(found.stdout)["best"][0]["sharding"]["tensor"] == 2


def test_a_users_error_is_one_line():
    found = run(*ASKED, "--tensor", "3")
    assert found.returncode == 2
    assert found.stdout == ""
    assert len(found.stderr.splitlines()) == 1
    assert "does not divide the 32 attention heads" in found.stderr


def test_no_framework_is_imported():
    code = (
        "import sys; from gambrel.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'transformers', 'pandas', 'plotly', 'pydantic')"
        " if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, *ASKED], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "[]"
