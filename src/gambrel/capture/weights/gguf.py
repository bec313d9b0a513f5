"""Headers of GGUF files, versions 2 and 3: metadata and tensors, no bytes of weights.

Format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): the magic, a version, the number
of tensors and of metadata; the metadata (key, type, value); for each tensor its name, sizes (the
fastest first), number format and offset; then, aligned, the tensors' bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from gambrel.capture.weights.cursor import Cursor
from gambrel.capture.weights.ggml import REMOVED, TYPES
from gambrel.capture.weights.stored import StoredTensor
from gambrel.errors import FileFormatError

#: Largest header that is read. Vocabularies of 256,000 tokens with merges are 20 MB.
MAX_HEADER_BYTES: Final = 512 * 2**20
#: Most entries of metadata, and most tensors; DeepSeek-V3 has 1,147 tensors.
MAX_METADATA: Final = 100_000
MAX_TENSORS: Final = 200_000
#: Longest name of a key or tensor, and longest text (a chat template is 20 kB).
MAX_NAME_BYTES: Final = 65_535
MAX_TEXT_BYTES: Final = 16 * 2**20
#: Most values of an array that are walked one by one, and those that are kept (sizes by layer).
MAX_WALKED: Final = 8_000_000
MAX_KEPT: Final = 4096
#: Arrays in arrays in arrays.
MAX_DEPTH: Final = 4
#: The format allows 4 dimensions.
MAX_DIMENSIONS: Final = 4
#: Most files that one model is split into.
MAX_PARTS: Final = 1000

Value: TypeAlias = int | float | bool | str | tuple[Any, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What a GGUF file says of its model.

    Attributes:
        path: The file.
        version: Of the format.
        metadata: Key → value. An array of numbers is a tuple where it is short (sizes by layer),
            other arrays are None.
        lengths: Key of an array → number of values.
        tensors: In the order of the header.
    """

    path: Path
    version: int
    metadata: dict[str, Value]
    tensors: tuple[StoredTensor, ...]
    lengths: dict[str, int] = field(default_factory=dict)

    @property
    def architecture(self) -> str:
        """llama.cpp's name for the architecture, e.g. ``"qwen3moe"``; empty when absent."""
        found = self.metadata.get("general.architecture")
        return found if isinstance(found, str) else ""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(t.nbytes for t in self.tensors)

    def of_architecture(self, key: str) -> Value:
        """The value of ``<architecture>.<key>``; None when absent."""
        return self.metadata.get(f"{self.architecture}.{key}")


def read_gguf(path: str | Path) -> GgufHeader:
    """Reads the header of a GGUF file, or of all files of a model that was split.

    Args:
        path: The file; of a split model (``...-00001-of-00003.gguf``) the first one.

    Raises:
        FileFormatError: It is truncated, damaged or claims what cannot be; the message names the
            byte.
    """
    path = Path(path)
    first = _read_one(path)
    count = first.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return first
    tensors = {t.name: t for t in first.tensors}
    for part in _parts(path, count)[1:]:
        for tensor in _read_one(part).tensors:
            if tensor.name in tensors:
                raise FileFormatError(f"{part}: the tensor {tensor.name!r} is in two parts.")
            tensors[tensor.name] = tensor
    return GgufHeader(
        path=path,
        version=first.version,
        metadata=first.metadata,
        tensors=tuple(tensors.values()),
        lengths=first.lengths,
    )


_SPLIT: Final = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})$")


def _parts(path: Path, count: int) -> list[Path]:
    """The files of a split model, in order."""
    if count > MAX_PARTS:
        raise FileFormatError(f"{path}: split into {count} files, more than any model; refused.")
    found = _SPLIT.match(path.stem)
    if found is None:
        raise FileFormatError(
            f"{path} is one of {count} files; give the first under its own name, "
            f"like model-00001-of-{count:05}.gguf."
        )
    if int(found["number"]) != 1:
        first = f"{found['stem']}-00001-of-{found['count']}{path.suffix}"
        raise FileFormatError(f"{path} is a later part of a split model; give {first}.")
    names = [f"{found['stem']}-{i:05}-of-{count:05}{path.suffix}" for i in range(1, count + 1)]
    return [path, *(path.with_name(name) for name in names[1:])]


