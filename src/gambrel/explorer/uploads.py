"""Files that a page sends: of a large one only the parts that describe the model.

A request is the length of its description (4 bytes, little-endian), the description as JSON, and
the parts one after another. What is written has the size of the file; what was not sent is a hole.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final

import msgspec

from gambrel.errors import FileFormatError, InputError
from gambrel.explorer.desk import UPLOAD

#: Bytes of a request at most.
MOST_BYTES: Final = 256 * 1024**2
#: Bytes of a file at most, holes included.
_LARGEST: Final = 4 * 1024**4


class FilePart(msgspec.Struct, frozen=True, array_like=True):
    """Where a part of a file lies.

    Attributes:
        start: Byte of the file.
        size: Bytes.
    """

    start: int
    size: int


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is sent.

    Attributes:
        name: Its own name.
        size: Bytes of the whole.
        parts: Those that follow, in this order.
        group: Folder of an earlier file that belongs to the same model; empty for a new one.
    """

    name: str
    size: int
    parts: tuple[FilePart, ...]
    group: str = ""


def store(body: bytes, folder: Path) -> str:
    """Writes a file that was sent; returns what the page calls it from then on.

    Raises:
        FileFormatError: The request is not as it should be.
    """
    length = int.from_bytes(body[:4], "little")
    try:
        file = msgspec.json.decode(body[4 : 4 + length], type=Description)
    except msgspec.MsgspecError as error:
        raise FileFormatError(f"the description of the file cannot be read: {error}.") from None
    name = _safe(file.name)
    parts = body[4 + length :]
    if sum(part.size for part in file.parts) != len(parts) or not 0 <= file.size <= _LARGEST:
        raise FileFormatError(f"{name}: the parts that were sent do not add up.")
    if any(p.start < 0 or p.size < 0 or p.start + p.size > file.size for p in file.parts):
        raise FileFormatError(f"{name}: a part lies outside of the file.")
    group = _safe(file.group) if file.group else uuid.uuid4().hex[:12]
    (folder / group).mkdir(exist_ok=True)
    with (folder / group / name).open("wb") as written:
        written.truncate(file.size)
        at = 0
        for part in file.parts:
            written.seek(part.start)
            written.write(parts[at : at + part.size])
            at += part.size
    return f"{UPLOAD}{group}/{name}"


def _safe(name: str) -> str:
    """The last part of a name, which no path can hide in."""
    plain = name.replace("\\", "/").rpartition("/")[2]
    if plain in ("", ".", "..") or len(plain) > 200 or not plain.isprintable():
        raise InputError(f"{name[:100]!r} is not a name of a file.")
    return plain
