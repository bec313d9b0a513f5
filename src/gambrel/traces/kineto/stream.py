"""Events of a trace in pieces: a file of any size is read in the memory of one piece.

The array of events is cut between two events. Where that is, a search at the speed of C finds; that
it is no text inside a string, the decoder proves: a piece that starts at an event and decodes as a
list ends at one.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from gambrel.errors import FileFormatError
from gambrel.traces.kineto.events import Rest, TraceEvent
from gambrel.traces.source import tell

#: Bytes that are decoded at once.
PIECE: Final = 1 << 20
#: Decompressed bytes that are accepted: of a whole file, and for each compressed one. Traces reach
#: 60, bombs 1,000.
MOST_BYTES: Final = 16 * 2**30
_MOST_RATIO: Final = 400
#: Bytes without the end of an event after which a file is given up.
_MOST_HELD: Final = 64 << 20
_GZIP: Final = b"\x1f\x8b"
_LIST: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN: Final = re.compile(rb'\}\s*,\s*(?=\{\s*"([^"\\]{0,64})")')
_FIRST_KEY: Final = re.compile(rb'\s*\{\s*"([^"\\]{0,64})"')
_AT_BYTE: Final = re.compile(r"\(byte (\d+)\)")
#: Bytes at the end of a piece that are searched for the end of an event, and places tried.
_TAIL: Final = 1 << 17
_MOST_TRIED: Final = 8

_EVENTS: Final = msgspec.json.Decoder(list[TraceEvent])


class EventStream:
    """The events of one file, piece by piece; afterwards what else it holds.

    Attributes:
        rest: The other keys of the file; complete once all pieces have been taken.
    """

    def __init__(self, path: Path) -> None:
        self.rest = Rest()
        self._path = path
        self._source = unpacked(path)
        self._offset = 0  # of the first byte that is held
        self._held = b""

    def pieces(self) -> Iterator[list[TraceEvent]]:
        """Takes the events in order.

        Raises:
            FileFormatError: Not readable, truncated, no trace, or too large.
        """
        try:
            before = self._find_list()
            first = _FIRST_KEY.match(self._held)
            key = first[1] if first else b""
            for block in self._source:
                self._held += block
                if len(self._held) < PIECE:
                    continue
                events, ended = self._take(key)
                if events:
                    yield events
                if ended:
                    break
            yield from self._last(before)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._refusal(error) from None

    def _find_list(self) -> bytes:
        """Reads up to the first event; returns what stands before the list."""
        self._more()
        if self._held.startswith(codecs.BOM_UTF8):
            self._held, self._offset = self._held[3:], 3
        if self._held.lstrip()[:1] == b"[":  # the bare list, which the format allows as well
            at = self._held.index(b"[") + 1
            before, self._held = b"", self._held[at:]
            self._offset += at
            return before
        while (found := _LIST.search(self._held)) is None:
            if not self._more():
                return self._without_list()
        before, self._held = self._held[: found.start()], self._held[found.end() :]
        self._offset += found.end()
        return before

    def _more(self) -> bool:
        block = next(self._source, None)
        if block is None:
            return False
        self._held += block
        if len(self._held) > _MOST_HELD:
            raise FileFormatError(
                f"{self._path}, offset {self._offset}: {_MOST_HELD:,} bytes without an event."
            )
        return True

    def _without_list(self) -> bytes:
        self.rest = msgspec.json.decode(self._held, type=Rest)
        raise FileFormatError(
            f"{self._path}, offset 0: a JSON object without 'traceEvents' is no trace."
        )

    def _take(self, key: bytes) -> tuple[list[TraceEvent], bool]:
        """Decodes what is held up to the last end of an event that can be found."""
        start = max(len(self._held) - _TAIL, 0)
        ends = list(_BETWEEN.finditer(self._held, start))
        likely = [m for m in ends if m[1] == key] or ends
        for found in reversed(likely[-_MOST_TRIED:]):
            end = found.start() + 1
            try:
                events = _EVENTS.decode(b"[%b]" % self._held[:end])
            except msgspec.ValidationError:
                raise
            except msgspec.DecodeError as error:
                text, at = str(error), _AT_BYTE.search(str(error))
                if "trailing" in text:
                    return [], True  # the list ends within this piece
                if "truncated" not in text and at and int(at[1]) < end:
                    raise  # damage, not a wrong place to cut
                continue
            self._held = self._held[found.end() :]
            self._offset += found.end()
            return events, False
        if len(self._held) > _MOST_HELD:
            self._more()  # refuses
        return [], False

    def _last(self, before: bytes) -> Iterator[list[TraceEvent]]:
        """The end of the list and what follows it."""
        while self._more():
            pass
        text = b"[" + self._held
        try:
            events, after = _EVENTS.decode(text), b""
        except msgspec.DecodeError as error:
            at = _AT_BYTE.search(str(error))
            end = text.rfind(b"]", 0, int(at[1])) + 1 if at else 0
            if "trailing" not in str(error) or not end:
                raise
            events, after = _EVENTS.decode(text[:end]), text[end:]
        yield events
        self._held, self._offset = after, self._offset + len(text) - len(after) - 1
        if before or after.strip():
            self._held = before + b'"traceEvents":[]' + after
            self._offset = 0
            self.rest = msgspec.json.decode(self._held, type=Rest)

    def _refusal(self, error: Exception) -> FileFormatError:
        text = str(error)
        at = _AT_BYTE.search(text)
        where = self._offset + (int(at[1]) if at else len(self._held))
        if "truncated" in text:
            text = "the file ends in the middle; it was cut off, record or copy it again"
        return FileFormatError(f"{self._path}, offset {where}: no complete trace: {text}.")


def unpacked(path: Path) -> Iterator[bytes]:
    """Blocks of a file, decompressed where it is compressed.

    Raises:
        FileFormatError: Not readable, damaged, or a bomb.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            blocks = iter(lambda: file.read(PIECE >> (3 if packed else 0)), b"")
            for block in _gunzip(blocks, path, size) if packed else blocks:
                tell(path, file.tell())
                yield block
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}.") from None


def _gunzip(blocks: Iterator[bytes], path: Path, size: int) -> Iterator[bytes]:
    limit = min(MOST_BYTES, size * _MOST_RATIO + (1 << 20))
    machine, begun = zlib.decompressobj(31), False
    read = written = 0
    try:
        for block in blocks:
            read += len(block)
            while block:
                begun = True
                out = machine.decompress(block, PIECE)
                written += len(out)
                if written > limit:
                    raise FileFormatError(
                        f"{path}, byte {read}: unpacks to more than {limit:,} bytes; not read."
                    )
                if out:
                    yield out
                block = machine.unconsumed_tail
                if machine.eof:  # members may follow one another; zeros may follow the last
                    block = machine.unused_data.lstrip(b"\0")
                    machine, begun = zlib.decompressobj(31), False
    except zlib.error as error:
        raise FileFormatError(f"{path}, near byte {read}: damaged gzip file ({error}).") from None
    if begun:
        raise FileFormatError(f"{path}, byte {read}: the compressed file is cut off.")