def _read_one(path: Path) -> GgufHeader:
    with Cursor(path, MAX_HEADER_BYTES) as cursor:
        version = _version(cursor)
        tensors = cursor.number("Q", "the number of tensors")
        entries = cursor.number("Q", "the number of metadata entries")
        # An entry has at least an empty key (8 bytes), a type (4) and one byte of value; a tensor
        # an empty name (8), no sizes (4), a format (4) and an offset (8).
        _check_count(cursor, "metadata entries", entries, 13, MAX_METADATA)
        _check_count(cursor, "tensors", tensors, 24, MAX_TENSORS)
        metadata: dict[str, Value] = {}
        lengths: dict[str, int] = {}
        for _ in range(entries):
            _entry(cursor, metadata, lengths)
        placed = _tensors(cursor, tensors)
        _check_places(cursor, placed, _alignment(cursor, metadata))
    stored = tuple(p.tensor for p in placed)
    return GgufHeader(
        path=path, version=version, metadata=metadata, tensors=stored, lengths=lengths
    )


def _version(cursor: Cursor) -> int:
    if cursor.take(4, "the magic") != b"GGUF":
        raise cursor.fail("this is no GGUF file: it does not begin with 'GGUF'.", 0)
    version = cursor.number("I", "the version")
    if version & 0xFFFF == 0 and version:  # written on a machine of the other order of bytes
        cursor.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in {2, 3}:
        raise cursor.fail(
            f"GGUF version {version}; versions 2 and 3 are known. Convert the file again.", 4
        )
    return version


def _check_count(cursor: Cursor, what: str, count: int, least: int, limit: int) -> None:
    if count > limit:
        raise cursor.fail(f"{count} {what} are claimed, more than the {limit} of any model.")
    if count * least > cursor.left:
        raise cursor.fail(
            f"{count} {what} are claimed and the file has only {cursor.left} bytes left; it is "
            "truncated or damaged."
        )


def _text(cursor: Cursor, what: str, limit: int = MAX_TEXT_BYTES) -> str:
    at = cursor.position
    length = cursor.number("Q", f"the length of {what}")
    if length > min(limit, cursor.left):
        raise cursor.fail(
            f"{what} claims {length} bytes; at most {min(limit, cursor.left)} are possible.", at
        )
    try:
        return cursor.take(length, what).decode("utf-8")
    except UnicodeDecodeError:
        raise cursor.fail(f"{what} is no UTF-8 text; the file is damaged.", at) from None


def _entry(cursor: Cursor, metadata: dict[str, Value], lengths: dict[str, int]) -> None:
    at = cursor.position
    key = _text(cursor, "a metadata key", MAX_NAME_BYTES)
    if key in metadata:
        raise cursor.fail(f"the metadata key {key[:80]!r} occurs twice.", at)
    kind = cursor.number("I", f"the type of {key[:80]!r}")
    if kind != _ARRAY:
        metadata[key] = _scalar(cursor, kind, f"the value of {key[:80]!r}")
        return
    length, values = _array(cursor, f"the array {key[:80]!r}", 1)
    lengths[key] = length
    metadata[key] = values


_ARRAY: Final = 9
_BOOL: Final = 7
_STRING: Final = 8
#: Type of metadata → letter of `struct` and bytes.
_NUMBERS: Final[dict[int, tuple[str, int]]] = {
    0: ("B", 1),
    1: ("b", 1),
    2: ("H", 2),
    3: ("h", 2),
    4: ("I", 4),
    5: ("i", 4),
    6: ("f", 4),
    7: ("B", 1),
    10: ("Q", 8),
    11: ("q", 8),
    12: ("d", 8),
}


def _scalar(cursor: Cursor, kind: int, what: str) -> Value:
    if kind == _STRING:
        return _text(cursor, what)
    if kind not in _NUMBERS:
        raise cursor.fail(f"{what} has the unknown type {kind}; types are 0 to 12.")
    value = cursor.value(_NUMBERS[kind][0], what)
    if kind != _BOOL:
        return value
    if value not in {0, 1}:
        raise cursor.fail(f"{what} is a truth value and holds {value}; the file is damaged.")
    return bool(value)


