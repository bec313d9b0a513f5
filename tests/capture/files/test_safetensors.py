from __future__ import annotations

import json
import struct

import pytest

from gambrel.capture.files.records import TensorInfo
from gambrel.capture.files.safetensors import read_safetensors
from gambrel.errors import FileFormatError


def write(path, header, data=b"\0" * 24, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(struct.pack("<Q", size) + text + data)
    return path


def entry(**changes):
    return {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changes}}


def test_names_shapes_and_formats(tmp_path):
    header = entry() | {"__metadata__": {"format": "pt"}}
    found = read_safetensors(write(tmp_path / "a.safetensors", header))
    assert found == {"w": TensorInfo((2, 3), "float32", "w")}


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (entry(dtype="F99"), "'w' is described wrongly"),
        (entry(shape=[-2, 3]), "described wrongly"),
        (entry(shape="23"), "described wrongly"),
        (entry(shape=[2.5, 3]), "described wrongly"),
        (entry(data_offsets=[0, 10**9]), "does not fit its place"),
        (entry(data_offsets=[0, 20]), "does not fit its place"),
        (entry(shape=[2**50, 2**50]), "does not fit its place"),
        ({"w": 5}, "described wrongly"),
        (b"[1, 2, 3]", "no JSON object"),
        (b"{not json}", "no JSON"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "described wrongly|no JSON"),
    ],
)
def test_hostile_headers(tmp_path, header, sentence):
    with pytest.raises(FileFormatError, match=sentence):
        read_safetensors(write(tmp_path / "a.safetensors", header))


@pytest.mark.parametrize("length", [0, 1, 10**6, 2**63])
def test_impossible_lengths(tmp_path, length):
    path = write(tmp_path / "a.safetensors", entry(), length=length)
    with pytest.raises(FileFormatError, match=f"the header claims {length} bytes"):
        read_safetensors(path)


def test_truncated(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"\1\2\3")
    with pytest.raises(FileFormatError, match="truncated"):
        read_safetensors(path)
    write(path, entry())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match="does not fit its place in the file; truncated"):
        read_safetensors(path)
