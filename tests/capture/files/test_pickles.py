"""Pickles are data: nothing that they name is imported or called."""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.capture.files.pickles import read_pickle
from gambrel.capture.files.records import Instance, Name, TensorInfo
from gambrel.errors import FileFormatError

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=20,
)


class Hostile:
    """Writes a file when it is unpickled by real means."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self):
        return (Path.write_text, (self.victim, "owned"))


class Stateful:
    def __init__(self) -> None:
        self.width = 7


class Listlike(list):
    pass


@given(plain, st.integers(0, 5))
def test_plain_values_come_back_as_they_were(value, protocol):
    assert read_pickle(pickle.dumps(value, protocol=protocol), "x") == value


def test_the_hostile_example_works_without_us(tmp_path):
    victim = tmp_path / "victim"
    pickle.loads(pickle.dumps(Hostile(victim)))
    assert victim.read_text() == "owned"


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_called(tmp_path, protocol):
    victim = tmp_path / "victim"
    read_pickle(pickle.dumps({"a": Hostile(victim)}, protocol=protocol), "x")
    assert not victim.exists()


def test_the_classic_attack_is_only_a_name():
    found = read_pickle(b"cos\nsystem\n(S'touch /tmp/owned'\ntR.", "x")
    assert isinstance(found, Instance)
    assert (found.cls, found.args) == ("os.system", ("touch /tmp/owned",))


def test_modules_are_not_imported():
    import sys

    read_pickle(b"cthis.module.does.not.exist\nThing\n.", "x")
    read_pickle(b"cantigravity\nfly\n.", "x")
    assert "antigravity" not in sys.modules


def test_objects_keep_their_attributes():
    found = read_pickle(pickle.dumps(Stateful()), "x")
    assert found.cls.endswith("Stateful")
    assert found.state == {"width": 7}
    spaced = read_pickle(pickle.dumps(argparse.Namespace(lr=0.1)), "x")
    assert spaced.state == {"lr": 0.1}


def test_containers_of_other_classes_keep_their_items():
    assert read_pickle(pickle.dumps(Listlike([1, 2])), "x").items == [1, 2]
    assert read_pickle(pickle.dumps(collections.OrderedDict(a=1)), "x") == {"a": 1}
    counted = read_pickle(pickle.dumps(collections.defaultdict(int, {"a": 1})), "x")
    assert counted.items == [("a", 1)]
    assert sorted(read_pickle(pickle.dumps({1, 2}, protocol=4), "x")) == [1, 2]


def test_shared_and_cyclic_values_stay_so():
    loop: list = []
    loop.append(loop)
    found = read_pickle(pickle.dumps(loop), "x")
    assert found[0] is found


def test_keys_that_are_objects_become_their_names():
    found = read_pickle(pickle.dumps({frozenset({1}): 2}), "x")
    assert list(found.values()) == [2]
    assert isinstance(next(iter(found)), Name)


@pytest.mark.parametrize("cut", [1, 5, 20, 40])
def test_truncated(cut):
    data = pickle.dumps({"weights": list(range(100)), "name": "model"})
    with pytest.raises(FileFormatError, match="x: the pickle inside is"):
        read_pickle(data[:-cut], "x")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(FileFormatError):
        read_pickle(data, "x")


def test_a_huge_memo_index_takes_no_memory():
    # LONG_BINPUT 4,294,967,295: the C unpickler would make room for that many values.
    assert read_pickle(b"N" + b"r" + struct.pack("<I", 2**32 - 1) + b".", "x") is None


def test_a_huge_length_is_refused():
    data = b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"abc."
    with pytest.raises(FileFormatError, match="damaged or truncated"):
        read_pickle(data, "x")


def test_a_doubling_tuple_is_read_in_no_time():
    # 60 times "pair the top with itself": 2^60 leaves, 60 objects.
    found = read_pickle(b"N" + b"2\x86" * 60 + b".", "x")
    assert isinstance(found, tuple)


def test_a_deep_tuple_as_a_key_does_not_overflow_the_stack():
    deep = b")" + b"\x85" * 200_000
    found = read_pickle(b"}" + deep + b"Ns.", "x")
    assert list(found.values()) == [None]


def test_a_nest_of_rebuilt_tensors_does_not_overflow_the_stack():
    # Each level says: rebuild with this same function, of the arguments one level in.
    function = b"ctorch._tensor\n_rebuild_from_type_v2\n"
    deep = (b"(" + function + b"N") * 5000 + b")" + b"t" * 5000
    with pytest.raises(FileFormatError, match="damaged"):
        read_pickle(function + deep + b"R.", "x")


def test_too_many_instructions(monkeypatch):
    monkeypatch.setattr("gambrel.capture.files.pickles.MAX_INSTRUCTIONS", 1000)
    with pytest.raises(FileFormatError, match="more instructions than any checkpoint"):
        read_pickle(b"N0" * 5000 + b"N.", "x")


def test_extension_codes_are_refused():
    with pytest.raises(FileFormatError, match="uses EXT1"):
        read_pickle(b"\x80\x02\x82\x01.", "x")


def test_a_tensor_with_impossible_sizes():
    storage = "(S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI4\ntQ"
    rebuilt = f"ctorch._utils\n_rebuild_tensor_v2\n({storage}I0\n(I-4\nt(I1\nttR."
    with pytest.raises(FileFormatError, match="impossible sizes"):
        read_pickle(rebuilt.encode(), "x")
    good = rebuilt.replace("I-4", "I4")
    assert read_pickle(good.encode(), "x") == TensorInfo((4,), "float32", "0")


def test_only_its_own_bytes_are_taken_from_a_stream():
    stream = io.BytesIO(pickle.dumps(1) + pickle.dumps("two"))
    assert read_pickle(stream, "x") == 1
    assert read_pickle(stream, "x") == "two"
