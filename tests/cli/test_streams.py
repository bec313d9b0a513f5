"""Interrupts, readers that go away, full disks, narrow encodings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gambrel.report import csv_, terminal
from tests.cli.conftest import Gambrel

RESNET = ("analyze", "resnet50", "--hardware", "a100-sxm4-80gb")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_interrupt_leaves_no_half_file(gambrel: Gambrel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_, "render", _interrupt)
    done = gambrel(*RESNET, "-o", "a.json", "-o", "a.csv")
    assert done.code == 130
    # Every file is drawn before the first one is written.
    assert done.err.split("\n") == ["gambrel: interrupted", ""]
    assert list(Path().iterdir()) == []


def test_interrupt_while_writing_keeps_the_old_file(
    gambrel: Gambrel, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.json").write_text("old")
    monkeypatch.setattr(Path, "replace", _interrupt)
    done = gambrel(*RESNET, "-o", "a.json")
    assert done.code == 130
    assert Path("a.json").read_text() == "old"
    assert [p.name for p in Path().iterdir()] == ["a.json"]


def test_interrupt_before_the_table(gambrel: Gambrel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "render", _interrupt)
    done = gambrel(*RESNET, "-o", "a.json")
    assert (done.code, done.out) == (130, "")
    assert not list(Path().iterdir())


def _start(*words: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "gambrel", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
    )


def test_reader_that_goes_away() -> None:
    done = _start(*RESNET, "-o", "a.json")
    assert done.stdout is not None
    done.stdout.close()  # before anything is written
    _, err = done.communicate()
    assert (done.returncode, err) == (0, b"wrote a.json\n")
    assert Path("a.json").stat().st_size > 1000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk_is_one_sentence() -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - pathlib buffers alike
        done = subprocess.run(
            [sys.executable, "-m", "gambrel", "models", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == b"gambrel: cannot write to standard output: No space left on device.\n"


def test_encoding_that_lacks_characters() -> None:
    done = _start(*RESNET, "--top", "1", PYTHONIOENCODING="ascii")
    out, err = done.communicate()
    assert (done.returncode, err) == (0, b"")
    assert b" ?s" in out  # microseconds


def test_pipes_get_no_escape_codes() -> None:
    out, _ = _start(*RESNET, TERM="xterm-256color").communicate()
    assert b"\x1b" not in out


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "code"),
    [(("analyze", "resnet18", "-d", "h100"), 0), (("--help",), 0), (("nosuch",), 2)],
)
def test_closed_streams(closed: str, words: tuple[str, ...], code: int) -> None:
    line = f"{sys.executable} -m gambrel {' '.join(words)} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert done.returncode == code
    assert "defect" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1


@pytest.mark.parametrize(
    ("command", "closed", "said"),
    [
        ("mcp", "<&-", "standard input or output is closed"),
        ("mcp", ">&-", "standard input or output is closed"),
        ("chat", "<&-", "standard input is closed"),
    ],
)
def test_what_needs_a_stream_says_so(command: str, closed: str, said: str) -> None:
    line = f"{sys.executable} -m gambrel {command} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr


def test_reader_of_both_streams_that_goes_away_costs_no_file(tmp_path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    command = [sys.executable, "-m", "gambrel", "analyze", "resnet50", "-d", "a100"]
    named = [part for file in files for part in ("-o", str(file))]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*command, *named], stdout=writing, stderr=writing, check=False)
    os.close(writing)
    assert done.returncode == 0
    assert all(file.stat().st_size for file in files)
