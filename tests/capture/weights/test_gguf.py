"""Headers of GGUF files: every type, every limit, and what a hostile file may claim."""

from __future__ import annotations

import re
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gambrel.capture.weights.ggml import REMOVED, TYPES
from gambrel.capture.weights.gguf import read_gguf
from gambrel.errors import FileFormatError
from tests.capture.weights.writer import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    U64,
    Typed,
    Writer,
    write_sparse,
)

TENSORS = [("token_embd.weight", (8, 256), "q4_k"), ("output_norm.weight", (256,), "f32")]


def save(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_sizes_and_bytes_of_tensors(tmp_path: Path) -> None:
    header = read_gguf(save(tmp_path / "a.gguf", Writer().file({"a": 1}, TENSORS)))
    table, norm = header.tensors
    assert (table.shape, table.dtype) == ((8, 256), "q4_k")
    assert table.nbytes == 8 * 144  # 8 rows of one block
    assert table.bits == 4.5
    assert norm.nbytes == 256 * 4
    assert header.nbytes == 8 * 144 + 1024


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_type_of_metadata(tmp_path: Path, version: int, order: str) -> None:
    values = {
        "u8": Typed(U8, 255),
        "i8": Typed(I8, -128),
        "u16": Typed(U16, 65535),
        "i16": Typed(I16, -2),
        "u32": Typed(U32, 2**32 - 1),
        "i32": Typed(I32, -(2**31)),
        "f32": Typed(F32, 0.5),
        "yes": Typed(BOOL, 1),
        "text": Typed(STRING, "Größe"),
        "u64": Typed(U64, 2**63),
        "i64": Typed(I64, -(2**63)),
        "f64": Typed(F64, 1e300),
        "few": Typed(ARRAY, (I32, [4, 5, 6])),
        "tokens": Typed(ARRAY, (STRING, ["a", "bc", ""])),
        "nested": Typed(ARRAY, (ARRAY, [(I32, [1]), (STRING, ["x"])])),
    }
    content = Writer(order=order, version=version).file(values, TENSORS)
    header = read_gguf(save(tmp_path / "a.gguf", content))
    found = header.metadata
    assert header.version == version
    assert found["u8"] == 255
    assert found["i8"] == -128
    assert found["i64"] == -(2**63)
    assert found["u64"] == 2**63
    assert found["f64"] == 1e300
    assert found["yes"] is True
    assert found["text"] == "Größe"
    assert found["few"] == (4, 5, 6)
    assert found["tokens"] is None
    assert header.lengths == {"few": 3, "tokens": 3, "nested": 2}


def test_long_vocabulary_is_counted_not_kept(tmp_path: Path) -> None:
    content = Writer().file({"tokens": [f"t{i}" for i in range(100_000)]}, TENSORS)
    path = save(tmp_path / "a.gguf", content)
    tracemalloc.start()
    header = read_gguf(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert header.lengths["tokens"] == 100_000
    assert peak < 4 * 2**20  # two chunks of 1 MiB, while 100,000 Python texts take 5 MB


def test_widths_of_all_formats() -> None:
    # Bits a value from llama.cpp's own table of "bpw" (README of quantize, ggml-common.h).
    bits = {"q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q5_1": 6.0, "q8_0": 8.5, "q2_k": 2.625}
    bits |= {"q3_k": 3.4375, "q4_k": 4.5, "q5_k": 5.5, "q6_k": 6.5625, "iq2_xxs": 2.0625}
    bits |= {"iq2_xs": 2.3125, "iq2_s": 2.5625, "iq3_xxs": 3.0625, "iq3_s": 3.4375}
    bits |= {"iq1_s": 1.5625, "iq1_m": 1.75, "iq4_nl": 4.5, "iq4_xs": 4.25, "tq1_0": 1.6875}
    bits |= {"tq2_0": 2.0625, "mxfp4": 4.25, "nvfp4": 4.5, "q1_0": 1.125}
    found = {form.name: form.bits for form in TYPES.values()}
    assert {name: found[name] for name in bits} == bits
    assert not TYPES.keys() & REMOVED.keys()


def test_the_file_is_read_by_its_own_program(tmp_path: Path) -> None:
    """The writer of these tests agrees with the format's own library, where that is installed."""
    gguf = pytest.importorskip("gguf")
    path = save(tmp_path / "a.gguf", Writer().file({"general.architecture": "llama"}, TENSORS))
    theirs = {t.name: (int(t.n_bytes), int(t.n_elements)) for t in gguf.GGUFReader(path).tensors}
    assert theirs == {t.name: (t.nbytes, t.elements) for t in read_gguf(path).tensors}


def test_a_split_model_is_read_whole(tmp_path: Path) -> None:
    writer = Writer()
    first = {"general.architecture": "llama", "split.count": 2, "split.no": 0}
    save(tmp_path / "m-00001-of-00002.gguf", writer.file(first, TENSORS[:1]))
    save(tmp_path / "m-00002-of-00002.gguf", writer.file({"split.no": 1}, TENSORS[1:]))
    header = read_gguf(tmp_path / "m-00001-of-00002.gguf")
    assert [t.name for t in header.tensors] == ["token_embd.weight", "output_norm.weight"]
    assert header.architecture == "llama"


def test_parts_of_a_split_model(tmp_path: Path) -> None:
    writer = Writer()
    split = {"split.count": 2}
    alone = save(tmp_path / "alone.gguf", writer.file(split, TENSORS))
    with pytest.raises(FileFormatError, match=r"one of 2 files; give the first under its own name"):
        read_gguf(alone)
    later = save(tmp_path / "m-00002-of-00002.gguf", writer.file(split, TENSORS))
    with pytest.raises(FileFormatError, match=r"later part .* give m-00001-of-00002.gguf"):
        read_gguf(later)
    first = save(tmp_path / "m-00001-of-00002.gguf", writer.file(split, TENSORS))
    with pytest.raises(FileFormatError, match=r"tensor 'token_embd.weight' is in two parts"):
        read_gguf(first)
    later.unlink()
    with pytest.raises(FileFormatError, match=r"m-00002-of-00002.gguf is no regular file"):
        read_gguf(first)


def head(tensors: int = 0, entries: int = 0, version: int = 3, order: str = "<") -> bytes:
    return b"GGUF" + struct.pack(order + "IQQ", version, tensors, entries)


W = Writer()
HOSTILE = {
    "no magic": (b"GGML" + b"\0" * 100, r"at byte 0: this is no GGUF file"),
    "version 1": (head(version=1), r"at byte 4: GGUF version 1; versions 2 and 3 are known"),
    "version 9": (head(version=9), r"GGUF version 9"),
    "many tensors": (head(tensors=2**63), r"9223372036854775808 tensors are claimed, more than"),
    "more tensors than bytes": (head(tensors=100), r"at byte 24: 100 tensors are claimed .*0 byt"),
    "many entries": (head(entries=2**40), r"1099511627776 metadata entries are claimed"),
    "key beyond the file": (
        head(entries=1) + struct.pack("<Q", 2**62) + b"abc" * 9,
        r"at byte 24: a metadata key claims 4611686018427387904 bytes; at most 27",
    ),
    "no UTF-8": (
        head(entries=1) + struct.pack("<Q", 3) + b"\xff\xfe\xfd" + b"\0" * 16,
        r"a metadata key is no UTF-8 text",
    ),
    "unknown type": (
        head(entries=1) + W.text("k") + struct.pack("<I", 13) + b"\0" * 9,
        r"the value of 'k' has the unknown type 13",
    ),
    "key twice": (
        head(entries=2) + W.entry("k", Typed(U8, 1)) * 2,
        r"at byte 38: the metadata key 'k' occurs twice",
    ),
    "truth of 2": (
        head(entries=1) + W.text("k") + struct.pack("<IB", BOOL, 2),
        r"is a truth value and holds 2",
    ),
    "text beyond the file": (
        head(entries=1) + W.text("k") + struct.pack("<IQ", STRING, 2**50) + b"\0" * 9,
        r"the value of 'k' claims 1125899906842624 bytes",
    ),
    "array beyond the file": (
        head(entries=1) + W.text("k") + struct.pack("<IIQ", ARRAY, U32, 2**40) + b"\0" * 9,
        r"1099511627776 values of the array 'k' are claimed",
    ),
    "array of unknown": (
        head(entries=1) + W.text("k") + struct.pack("<IIQ", ARRAY, 77, 1) + b"\0" * 9,
        r"has values of the unknown type 77",
    ),
    "deep arrays": (
        head(entries=1)
        + W.text("k")
        + struct.pack("<I", ARRAY)
        + struct.pack("<IQ", ARRAY, 1) * 1000
        + b"\0" * 99,
        r"nests arrays more than 4 deep; refused",
    ),
    "five dimensions": (
        head(tensors=1) + W.tensor("t", [1] * 5, 0, 0),
        r"at byte 24: the tensor 't' claims 5 dimensions",
    ),
    "unknown format": (
        head(tensors=1) + W.tensor("t", [32], 99, 0),
        r"the unknown number format 99\.",
    ),
    "dropped format": (
        head(tensors=1) + W.tensor("t", [32], 31, 0),
        r"format 31 \(q4_0_4_4, which llama.cpp",
    ),
    "broken block": (
        head(tensors=1) + W.tensor("t", [100, 4], 12, 0),
        r"rows of 100 values, no multiple of the 256 of a block of q4_k",
    ),
    "impossible sizes": (
        head(tensors=1) + W.tensor("t", [2**40, 2**40], 0, 0),
        r"'t' claims impossible sizes",
    ),
    "tensor twice": (
        head(tensors=2) + W.tensor("t", [4], 0, 0) + W.tensor("t", [4], 0, 32) + b"\0" * 200,
        r"at byte 57: the tensor 't' occurs twice",
    ),
    "overlap": (
        head(tensors=2) + W.tensor("a", [64], 0, 0) + W.tensor("b", [64], 0, 32) + b"\0" * 999,
        r"at byte 57: the tensor 'b' overlaps the tensor 'a'",
    ),
    "not aligned": (
        head(tensors=1) + W.tensor("a", [4], 0, 5) + b"\0" * 999,
        r"the tensor 'a' is not aligned to 32 bytes",
    ),
    "beyond the end": (
        head(tensors=1) + W.tensor("a", [2**30], 0, 0) + b"\0" * 99,
        r"'a' would end at byte 42949673\d\d of a file of \d+; it is truncated",
    ),
    "odd alignment": (
        head(entries=1) + W.entry("general.alignment", Typed(U32, 48)),
        r"general.alignment is 48; it must be a power of two",
    ),
    "no alignment": (
        head(entries=1) + W.entry("general.alignment", Typed(U32, 0)),
        r"alignment is 0;",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(tmp_path: Path, name: str) -> None:
    content, sentence = HOSTILE[name]
    path = save(tmp_path / "bad.gguf", content)
    tracemalloc.start()
    with pytest.raises(FileFormatError, match=sentence) as caught:
        read_gguf(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
    assert str(caught.value).startswith(f"{path}: at byte ")
    assert "\n" not in str(caught.value)


def test_a_huge_claim_in_a_huge_file_allocates_nothing(tmp_path: Path) -> None:
    """A sparse file of 1 TB lets every length be within the file."""
    text = head(entries=1) + W.text("k") + struct.pack("<IQ", STRING, 2**39)
    path = write_sparse(tmp_path / "big.gguf", text, 2**40)
    with pytest.raises(FileFormatError, match=r"claims 549755813888 bytes; at most 16777216 are"):
        read_gguf(path)
    numbers = head(entries=1) + W.text("k") + struct.pack("<IIQ", ARRAY, U64, 2**36)
    path = write_sparse(tmp_path / "big.gguf", numbers, 2**40)
    with pytest.raises(FileFormatError, match=r"68719476736 values .* more than the"):
        read_gguf(path)
    long = head(entries=1) + W.text("k") + struct.pack("<IIQ", ARRAY, U64, 2**28)
    path = write_sparse(tmp_path / "big.gguf", long, 2**40)
    with pytest.raises(FileFormatError, match=r"the header goes beyond 536870912 bytes"):
        read_gguf(path)


def test_missing_and_odd_files(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none.gguf is no regular file"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(FileFormatError, match=r"is no regular file"):
        read_gguf(tmp_path)
    empty = save(tmp_path / "empty.gguf", b"")
    with pytest.raises(FileFormatError, match=r"at byte 0: the magic would take 4 bytes"):
        read_gguf(empty)


GOOD = Writer().file({"a": 1, "t": "text", "l": [1, 2], "s": ["x", "y"]}, TENSORS)


@pytest.mark.parametrize("length", range(0, len(GOOD), 7))
def test_every_truncation_is_refused(tmp_path: Path, length: int) -> None:
    path = save(tmp_path / "cut.gguf", GOOD[:length])
    with pytest.raises(FileFormatError, match=r"at byte \d+"):
        read_gguf(path)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=12
    ),
    cut=st.integers(0, len(GOOD)),
)
def test_damaged_files_are_read_or_refused(
    tmp_path: Path, changes: list[tuple[int, int]], cut: int
) -> None:
    content = bytearray(GOOD)
    for at, value in changes:
        content[at] = value
    path = save(tmp_path / "fuzz.gguf", bytes(content[: cut or None]))
    sentence = ""
    try:
        found = read_gguf(path).tensors
    except FileFormatError as error:
        found, sentence = (), str(error)
    assert all(t.nbytes >= 0 for t in found)
    assert not sentence or re.search(r"at byte \d+|split", sentence)


@settings(max_examples=200, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    form=st.sampled_from(["f32", "q8_0", "q4_k", "q6_k", "mxfp4", "bf16"]),
)
def test_bytes_by_a_count_of_blocks(shape: list[int], form: str) -> None:
    """A loop over blocks finds the same bytes."""
    import tempfile

    block = {"f32": 1, "bf16": 1, "q8_0": 32, "mxfp4": 32}.get(form, 256)
    nbytes = {"f32": 4, "bf16": 2, "q8_0": 34, "mxfp4": 17, "q4_k": 144, "q6_k": 210}[form]
    whole = [*shape[:-1], shape[-1] * block]
    rows = 1
    for n in shape[:-1]:
        rows *= n
    total = sum(nbytes for _ in range(rows) for _ in range(shape[-1]))
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder) / "a.gguf", Writer().file({}, [("t", whole, form)]))
        assert read_gguf(path).tensors[0].nbytes == total


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("lengths", [[2**20 + 5], [0, 2**20 - 20, 3, 2**21, 1], [9] * 200_000])
def test_texts_over_the_ends_of_the_buffer(tmp_path: Path, lengths: list[int], order: str) -> None:
    values = {"t": Typed(ARRAY, (STRING, ["x" * n for n in lengths])), "after": 7}
    path = save(tmp_path / "a.gguf", Writer(order=order).file(values, TENSORS))
    header = read_gguf(path)
    assert header.lengths["t"] == len(lengths)
    assert header.metadata["after"] == 7
    assert len(header.tensors) == 2


def test_a_long_token_and_a_missing_one(tmp_path: Path) -> None:
    begin = head(entries=1) + W.text("k") + struct.pack("<IIQ", ARRAY, STRING, 2)
    long = write_sparse(tmp_path / "l.gguf", begin + struct.pack("<Q", 2**30), 2**31)
    with pytest.raises(FileFormatError, match=r"claims 1073741824 bytes; more than any token"):
        read_gguf(long)
    short = save(tmp_path / "s.gguf", begin + struct.pack("<Q", 4) + b"abcdef" + b"\0" * 4)
    with pytest.raises(FileFormatError, match=r"at byte \d+: a text of the array 'k'"):
        read_gguf(short)
