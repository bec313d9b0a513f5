"""The table of formats: complete, and every reader and extra of it real."""

import tomllib
from pathlib import Path

import gambrel
from gambrel.capture.files.identify import FileKind
from gambrel.capture.formats import FORMATS, SUFFIXES, format_of


def test_every_kind_has_one_row():
    assert sorted(row.kind for row in FORMATS) == sorted(FileKind)
    assert all(format_of(kind).kind is kind for kind in FileKind)


def test_extras_are_those_of_the_package():
    project = Path(gambrel.__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(project.read_text("utf-8"))["project"]["optional-dependencies"]
    assert {row.extra for row in FORMATS} - {""} <= set(extras)


def test_usual_endings():
    assert {".onnx", ".pt2", ".gguf", ".json", ".safetensors", ".pt", ".py"} <= SUFFIXES
