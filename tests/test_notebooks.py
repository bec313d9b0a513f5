"""The example notebooks run from the first cell to the last in a fresh kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")


def test_there_are_notebooks():
    assert len(BOOKS) >= 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", BOOKS, ids=lambda p: p.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setitem(os.environ, "PYTHONHASHSEED", "0")
    book = nbformat.read(path, as_version=4)
    done = nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute(cwd=tmp_path)
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert all(not cell.outputs for cell in code_of(path)), "stored without outputs"


def code_of(path):
    cells = nbformat.read(path, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]
