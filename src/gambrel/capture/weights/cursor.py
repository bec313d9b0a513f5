"""Reading a file of unknown origin from front to back: no length in it is ever believed."""

from __future__ import annotations

import struct
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

from gambrel.errors import FileFormatError

#: How much is read at once.
_CHUNK: Final = 1 << 20


class Cursor:
    """A position in a file. Memory is bounded by ``limit`` plus one chunk.

    Args:
        path: The file.
        limit: How far from the start reading may go, byte.

    Attributes:
        size: Of the file, byte.
        order: ``"<"`` or ``">"``: the order of bytes in numbers.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._buffer = b""
        self._start = 0  # where the buffer stands in the file
        self._at = 0  # within the buffer
        self.order = "<"
        try:
            if not path.is_file():
                raise FileFormatError(f"{path} is no regular file; give a model file.")
            self.size = path.stat().st_size
            self._file: BinaryIO = path.open("rb")
        except (OSError, ValueError) as error:
            raise FileFormatError(f"{path} cannot be read: {error}.") from None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def position(self) -> int:
        """Bytes from the start of the file."""
        return self._start + self._at

    @property
    def left(self) -> int:
        """Bytes from here to the end of the file."""
        return self.size - self.position

    def fail(self, what: str, at: int | None = None) -> FileFormatError:
        """The error to raise: file, position, and what is wrong there."""
        where = self.position if at is None else at
        return FileFormatError(f"{self._path}: at byte {where}: {what}")

    def take(self, n: int, what: str) -> bytes:
        """The next ``n`` bytes.

        Raises:
            FileFormatError: The file ends before, or the header is longer than any model's.
        """
        self._need(n, what)
        found = self._buffer[self._at : self._at + n]
        self._at += n
        return found

    def skip(self, n: int, what: str) -> None:
        """Goes on by ``n`` bytes without reading them; errors as of `take`."""
        if n <= len(self._buffer) - self._at:
            self._at += n
            return
        self._check(n, what)
        target = self.position + n
        self._file.seek(target)
        self._buffer, self._start, self._at = b"", target, 0

    def skip_texts(self, count: int, longest: int, what: str) -> None:
        """Goes on behind ``count`` texts, each led by its length in 8 bytes.

        A vocabulary has some 100,000: they are walked within the buffer.

        Raises:
            FileFormatError: As of `take`, or a text of more than ``longest`` bytes.
        """
        unpack = struct.Struct(f"{self.order}Q").unpack_from
        while count:
            self._need(8, what)
            buffer, at, end = self._buffer, self._at, len(self._buffer)
            while count and at + 8 <= end:
                (length,) = unpack(buffer, at)
                if at + 8 + length > end:
                    break
                at += 8 + length
                count -= 1
            self._at = at
            if count and at + 8 <= end:  # longer than what is left of the buffer
                length = self.number("Q", what)
                if length > longest:
                    raise self.fail(f"{what} claims {length} bytes; more than any token.", at)
                self.skip(length, what)
                count -= 1

    def number(self, form: str, what: str) -> int:
        """The next whole number, by its letter of `struct`."""
        (value,) = self._unpack(form, what)
        return int(value)

    def value(self, form: str, what: str) -> int | float:
        """The next number, by its letter of `struct`."""
        (value,) = self._unpack(form, what)
        found: int | float = value
        return found

    def _unpack(self, form: str, what: str) -> tuple[int | float, ...]:
        n = struct.calcsize(f"={form}")
        self._need(n, what)
        found = struct.unpack_from(self.order + form, self._buffer, self._at)
        self._at += n
        return found

    def _need(self, n: int, what: str) -> None:
        if n <= len(self._buffer) - self._at:
            return
        self._check(n, what)
        rest = self._buffer[self._at :]
        self._start, self._at = self.position, 0
        wanted = min(max(n, _CHUNK), self.size - self._start)
        try:
            self._buffer = rest + self._file.read(wanted - len(rest))
        except OSError as error:
            raise self.fail(f"it cannot be read: {error.strerror}.") from None
        if len(self._buffer) < n:
            raise self.fail(f"the file ends within {what}; it is truncated.")

    def _check(self, n: int, what: str) -> None:
        if n > self.left:
            raise self.fail(
                f"{what} would take {n} bytes and the file has {self.left} left; it is truncated "
                "or damaged."
            )
        if self.position + n > self._limit:
            raise self.fail(f"the header goes beyond {self._limit} bytes, more than any model's.")
