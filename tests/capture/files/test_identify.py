from __future__ import annotations

import contextlib
import gzip
import json
import pickle
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.capture.files.identify import FileKind, identify
from gambrel.errors import FileFormatError
from gambrel.workload import Workload
from gambrel.workload.serialize import save_workload


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")


def test_archives_by_their_members(tmp_path):
    path = tmp_path / "named_wrongly.txt"
    zipped(path, "archive/data.pkl", "archive/data/0")
    assert identify(path) is FileKind.CHECKPOINT
    zipped(path, "archive/data.pkl", "archive/constants.pkl", "archive/code/x.py")
    assert identify(path) is FileKind.TORCHSCRIPT
    zipped(path, "m/models/model.json", "m/version")
    assert identify(path) is FileKind.PT2
    zipped(path, "serialized_exported_program.json", "version")
    assert identify(path) is FileKind.PT2


def test_a_path_out_of_the_archive_does_nothing(tmp_path):
    path = tmp_path / "inner" / "a.pt"
    path.parent.mkdir()
    zipped(path, "../../escaped/data.pkl")
    assert identify(path) is FileKind.CHECKPOINT
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.pt", "inner"]


def test_binary_formats_by_their_first_bytes(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"GGUF" + b"\3\0\0\0")
    assert identify(path) is FileKind.GGUF
    path.write_bytes(pickle.dumps({"a": 1}, protocol=2))
    assert identify(path) is FileKind.CHECKPOINT
    path.write_bytes(b"\x08\x0a\x12\x07pytorch")
    assert identify(path) is FileKind.ONNX
    header = b'{"__metadata__":{}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    assert identify(path) is FileKind.SAFETENSORS


def test_json_by_its_keys(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"model_type": "llama", "hidden_size": 4096}')
    assert identify(path) is FileKind.CONFIG
    path.write_text('{"schema_version": 1, "units": {}, "ops": []}')
    assert identify(path) is FileKind.ANALYSIS
    path.write_text('{"format": "gambrel-workload", "schema_version": 1}')
    assert identify(path) is FileKind.WORKLOAD


def test_own_files(tmp_path):
    path = tmp_path / "w.json.gz"
    save_workload(Workload(name="w", dtype="fp32", tensors=(), ops=()), path)
    assert identify(path) is FileKind.WORKLOAD


def test_python(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("def build(): ...")
    assert identify(path) is FileKind.PYTHON


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.json", b'{"a": 1}', r"JSON of an unknown kind \(keys: 'a'\)"),
        ("x.json", b'{"model_type": "lla', "damaged or truncated JSON"),
        ("x.json", b'{"a":' * 100_000, "damaged or truncated JSON"),
        ("x.txt", b"hello", "is text, not a model; give a .pt2 export"),
        ("x.bin", b"\xff\xfe\0\1" * 9, "no model file of a known kind"),
        ("x.py", b"\0\1\2", "no model file of a known kind"),
        ("x.pt", b"PK\x03\x04rest", "damaged or truncated archive"),
        ("x.gz", gzip.compress(b"other", mtime=0), "gzip file of something else"),
        ("x.gz", b"\x1f\x8bbroken", "damaged gzip"),
        ("x.pt", b"", "is empty"),
    ],
)
def test_others_are_refused_in_one_line(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=sentence) as caught:
        identify(path)
    assert "\n" not in str(caught.value)


def test_archives_of_other_things(tmp_path):
    path = tmp_path / "x.npz"
    zipped(path, "arr_0.npy")
    with pytest.raises(FileFormatError, match="zip archive without a model"):
        identify(path)
    zipped(path, "data/aotinductor/model/x.so")
    with pytest.raises(FileFormatError, match="AOTInductor"):
        identify(path)


@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_are_told_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(data)
    with contextlib.suppress(FileFormatError):
        assert isinstance(identify(path), FileKind)


def test_analysis_is_not_a_config(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schema_version": 1, "ops": [], "model_type": "x"}))
    assert identify(path) is FileKind.ANALYSIS
