"""Files as text, with limits: what is too large, empty or no text is refused in one sentence.

Tables are read line by line (`TextFile`), so that no file stands in memory as a whole.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Final

from gambrel import fileio
from gambrel.errors import FileFormatError
from gambrel.fileio import file_size

#: Bytes of a text file that is read as a whole.
MAX_BYTES: Final = 2 * 2**30
#: Bytes that are enough to recognize a format.
HEAD: Final = 1 << 16

#: Characters of one line; a heading that names every metric of a GPU takes a quarter of a million.
LONGEST_LINE: Final = 1 << 22
_CHUNK: Final = 1 << 17
#: Lines after which progress is told.
_TELL: Final = 0xFFF

#: Anything but spaces and zeros; found at once in a file that has some, without a copy.
_CONTENT: Final = re.compile(rb"[^\0 \r\n\t]")
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),  # PowerShell's ">" writes this
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


#: Is told how many bytes of a file have been read; a face that shows progress sets it.
_watcher: ContextVar[Callable[[Path, int], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(told: Callable[[Path, int], None]) -> Iterator[None]:
    """Tells a function about the progress of reading while the block runs.

    Args:
        told: Takes the file and the bytes of it that have been read.
    """
    token = _watcher.set(told)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell(path: Path, done: int) -> None:
    """Says that so many bytes of a file have been read."""
    told = _watcher.get()
    if told is not None:
        told(path, done)


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Returns what a file holds.

    Args:
        path: Of the file.
        limit: Bytes that are accepted.

    Raises:
        FileFormatError: No such file, a folder, empty, or larger than the limit.
    """
    data = fileio.read_bytes(path, limit, "a file that is read whole")
    tell(path, len(data))
    if not _CONTENT.search(data):
        raise FileFormatError(f"{path} is empty.")
    return data


class TextFile:
    """A text file that is read line by line, as often as it is iterated over."""

    def __init__(self, path: Path) -> None:
        """Finds out how the file is encoded: by its mark, else UTF-8, else Windows-1252.

        Args:
            path: Of the file.

        Raises:
            FileFormatError: No such file, a folder, or empty.
        """
        self.path = path
        try:
            file_size(path)
            self._encoding = _encoding(path)
        except OSError as error:
            raise FileFormatError(f"cannot read {path}: {error.strerror or error}.") from None
        if not self._encoding:
            raise FileFormatError(f"{path} is empty.")

    def __iter__(self) -> Iterator[str]:
        """Gives the lines, each with its end as one line feed.

        Raises:
            FileFormatError: A line without end.
        """
        with (
            self.path.open("rb") as raw,
            io.TextIOWrapper(raw, encoding=self._encoding, errors="replace") as text,
        ):
            for number, line in enumerate(iter(partial(text.readline, LONGEST_LINE), ""), 1):
                if len(line) >= LONGEST_LINE:
                    raise FileFormatError(
                        f"{self.path}, line {number}: longer than {LONGEST_LINE:,} characters."
                    )
                if not number & _TELL:
                    tell(self.path, raw.tell())
                yield line
            tell(self.path, raw.tell())


def _encoding(path: Path) -> str:
    """How a file is encoded; empty for a file without content."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    content, found = False, "utf-8"
    with path.open("rb") as file:
        start = file.read(4)
        for mark, name in _MARKS:
            if start.startswith(mark):
                return "utf-8-sig" if name == "utf-8" else "utf-16"
        file.seek(0)
        for chunk in iter(partial(file.read, _CHUNK), b""):
            content = content or _CONTENT.search(chunk) is not None
            if found == "utf-8" and not (chunk.isascii() and not decoder.getstate()[0]):
                found = found if _decodes(decoder, chunk) else "cp1252"
    if not _decodes(decoder, b"", final=True):
        found = "cp1252"
    return found if content else ""


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True


def csv_rows(
    lines: Iterable[str], path: Path, delimiter: str = ","
) -> Iterator[tuple[int, list[str]]]:
    """Rows of a table with the numbers of their lines; empty ones are left out.

    Raises:
        FileFormatError: A quote or a cell without end.
    """
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        for row in filter(None, reader):
            yield reader.line_num, row
    except csv.Error as error:
        raise FileFormatError(f"{path}, near line {reader.line_num}: {error}.") from None


def read_head(path: Path) -> bytes:
    """Returns the beginning of a file.

    Raises:
        FileFormatError: The file cannot be read or is empty.
    """
    try:
        file_size(path)
        with path.open("rb") as file:
            data = file.read(HEAD)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}.") from None
    if not data:
        raise FileFormatError(f"{path} is empty.")
    return data


def is_sqlite(head: bytes) -> bool:
    """Whether a file begins like a SQLite database."""
    return head.startswith(b"SQLite format 3\0")


def decode(data: bytes) -> str:
    """Returns bytes as text: by their mark, else UTF-8, else Windows-1252 (old exports)."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
