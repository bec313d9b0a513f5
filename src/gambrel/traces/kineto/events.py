"""Events of a trace, decoded without what is not needed, in old and new spellings."""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.errors import FileFormatError
from gambrel.traces.source import MAX_BYTES, read_bytes

#: Decompressed bytes that are accepted for each compressed one; traces reach 60, bombs 1,000.
_MOST_RATIO: Final = 400
_GZIP: Final = b"\x1f\x8b"


class Args(msgspec.Struct):
    """Arguments of an event; spellings differ by version, types by vendor, hence Any."""

    external_id: Any = msgspec.field(default=None, name="External id")
    external_id_low: Any = msgspec.field(default=None, name="external id")
    correlation: Any = None
    device: Any = None
    stream: Any = None
    grid: Any = None
    block: Any = None
    bytes: Any = None
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Input Dims")
    old_dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Input dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Concrete Inputs")
    occupancy: Any = msgspec.field(default=None, name="est. achieved occupancy %")

    @property
    def op_id(self) -> int | None:
        """Id of the op that the event belongs to."""
        return _int(self.external_id if self.external_id is not None else self.external_id_low)


class Event(msgspec.Struct):
    """One event; times in microseconds as recorded."""

    ph: str = ""
    cat: str = ""
    name: Any = ""
    ts: Any = None
    dur: Any = None
    pid: Any = None
    tid: Any = None
    args: Args | None = None

    @property
    def kind(self) -> str:
        """Category in its newest spelling."""
        low = self.cat.lower()
        return _OLD_KINDS.get(low, low)

    @property
    def span(self) -> tuple[float, float] | None:
        """Start and end in microseconds; None where they make no sense."""
        try:
            start, length = float(self.ts), float(self.dur)
        except (TypeError, ValueError):
            return None
        ok = length >= 0 and abs(start) < 1e18 and length < 1e15
        return (start, start + length) if ok else None


_OLD_KINDS: Final = {
    "operator": "cpu_op",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "runtime": "cuda_runtime",
}


class Property(msgspec.Struct):
    """A device of the trace."""

    name: Any = ""


class Trace(msgspec.Struct):
    """A trace file."""

    events: list[Event] = msgspec.field(default_factory=list, name="traceEvents")
    devices: list[Property] | None = msgspec.field(default=None, name="deviceProperties")
    distributed: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="distributedInfo")


def is_kineto(head: bytes, text: str) -> bool:
    """Whether a file begins like a trace, compressed or not."""
    if head.startswith(_GZIP):
        try:
            text = zlib.decompressobj(31).decompress(head, 1 << 16).decode("utf-8", "replace")
        except zlib.error:
            return False
    start = text.lstrip("\ufeff \r\n\t")
    names = ('"traceEvents"', '"deviceProperties"', '"schemaVersion"', '"ph"')
    return start.startswith(("{", "[")) and any(name in text for name in names)


def load(path: Path) -> Trace:
    """Decodes a trace, ``.json`` or ``.json.gz``.

    Raises:
        FileFormatError: Not readable, truncated, no trace, or too large.
    """
    data = read_bytes(path)
    if data.startswith(_GZIP):
        data = _unpack(data, path)
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    start = data[:4096].lstrip()[:1]
    try:
        if start == b"[":  # the bare list of events that the trace format allows as well
            return Trace(events=msgspec.json.decode(data, type=list[Event]))
        return msgspec.json.decode(data, type=Trace)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = str(error)
        if "truncated" in text:
            text = "the file ends in the middle; it was cut off, record or copy it again"
        raise FileFormatError(f"{path}: no complete trace: {text}.") from None


def parse_list(raw: msgspec.Raw) -> list[Any]:
    """A list kept undecoded; empty when there is none."""
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _unpack(data: bytes, path: Path) -> bytes:
    limit = min(MAX_BYTES, len(data) * _MOST_RATIO + (1 << 20))
    machine = zlib.decompressobj(31)
    try:
        out = machine.decompress(data, limit)
        if machine.unconsumed_tail:
            raise FileFormatError(f"{path}: unpacks to more than {limit:,} bytes; not read.")
        if not machine.eof:
            raise FileFormatError(f"{path}: the compressed file is cut off.")
        if machine.unused_data.startswith(_GZIP):
            rest = _unpack(machine.unused_data, path)  # members one after another
            return out + rest
    except (zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path}: damaged gzip file ({error}).") from None
    return out


def _int(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def to_int(value: Any) -> int | None:
    """A number as vendors write it, 7 or "7"; None for anything else."""
    return _int(value)
