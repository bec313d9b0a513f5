"""Device files: what is accepted, and the sentence for everything that is not."""

import pytest

from gambrel.device.files import MAX_BYTES, load_file
from gambrel.device.model import CeilingKind
from gambrel.errors import FileFormatError

MINIMAL = """
id = "board"
name = "A Board"

[[ceilings]]
engine = "matrix"
dtype = "fp16"
flop_per_s = "989T"

[[memory]]
name = "DRAM"
capacity_bytes = "80GiB"
byte_per_s = "3.35TB/s"
"""


def read(tmp_path, text):
    path = tmp_path / "board.toml"
    path.write_text(text, encoding="utf-8")
    return load_file(path)


def test_a_minimal_file_is_a_device(tmp_path):
    device = read(tmp_path, MINIMAL)
    ceiling = device.ceiling("matrix", "fp16")
    assert ceiling.flop_per_s == 989e12
    assert (ceiling.kind, ceiling.source.confidence) == (CeilingKind.USER, "user")
    assert ceiling.source.title == "given in board.toml"
    dram = device.level("DRAM")
    assert (dram.capacity_bytes, dram.byte_per_s) == (85_899_345_920, 3.35e12)


def test_numbers_may_be_plain_and_sources_shared(tmp_path):
    device = read(
        tmp_path,
        """
id = "board"
name = "A Board"
tdp_w = "15W"
tdp_source = "sheet"
[[ceilings]]
engine = "matrix"
dtype = "int8"
flop_per_s = 26e12
sparse_flop_per_s = "52T"
source = "sheet"
sparse_source = "own"
[[links]]
name = "pcie"
byte_per_s = "3.94GB/s"
direction = "per direction"
source = "sheet"
[[facts]]
name = "boost_clock"
value = 1000000000
unit = "Hz"
[sources.sheet]
title = "Data sheet"
url = "https://example.org/sheet"
date = "2024-05"
confidence = "primary"
[sources.own]
title = "units x clock x rate"
confidence = "derived"
""",
    )
    ceiling = device.ceiling("matrix", "int8")
    assert (ceiling.source.date, ceiling.kind) == ("2024-05", CeilingKind.DATASHEET)
    assert (ceiling.sparse_flop_per_s, ceiling.sparse_source.confidence) == (52e12, "derived")
    assert (device.tdp_w, device.tdp_source.title) == (15.0, "Data sheet")
    assert device.links[0].byte_per_s == 3.94e9
    assert device.fact("boost_clock").source.confidence == "user"


def test_a_level_of_several_memories_and_a_demonstrated_rate(tmp_path):
    device = read(
        tmp_path,
        MINIMAL + '[[memory]]\nname = "L1"\ninstance_bytes = "128KiB"\nper_unit = 2\n'
        "byte_per_clock = 64\n"
        '[[demonstrated]]\nengine = "matrix"\ndtype = "int8"\nflop_per_s = "1T"\n',
    )
    shared = device.level("L1")
    assert (shared.instance_bytes, shared.per_unit, shared.byte_per_clock) == (131072, 2, 64)
    assert shared.capacity_source.title == shared.bandwidth_source.title == "given in board.toml"
    assert [c.kind for c in device.demonstrated] == [CeilingKind.DEMONSTRATED]
    assert device.ceiling("matrix", "int8") is None  # no roof


def ceiling(**fields):
    fields = {"engine": '"matrix"', "dtype": '"fp16"', "flop_per_s": "1e12"} | fields
    rows = "\n".join(f"{key} = {value}" for key, value in fields.items() if value is not None)
    return f'id = "b"\nname = "B"\n[[ceilings]]\n{rows}\n'


