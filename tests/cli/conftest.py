"""How tests of the command line call it: in this process, from an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gambrel.cli import run


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command left."""

    code: int
    out: str
    err: str


Gambrel = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gambrel(capfd: pytest.CaptureFixture[str]) -> Gambrel:
    """Returns ``gambrel(*words)``."""

    def call(*words: str) -> Outcome:
        capfd.readouterr()
        code = run(words)
        out, err = capfd.readouterr()
        return Outcome(code=code, out=out, err=err)

    return call
