"""Events of a trace, decoded without what is not needed, in old and new spellings."""

from __future__ import annotations

import zlib
from typing import Any, Final

import msgspec

_GZIP: Final = b"\x1f\x8b"


class Args(msgspec.Struct, gc=False):
    """Arguments of an event; spellings differ by version, types by vendor, hence Any."""

    external_id: Any = msgspec.field(default=None, name="External id")
    external_id_low: Any = msgspec.field(default=None, name="external id")
    correlation: Any = None
    device: Any = None
    stream: Any = None
    grid: msgspec.Raw = msgspec.Raw(b"null")
    block: msgspec.Raw = msgspec.Raw(b"null")
    bytes: Any = None
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Input Dims")
    old_dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Input dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Concrete Inputs")
    occupancy: Any = msgspec.field(default=None, name="est. achieved occupancy %")
    blocks: Any = msgspec.field(default=None, name="blocks per SM")


class TraceEvent(msgspec.Struct, gc=False):
    """One event; times in microseconds as recorded."""

    ph: Any = ""
    cat: Any = ""
    name: Any = ""
    ts: Any = None
    dur: Any = None
    pid: Any = None
    tid: Any = None
    args: Args | None = None

    @property
    def kind(self) -> str:
        """Category in its newest spelling."""
        return kind_of(self.cat)

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


def kind_of(category: Any) -> str:
    """A category in its newest spelling."""
    low = category.lower() if isinstance(category, str) else ""
    return _OLD_KINDS.get(low, low)


class Property(msgspec.Struct):
    """A device of the trace."""

    name: Any = ""


class Rest(msgspec.Struct):
    """What a trace file holds beside its events."""

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


def parse_list(raw: msgspec.Raw) -> list[Any]:
    """A list kept undecoded; empty when there is none."""
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def to_int(value: Any) -> int | None:
    """A number as vendors write it, 7 or "7"; None for anything else."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None
