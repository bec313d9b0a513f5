"""One real, small survey of this machine for all tests of the package."""

from __future__ import annotations

import pytest

from gambrel.measure import probes


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test reads or writes the user's own measurements."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    monkeypatch.setattr(probes, "_MOST_DRAM", 64 << 20)


@pytest.fixture(scope="session")
def survey():
    pytest.importorskip("llvmlite")
    from gambrel.measure import cpu

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "_MOST_DRAM", 64 << 20)
        return cpu.survey(cpu.TimingBudget(steps=3, warmup=0, rounds=2))
