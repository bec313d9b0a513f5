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


def test_equal_refusals_are_one_line():
    found = run(
        "serve-plan",
        "llama-3-8b",
        "--hardware",
        "m4-max,m3-max,a100",
        "--max-devices",
        "4",
        "--input",
        "1k",
        "--output",
        "64",
        "--tensor",
        "2",
    )
    text = " ".join(found.stdout.split())
    assert text.count("publishes no bandwidth to other devices") == 1
    assert "of m4-max, m3-max, bf16: the device publishes no bandwidth to other devices" in text


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


def test_steps_are_written_op_by_op(tmp_path):
    decode, prefill = tmp_path / "decode.html", tmp_path / "prefill.json"
    found = run(*ASKED, "--tensor", "2", "--decode", str(decode), "--prefill", str(prefill))
    assert found.returncode == 0
    assert found.stderr.splitlines() == [f"wrote {decode}", f"wrote {prefill}"]
    assert "all_reduce" in decode.read_text(encoding="utf-8")
    ops = json.loads(prefill.read_text(encoding="utf-8"))["ops"]
    # 1,024 tokens of 4,096 values of 2 bytes: 8 MiB, of which two devices send half, twice, behind
    # the look-up and 2 x 32 parts of layers.
    sent = sum(op["link_bytes"] for op in ops if op["name"].endswith("all_reduce"))
    assert sent == 65 * 1024 * 4096 * 2


def test_without_an_answer_there_is_no_step(tmp_path):
    found = run(*ASKED, "--tpot", "1us", "--decode", str(tmp_path / "decode.html"))
    assert found.returncode == 2
    assert "--decode: nothing meets the targets" in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_no_layout_that_meets_the_targets_is_a_failed_check():
    found = run(*ASKED, "--tpot", "1us")
    assert (found.returncode, found.stderr) == (1, "")
    assert "No layout meets the target" in found.stdout


def test_a_cache_that_does_not_fit_is_a_failed_check():
    asked = ["kv-cache", "llama-3.1-70b", "--context", "32k"]
    # 70 GB of weights and more, in 24 GB; and without a device there is no question.
    found = run(*asked, "--hardware", "l4", "--json")
    assert (found.returncode, found.stderr) == (1, "")
    assert json.loads(found.stdout)["fits"] is False
    assert run(*asked).returncode == 0
    assert run(*asked, "--hardware", "b200").returncode == 0


def test_a_training_step_that_does_not_fit_is_a_failed_check():
    found = run("train-plan", "llama-3.1-8b", "--hardware", "l4", "--seq", "1k")
    assert (found.returncode, found.stderr) == (1, "")
    asked = ("train-plan", "llama-3.1-8b", "--hardware", "l4", "--seq", "1k", "--json")
    assert json.loads(run(*asked).stdout)["memory"]["fits"] is False
