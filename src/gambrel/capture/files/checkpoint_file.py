"""The pickles inside checkpoint files: torch's zip layout, the older one, and plain pickles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Final

from gambrel.capture.files.archive import open_zip, read_head, read_member
from gambrel.capture.files.pickles import read_pickle
from gambrel.errors import FileFormatError

#: The first pickle of torch's layout before 1.6 holds this number (torch.serialization).
LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
#: Largest pickle that is read; bytes of weights stand outside it.
MAX_PICKLE_BYTES: Final = 128 * 2**20


def read_checkpoint(path: str | Path) -> Any:
    """Reads what a checkpoint holds, weights left out, without running any of it.

    Args:
        path: A file of ``torch.save`` or ``pickle.dump``.

    Returns:
        As `gambrel.capture.files.pickles.read_pickle`.

    Raises:
        FileFormatError: It is missing, damaged, hostile or no checkpoint.
    """
    path = Path(path)
    if read_head(path, 2) == b"PK":
        return _read_zip(path)
    return _read_stream(path)


def _read_zip(path: Path) -> Any:
    with open_zip(path) as archive:
        found = [n for n in archive.namelist() if n == "data.pkl" or n.endswith("/data.pkl")]
        if not found:
            raise FileFormatError(f"{path} is an archive without a checkpoint (no data.pkl) in it.")
        data = read_member(archive, min(found, key=len), MAX_PICKLE_BYTES)
    return read_pickle(data, str(path))


def _read_stream(path: Path) -> Any:
    """One pickle; or, in the layout before torch 1.6, the fourth of several."""
    with path.open("rb") as file:
        stream = _Limited(file, path)
        first = read_pickle(stream, str(path))
        if first != LEGACY_MAGIC:
            return first
        read_pickle(stream, str(path))  # version of the protocol
        read_pickle(stream, str(path))  # byte order and sizes of the writer's machine
        return read_pickle(stream, str(path))


class _Limited:
    """A file of which no more than `MAX_PICKLE_BYTES` are read: weights may follow the pickle."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._left = MAX_PICKLE_BYTES
        self._path = path

    def read(self, count: int = -1) -> bytes:
        """Up to ``count`` bytes."""
        return self._taken(self._file.read(self._allowed(count)))

    def readline(self) -> bytes:
        """Up to the end of a line."""
        return self._taken(self._file.readline(self._left + 1))

    def _allowed(self, count: int) -> int:
        return self._left + 1 if count < 0 else min(count, self._left + 1)

    def _taken(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise FileFormatError(
                f"{self._path}: a pickle of more than {MAX_PICKLE_BYTES >> 20} MiB holds its "
                "weights inside; save it again with torch.save."
            )
        return data
