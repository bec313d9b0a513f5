"""Files of a page: of large ones the header only."""

import json
import struct

import msgspec
import pytest

from gambrel.errors import FileFormatError, InputError
from gambrel.explorer.desk import Desk
from gambrel.explorer.uploads import store

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def body(name, size, parts, group=""):
    places = [[start, len(data)] for start, data in parts]
    about = msgspec.json.encode({"name": name, "size": size, "parts": places, "group": group})
    return struct.pack("<I", len(about)) + about + b"".join(data for _, data in parts)


def test_a_file_has_its_size_and_what_was_sent(tmp_path):
    model = store(body("a.bin", 1_000_000, [(0, b"head"), (999_996, b"tail")]), tmp_path)
    path = tmp_path / model.removeprefix("upload:")
    assert path.stat().st_size == 1_000_000
    data = path.read_bytes()
    assert (data[:4], data[-4:], set(data[4:-4])) == (b"head", b"tail", {0})


def test_a_configuration_is_a_model(tmp_path):
    text = json.dumps(CONFIG).encode()
    model = store(body("config.json", len(text), [(0, text)]), tmp_path)
    given = {"model": model, "hardware": "l4", "phase": "prefill"}
    made = Desk(tmp_path).answer({"verb": "analyze", "given": given, "brief": True})
    assert made["language"]
    assert "upload:" not in msgspec.json.encode(made).decode()


def test_an_error_names_the_file_as_its_owner_does(tmp_path):
    model = store(body("net.onnx", 4, [(0, b"\x08\x07\x12g")]), tmp_path)
    asked = {"verb": "analyze", "given": {"model": model, "hardware": "l4"}, "brief": True}
    error = Desk(tmp_path).answer(asked)["error"]
    assert error.startswith("net.onnx: truncated")
    assert str(tmp_path) not in error


def test_files_of_one_model_lie_together(tmp_path):
    first = store(body("a.safetensors", 3, [(0, b"abc")]), tmp_path)
    group = first.removeprefix("upload:").partition("/")[0]
    second = store(body("config.json", 2, [(0, b"{}")], group), tmp_path)
    assert second == f"upload:{group}/config.json"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x05\x00\x00\x00{}",
        body("a", 2, [(0, b"abc")]),
        body("a", 10, [(9, b"abc")]),
        body("a", 10, [(0, b"abc")])[:-1],
        body("a", 2**60, [(0, b"abc")]),
        body("a", 10, [(-1, b"abc")]),
    ],
)
def test_a_request_that_does_not_add_up_writes_nothing(sent, tmp_path):
    with pytest.raises(FileFormatError):
        store(sent, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "..", "a/..", "a\nb", "x" * 300])
def test_a_name_is_a_name(name, tmp_path):
    with pytest.raises(InputError, match="is not a name of a file"):
        store(body(name, 1, [(0, b"a")]), tmp_path)


def test_no_name_leaves_the_folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    model = store(body("../../evil", 1, [(0, b"a")], "../.." + "/b"), inside)
    assert model == "upload:b/evil"
    assert [p.name for p in tmp_path.iterdir()] == ["inside"]
