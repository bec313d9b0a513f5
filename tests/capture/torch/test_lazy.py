"""Importing the capture package does not import torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch


def _loaded(code: str) -> bool:
    check = f"import sys; {code}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


def test_import_is_light():
    assert not _loaded("import gambrel.capture.torch")
    assert not _loaded("from gambrel.capture.torch import capture, lean_init, ensure_torchvision")


def test_use_is_not():
    assert _loaded("import gambrel.capture.torch as c; c.capture(lambda: None)")