HEAD = 'id = "b"\nname = "B"\n'
BROKEN = {
    "empty": ("", "the file lacks 'id'"),
    "no name": ('id = "b"', "the file lacks 'name'"),
    "not TOML": ("{}", "not a TOML file"),
    "truncated": (MINIMAL[:-12], "not a TOML file"),
    "number as id": ('id = 3\nname = "B"', r"Expected `str`, got `int` - at `\$.id`"),
    "unknown field": (HEAD + "tpd_w = 3", "the file: unknown field 'tpd_w'; it takes id, name"),
    "newer file": (HEAD + "schema_version = 2", "schema_version 2; this gambrel reads 1"),
    "ceilings no list": (HEAD + "ceilings = 3", r"ceilings must be a list of tables"),
    "memory of numbers": (HEAD + "memory = [3]", r"memory must be a list of tables"),
    "no engine": (ceiling(engine=None), r"ceilings\[0\] lacks 'engine'"),
    "no peak": (ceiling(flop_per_s=None), r"ceilings\[0\] lacks 'flop_per_s'"),
    "engine": (
        ceiling(engine='"tensor"'),
        r"ceilings\[0\]: engine: unknown 'tensor'; use one of m",
    ),
    "dtype": (ceiling(dtype='"fp17"'), r"ceilings\[0\]: dtype: unknown 'fp17'"),
    "dtype no text": (ceiling(dtype="[1]"), r"ceilings\[0\]: dtype: unknown \[1\]"),
    "kind": (ceiling(kind='"guess"'), r"ceilings\[0\]: kind: unknown 'guess'"),
    "typo": (ceiling(spase_flop_per_s="1"), "unknown field 'spase_flop_per_s'"),
    "zero": (ceiling(flop_per_s="0"), "0 is not a positive, finite number"),
    "negative": (ceiling(flop_per_s="-1e12"), "-1000000000000.0 is not a positive, finite number"),
    "nan": (ceiling(flop_per_s="nan"), "nan is not a positive, finite number"),
    "infinite": (ceiling(sparse_flop_per_s="inf"), "inf is not a positive, finite number"),
    "true": (ceiling(flop_per_s="true"), "True is not a number"),
    "wrong unit": (ceiling(flop_per_s='"3TB/s"'), r"ceilings\[0\]: flop_per_s: '3TB/s'"),
    "zero with unit": (ceiling(flop_per_s='"0T"'), "is not a positive, finite rate"),
    "no such source": (ceiling(source='"x"'), r"ceilings\[0\]: source: no table \[sources.x\]"),
    "source no key": (ceiling(source="3"), r"no table \[sources.3\]"),
    "orphan source": (
        ceiling(sparse_source='"x"') + '[sources.x]\ntitle = "X"',
        "sparse_source without sparse_flop_per_s",
    ),
    "double ceiling": (
        ceiling() + '[[ceilings]]\nengine = "matrix"\ndtype = "fp16"\nflop_per_s = 2.0',
        r"ceilings\[1\]: a second entry for matrix/fp16",
    ),
    "double level": (
        HEAD + '[[memory]]\nname = "L2"\n[[memory]]\nname = "L2"',
        r"memory\[1\]: a second entry for L2",
    ),
    "unhashable name": (
        HEAD + "[[links]]\nname = [1]\nbyte_per_s = 1.0\n",
        "Expected `str`, got `array`",
    ),
    "level": (HEAD + '[[memory]]\nname = "HBM"', r"memory\[0\]: name: unknown 'HBM'; use one of D"),
    "part of a unit": (
        HEAD + '[[memory]]\nname = "L1"\ninstance_bytes = 5\nper_unit = 0.5',
        r"memory\[0\]: per_unit: 0.5 is not a whole number of at least 1",
    ),
    "parts of no size": (
        HEAD + '[[memory]]\nname = "L1"\nper_unit = 2',
        r"memory\[0\] lacks 'instance_bytes'",
    ),
    "demonstrated among ceilings": (
        ceiling(kind='"demonstrated"'),
        r"ceilings\[0\]: kind: unknown 'demonstrated'",
    ),
    "ceiling among demonstrated": (
        ceiling(kind='"datasheet"').replace("ceilings", "demonstrated"),
        r"demonstrated\[0\]: kind: unknown 'datasheet'; use one of demonstrated",
    ),
    "direction": (
        HEAD + '[[links]]\nname = "x"\nbyte_per_s = 1\ndirection = "up"',
        "direction: unknown 'up'",
    ),
    "sources no table": (HEAD + "sources = 3", "sources must be a table"),
    "source no table": (HEAD + "[sources]\na = 3", "sources.a must be a table"),
    "source no title": (HEAD + '[sources.a]\nurl = "x"', "sources.a lacks 'title'"),
    "source number": (HEAD + "[sources.a]\ntitle = 3", "sources.a: Expected `str`, got `int`"),
    "confidence": (
        HEAD + '[sources.a]\ntitle = "A"\nconfidence = "sure"',
        "sources.a: confidence: unknown 'sure'",
    ),
    "fact value": (
        HEAD + '[[facts]]\nname = "x"\nvalue = "3"\nunit = "Hz"',
        r"facts\[0\]: value: '3' is not a number",
    ),
    "tdp": (HEAD + 'tdp_w = "15J"', "the file: tdp_w: '15J'"),
    "nested": ("a = " + "[" * 5000 + "]" * 5000, "not a TOML file"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_one_sentence_with_file_and_reason(tmp_path, text, message):
    with pytest.raises(FileFormatError, match=message) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'board.toml'}: ")


def test_a_missing_file(tmp_path):
    with pytest.raises(FileFormatError, match=r"none\.toml: No such file"):
        load_file(tmp_path / "none.toml")


def test_a_folder(tmp_path):
    with pytest.raises(FileFormatError, match="is a folder; name the files in it"):
        load_file(tmp_path)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "board.toml"
    path.write_bytes(b"id = '\xff\xfe'")
    with pytest.raises(FileFormatError, match="not a device file: it is not text in UTF-8"):
        load_file(path)


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "board.toml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(FileFormatError, match="larger than 1,000,000 bytes"):
        load_file(path)
