"""Damaged TFLite files: one sentence each."""

from pathlib import Path

import pytest

from gambrel.capture.files.identify import FileKind, identify
from gambrel.capture.tflite.reader import read_tflite
from gambrel.errors import FileFormatError, GambrelError

pytest.importorskip("tflite")

DATA = Path(__file__).parents[2] / "data" / "tflite"
WHOLE = (DATA / "control.tflite").read_bytes()


def test_a_file_is_told_by_its_identifier(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(WHOLE)
    assert identify(path) is FileKind.TFLITE


@pytest.mark.parametrize("content", [b"hello world, more than 16 bytes", WHOLE[:12]])
def test_another_file_of_that_name(tmp_path, content):
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"model\.tflite: .*") as caught:
        read_tflite(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", range(16, len(WHOLE), 300))
def test_truncated(tmp_path, length):
    path = tmp_path / "model.tflite"
    path.write_bytes(WHOLE[:length])
    said = ""
    try:
        read_tflite(path)
    except GambrelError as error:
        said = str(error)
    assert "\n" not in said


def test_a_training_step_is_refused():
    from gambrel.capture.resolve import Request, resolve_model

    with pytest.raises(GambrelError, match="control is an inference workload"):
        resolve_model(DATA / "control.tflite", Request(train=True))