def _array(cursor: Cursor, what: str, depth: int) -> tuple[int, tuple[Any, ...] | None]:
    """Number of values, and the values where they are few numbers."""
    kind = cursor.number("I", f"the type of {what}")
    length = cursor.number("Q", f"the length of {what}")
    if kind in _NUMBERS:
        form, nbytes = _NUMBERS[kind]
        _check_count(cursor, f"values of {what}", length, nbytes, MAX_HEADER_BYTES)
        if length <= MAX_KEPT:
            return length, tuple(cursor.value(form, what) for _ in range(length))
        cursor.skip(length * nbytes, what)
        return length, None
    _check_count(cursor, f"values of {what}", length, _least(cursor, kind, what), MAX_WALKED)
    if kind == _STRING:
        cursor.skip_texts(length, MAX_TEXT_BYTES, f"a text of {what}")
        return length, None
    if depth >= MAX_DEPTH:
        raise cursor.fail(f"{what} nests arrays more than {MAX_DEPTH} deep; refused.")
    for _ in range(length):
        _array(cursor, what, depth + 1)
    return length, None


def _least(cursor: Cursor, kind: int, what: str) -> int:
    """Fewest bytes of a text (its length) or an array (type and length)."""
    if kind == _STRING:
        return 8
    if kind == _ARRAY:
        return 12
    raise cursor.fail(f"{what} has values of the unknown type {kind}; types are 0 to 12.")


@dataclass(frozen=True, slots=True)
class _Placed:
    """A tensor and where its bytes stand, from the start of the data; ``at`` in the header."""

    tensor: StoredTensor
    offset: int
    at: int


def _tensors(cursor: Cursor, count: int) -> list[_Placed]:
    placed: list[_Placed] = []
    names: set[str] = set()
    for _ in range(count):
        at = cursor.position
        name = _text(cursor, "a tensor's name", MAX_NAME_BYTES)
        if name in names:
            raise cursor.fail(f"the tensor {name[:80]!r} occurs twice.", at)
        names.add(name)
        placed.append(_tensor(cursor, name, at))
    return placed


def _tensor(cursor: Cursor, name: str, at: int) -> _Placed:
    what = f"the tensor {name[:80]!r}"
    dimensions = cursor.number("I", f"the dimensions of {what}")
    if dimensions > MAX_DIMENSIONS:
        raise cursor.fail(f"{what} claims {dimensions} dimensions; at most 4 are possible.", at)
    sizes = [cursor.number("Q", f"the sizes of {what}") for _ in range(dimensions)]
    kind = cursor.number("I", f"the number format of {what}")
    offset = cursor.number("Q", f"the place of {what}")
    if kind not in TYPES:
        gone = f" ({REMOVED[kind]}, which llama.cpp dropped)" if kind in REMOVED else ""
        raise cursor.fail(f"{what} has the unknown number format {kind}{gone}.", at)
    form = TYPES[kind]
    fastest = sizes[0] if sizes else 1
    if fastest % form.block:
        raise cursor.fail(
            f"{what} has rows of {fastest} values, no multiple of the {form.block} of a block of "
            f"{form.name}.",
            at,
        )
    elements = 1
    for size in sizes:
        elements *= size
        if elements >= 2**60:
            raise cursor.fail(f"{what} claims impossible sizes.", at)
    stored = StoredTensor(
        name=name,
        shape=tuple(reversed(sizes)),
        dtype=form.name,
        nbytes=elements // form.block * form.nbytes,
    )
    return _Placed(stored, offset, at)


def _alignment(cursor: Cursor, metadata: dict[str, Value]) -> int:
    found = metadata.get("general.alignment", 32)
    if not isinstance(found, int) or not 1 <= found <= 2**20 or found & (found - 1):
        raise cursor.fail(f"general.alignment is {found!r}; it must be a power of two.")
    return found


def _check_places(cursor: Cursor, placed: list[_Placed], alignment: int) -> None:
    """Every tensor lies aligned within the file, and none within another."""
    data = -(-cursor.position // alignment) * alignment
    end, before = 0, ""
    for one in sorted(placed, key=_place):
        what = f"the tensor {one.tensor.name[:80]!r}"
        if one.offset % alignment:
            raise cursor.fail(f"{what} is not aligned to {alignment} bytes.", one.at)
        if one.offset < end:
            raise cursor.fail(f"{what} overlaps the tensor {before[:80]!r}.", one.at)
        end, before = one.offset + one.tensor.nbytes, one.tensor.name
        if data + end > cursor.size:
            raise cursor.fail(
                f"{what} would end at byte {data + end} of a file of {cursor.size}; it is "
                "truncated.",
                one.at,
            )


def _place(one: _Placed) -> tuple[int, int]:
    return one.offset, one.tensor.nbytes
