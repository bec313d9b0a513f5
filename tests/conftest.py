"""What tests of every layer share: golden files, updated by one flag; profiles of Hypothesis.

In CI (``CI=true``) Hypothesis takes the same examples in every run, so that a change breaks a test
or does not. The random job, ``pytest --hypothesis-profile=random``, looks for new ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "random", derandomize=False, deadline=None, print_blob=True, max_examples=500
)
if os.environ.get("CI") == "true":
    hypothesis.settings.load_profile("ci")


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes are named by their number: workers collect the same names, whatever the clock says.

    A file compressed while tests are collected holds the second in which that happened.
    """
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )
    parser.addoption(
        "--all-published", action="store_true", help="every published row, not a sample"
    )
    parser.addoption(
        "--all-differential", action="store_true", help="every model, device, variant and runtime"
    )
    parser.addoption(
        "--all-pages", action="store_true", help="every page at every width, every model's page"
    )
    parser.addoption(
        "--all-candidates", action="store_true", help="every candidate of the judge, not a sample"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Returns ``check(name, text)``: ``text`` equals the file ``golden/<name>`` beside the test."""
    folder = Path(request.path).parent / "golden"
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = folder / name
        if update:
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {path}; run pytest --update-golden, then read it"
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    """Folders that nobody has used: they are made by who writes to one."""
    base = tmp_path_factory.mktemp("homes")
    return (base / str(number) for number in count())


@pytest.fixture(autouse=True)
def no_settings_of_the_user(homes, monkeypatch):
    """Devices, calibrations and caches of whoever runs the tests must not change an answer."""
    empty = next(homes)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(empty / name))
