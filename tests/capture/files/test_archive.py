from __future__ import annotations

import os
import zipfile

import pytest

from gambrel.capture.files.archive import check_file, open_zip, read_member
from gambrel.errors import FileFormatError


def write_zip(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_missing_directory_empty_and_pipe(tmp_path):
    with pytest.raises(FileFormatError, match=r"no such file: .*gone\.pt"):
        check_file(tmp_path / "gone.pt")
    with pytest.raises(FileFormatError, match="is a directory; give a file in it"):
        check_file(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileFormatError, match=r"give .*config\.json for the model"):
        check_file(tmp_path)
    (tmp_path / "empty.pt").touch()
    with pytest.raises(FileFormatError, match="is empty"):
        check_file(tmp_path / "empty.pt")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileFormatError, match="no regular file"):
        check_file(tmp_path / "pipe")
    with pytest.raises(FileFormatError, match="cannot be read"):
        check_file(tmp_path / "a\0b")


def test_a_zip_bomb_is_refused(tmp_path):
    bomb = write_zip(tmp_path / "b.zip", {"x": b"\0" * (64 << 20)}, zipfile.ZIP_DEFLATED)
    with open_zip(bomb) as archive, pytest.raises(FileFormatError, match="zip bomb; refused"):
        read_member(archive, "x")


def test_honest_compression_is_read(tmp_path):
    text = b'{"name": "layer1.0.conv1"}' * 1000
    path = write_zip(tmp_path / "a.zip", {"x": text}, zipfile.ZIP_DEFLATED)
    with open_zip(path) as archive:
        assert read_member(archive, "x") == text


def test_a_member_beyond_the_limit(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"x": b"12345"})
    with open_zip(path) as archive, pytest.raises(FileFormatError, match="more than 4; refused"):
        read_member(archive, "x", limit=4)


def test_a_false_claim_of_size(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"x": b"12345"})
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\x01\x02")
    data[place + 24 : place + 28] = (99).to_bytes(4, "little")  # uncompressed size
    path.write_bytes(data)
    with open_zip(path) as archive, pytest.raises(FileFormatError, match=r"truncated|damaged"):
        read_member(archive, "x")


@pytest.mark.parametrize("keep", [4, 30, 60])
def test_truncated_archives(tmp_path, keep):
    path = write_zip(tmp_path / "a.zip", {"x": b"12345" * 20})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match="damaged or truncated archive"), open_zip(path):
        pass


def test_too_many_members(tmp_path, monkeypatch):
    monkeypatch.setattr("gambrel.capture.files.archive.MAX_MEMBERS", 3)
    path = write_zip(tmp_path / "a.zip", {str(i): b"" for i in range(4)})
    with pytest.raises(FileFormatError, match="4 members"), open_zip(path):
        pass


def test_a_damaged_member(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"x": b"12345" * 20})
    data = bytearray(path.read_bytes())
    data[35] ^= 0xFF
    path.write_bytes(data)
    with open_zip(path) as archive, pytest.raises(FileFormatError, match="is damaged"):
        read_member(archive, "x")
