"""Keras archives: figures by hand, forms that are open, code that is not run, damage."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import gambrel
from gambrel.errors import FileFormatError, GambrelError, InputError

DATA = Path(__file__).parent.parent.parent / "data" / "keras"

#: Sample → parameters as Keras counts the trainable ones, matrix FLOP of one item.
FIGURES = {
    # 3 x 3 convolutions of 3 and of 1 channel for each of 16 at 16 x 16, a layer of 16 x 10
    "cnn": (794, 2 * 256 * 16 * (27 + 9) + 2 * 16 * 10),
    # 20 steps: 4 gates of 32 from 64 and 32; in two directions 3 gates of 16 from 32 and 16
    "rnn": (81_249, 20 * (2 * (64 + 32) * 128 + 2 * 2 * (32 + 16) * 48) + 2 * 32),
    # 64 tokens of width 96: 4 projections, two products of 4 heads of 24, 96 x 384 there and back
    "block": (111_648, 64 * 2 * (4 * 96 * 96 + 2 * 96 * 384) + 2 * 2 * 4 * 64 * 64 * 24),
}


@pytest.mark.parametrize("name", FIGURES)
def test_by_hand(name):
    found = gambrel.analyze(DATA / f"{name}.keras", "h100", batch_size=3)
    parameters, flops = FIGURES[name]
    assert (found.model.parameters, found.total.matrix_flops) == (parameters, 3 * flops)
    assert found.coverage == 1


def test_a_nested_model_twice_with_an_open_image():
    path = DATA / "nested.keras"
    found = gambrel.analyze(path, "h100", image=34)
    assert found.model.parameters == 8 * 27 + 8  # one trunk, however often it is called
    assert found.total.matrix_flops == 2 * 2 * 32 * 32 * 8 * 27
    with pytest.raises(InputError, match="--image N"):
        gambrel.analyze(path, "h100")


def test_code_is_unmodelled_and_what_stands_behind_it_counts():
    found = gambrel.analyze(DATA / "own.keras", "h100")
    assert found.total.matrix_flops == 2 * 8 * 8 + 2 * 8 * 4
    assert found.coverage < 1


def archive(path, config):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        text = config if isinstance(config, (str, bytes)) else json.dumps(config)
        made.writestr("config.json", text)
        made.writestr("model.weights.h5", b"")
    return path


def config_of(name):
    with zipfile.ZipFile(DATA / f"{name}.keras") as whole:
        return json.loads(whole.read("config.json"))


def test_a_call_says_that_attention_is_causal(tmp_path):
    """Two products of 4 heads of 24 over 1 + 2 + ... + 64 pairs in place of 64 * 64."""
    config = config_of("block")
    (layer,) = (x for x in config["config"]["layers"] if x["class_name"] == "MultiHeadAttention")
    layer["inbound_nodes"][0]["kwargs"] = {"use_causal_mask": True}
    found = gambrel.analyze(archive(tmp_path / "m.keras", config), "h100")
    all_pairs = gambrel.analyze(DATA / "block.keras", "h100")
    fewer = 64 * 64 - 64 * 65 // 2
    assert all_pairs.total.matrix_flops - found.total.matrix_flops == 2 * 2 * 4 * 24 * fewer


def test_a_class_of_its_own(tmp_path):
    path = archive(tmp_path / "m.keras", {"class_name": "Mine", "config": {}})
    with pytest.raises(FileFormatError, match="class of its own"):
        gambrel.analyze(path, "h100")


def test_layers_that_wait_for_each_other(tmp_path):
    config = config_of("cnn")
    layers = config["config"]["layers"]
    tensor = layers[1]["inbound_nodes"][0]["args"][0]
    tensor["config"]["keras_history"] = [layers[2]["name"], 0, 0]
    with pytest.raises(FileFormatError, match="wait for each other"):
        gambrel.analyze(archive(tmp_path / "m.keras", config), "h100")


def _nested_deeply():
    inner = {"class_name": "Sequential", "config": {"layers": []}}
    for _ in range(100):
        inner = {"class_name": "Sequential", "name": "s", "config": {"layers": [inner]}}
    return inner


@pytest.mark.parametrize(
    "config",
    [
        "{",
        "[]",
        "{}",
        b"\xff",
        {"class_name": "Functional", "config": {"layers": []}},
        {"class_name": "Sequential", "config": {"layers": []}},
        {"class_name": "Sequential", "config": {"layers": [{"class_name": "Dense", "config": {}}]}},
        _nested_deeply(),
        " " * 60_000_000,
    ],
)
def test_damage_is_one_sentence(tmp_path, config):
    with pytest.raises(GambrelError) as caught:
        gambrel.analyze(archive(tmp_path / "m.keras", config), "h100")
    assert "\n" not in str(caught.value)


def test_other_files_of_that_name(tmp_path):
    path = tmp_path / "m.keras"
    path.write_bytes(b"\x89HDF\r\n\x1a\n and so on")
    with pytest.raises(GambrelError) as caught:
        gambrel.analyze(path, "h100")
    assert "\n" not in str(caught.value)
