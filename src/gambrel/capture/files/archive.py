"""Plain and zip files of unknown origin, opened with limits."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gambrel.errors import FileFormatError

#: Most members of an archive; a checkpoint of a large model has a few thousand.
MAX_MEMBERS: Final = 200_000
#: Largest text or pickle that is read. 10,000 ops are 20 MB of exported JSON; the structure of the
#: largest checkpoints is a few MB.
MAX_MEMBER_BYTES: Final = 256 * 2**20
#: Largest honest compression: JSON shrinks 10 to 50 times, zeros 1,000 times.
MAX_RATIO: Final = 200
#: What is too small to harm, whatever its ratio.
SMALL_BYTES: Final = 2**20


def check_file(path: Path) -> int:
    """Returns the size of a regular, readable file.

    Raises:
        FileFormatError: It is missing, empty, a directory, no regular file or not readable.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise FileFormatError(f"no such file: {path}. Check the path.") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} cannot be read: {error}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise FileFormatError(f"{path} is a directory{_inside(path)}")
    if not stat.S_ISREG(status.st_mode):
        raise FileFormatError(f"{path} is no regular file; give a model file.")
    if status.st_size == 0:
        raise FileFormatError(f"{path} is empty; was the download or export interrupted?")
    return status.st_size


def read_head(path: Path, limit: int) -> bytes:
    """Returns the first ``limit`` bytes of a file.

    Raises:
        FileFormatError: It cannot be read.
    """
    check_file(path)
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from None


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens a zip archive. Nothing is ever extracted, so the names of members cannot do harm.

    Raises:
        FileFormatError: It is no zip, truncated, or has too many members.
    """
    check_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise FileFormatError(
            f"{path} is a damaged or truncated archive ({error}); download or export it again."
        ) from None
    with archive:
        if len(archive.infolist()) > MAX_MEMBERS:
            raise FileFormatError(
                f"{path} holds {len(archive.infolist())} members, more than the {MAX_MEMBERS} "
                "that any model needs; refused."
            )
        yield archive


def read_member(archive: zipfile.ZipFile, name: str, limit: int = MAX_MEMBER_BYTES) -> bytes:
    """Returns one member, decompressed, if it stays within size and ratio.

    Raises:
        FileFormatError: It is too large, compressed beyond belief (a zip bomb), encrypted or
            damaged.
    """
    info = archive.getinfo(name)
    where = f"{archive.filename}: member {name!r}"
    if info.file_size > limit:
        raise FileFormatError(f"{where} claims {info.file_size} bytes, more than {limit}; refused.")
    if info.file_size > SMALL_BYTES and info.file_size > MAX_RATIO * max(info.compress_size, 1):
        raise FileFormatError(
            f"{where} expands {info.compress_size} bytes to {info.file_size}: a zip bomb; refused."
        )
    try:
        with archive.open(info) as member:
            data = member.read(limit + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise FileFormatError(
            f"{where} is damaged ({error}); download or export it again."
        ) from None
    if len(data) != info.file_size:
        raise FileFormatError(f"{where} is truncated; download or export it again.")
    return data


def _inside(path: Path) -> str:
    """What to give instead of a directory."""
    config = path / "config.json"
    if config.is_file():
        return f"; give {config} for the model that it describes."
    return "; give a file in it."
