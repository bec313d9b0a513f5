"""Files: what is refused before it is read, and writers that never meet."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gambrel.errors import FileFormatError, InputError
from gambrel.fileio import check_name, check_writable, file_size, replace_file

LONG = "a" * 300


class TestReading:
    def test_a_file_has_a_size(self, tmp_path):
        path = tmp_path / "f"
        path.write_bytes(b"abc")
        assert file_size(path) == 3

    def test_pipes_devices_and_folders_are_refused(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(FileFormatError, match="pipe is no regular file"):
            file_size(tmp_path / "pipe")
        with pytest.raises(FileFormatError, match="/dev/zero is no regular file"):
            file_size(Path("/dev/zero"))
        with pytest.raises(FileFormatError, match="is a folder"):
            file_size(tmp_path)

    @pytest.mark.parametrize(
        ("name", "why"),
        [(LONG, "File name too long"), ("absent", "No such file"), ("a\0b", "null byte")],
    )
    def test_names_that_cannot_be(self, name, why):
        with pytest.raises(FileFormatError, match=f"cannot read .*{why}"):
            file_size(Path(name))

    def test_a_name_is_usable_whether_or_not_there_is_a_file(self, tmp_path):
        for name in ("absent", "resnet50", "absent/absent", "."):
            check_name(tmp_path / name)
        with pytest.raises(FileFormatError, match=r"cannot read a{200}\.\.\.: File name too long"):
            check_name(Path(LONG))


class TestWriting:
    @pytest.mark.parametrize(
        ("name", "why"),
        [
            (f"{LONG}.html", "File name too long"),
            ("absent/a.html", "there is no folder"),
            ("", "it is a folder"),
            ("file/a.html", "Not a directory"),
            ("a\0b", "null byte"),
        ],
    )
    def test_targets_that_cannot_be(self, tmp_path, name, why):
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match=f"cannot write .*: .*{why}"):
            check_writable(tmp_path / name)

    def test_a_check_leaves_nothing(self, tmp_path):
        check_writable(tmp_path / "new")
        (tmp_path / "old").write_text("old")
        check_writable(tmp_path / "old")
        check_writable(Path("/dev/null"))
        assert [p.name for p in tmp_path.iterdir()] == ["old"]
        assert (tmp_path / "old").read_text() == "old"

    def test_links_and_permissions_stay(self, tmp_path):
        real, link = tmp_path / "real", tmp_path / "link"
        real.write_text("old")
        real.chmod(0o600)
        link.symlink_to(real)
        replace_file(link, b"new")
        assert link.is_symlink()
        assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == ("new", 0o600)
        replace_file(Path("/dev/null"), b"anything")

    def test_a_failure_leaves_no_draft(self, tmp_path, monkeypatch):
        def refuse(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match="No space left"):
            replace_file(tmp_path / "f", b"x")
        assert not list(tmp_path.iterdir())

    def test_threads_do_not_meet(self, tmp_path):
        path = tmp_path / "f"
        texts = [bytes([65 + i]) * 50_000 for i in range(8)]
        replace_file(path, texts[0])

        def use(text):
            torn = 0
            for _ in range(25):
                replace_file(path, text)
                torn += path.read_bytes() not in texts
            return torn

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(use, texts)) == 0
        assert [p.name for p in tmp_path.iterdir()] == ["f"]


WRITER = """
import sys
from pathlib import Path
from gambrel.analysis.estimate import packaged, store
from gambrel.analysis.estimate.store import load, save
place, mine = Path(sys.argv[1]), packaged().sets[int(sys.argv[2])]
for _ in range(25):
    save("own", (mine,), place)
    assert load(place).sets[0] in packaged().sets
"""


def test_processes_that_save_one_calibration_do_not_meet(tmp_path):
    """With one draft for all, saves failed and readers met halves."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    running = [subprocess.Popen([*command, str(i)], stderr=subprocess.PIPE) for i in range(6)]
    for process in running:
        assert process.communicate()[1] == b""
        assert process.returncode == 0
    assert [p.name for p in tmp_path.iterdir()] == ["own.json"]
