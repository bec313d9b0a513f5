"""The examples of docs/hardware.md are read as written."""

import re
from pathlib import Path

import pytest

from gambrel.device.catalog import load
from gambrel.device.files import CONFIDENCES, ENGINES, LEVELS, load_file
from gambrel.device.lookup import find
from gambrel.device.roofs import main_memory, resolve
from gambrel.dtypes import BITS

TEXT = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"{number}.toml").write_text(example, encoding="utf-8")
    return tmp_path


def test_the_short_example_is_a_device(folder):
    board = find("My Board", user_folder=folder).device
    assert resolve(board, "matrix", "int8").flop_per_s == 26e12
    assert main_memory(board).byte_per_s == 34.1e9
    assert main_memory(board).capacity_bytes == 8 * 2**30


def test_the_long_example_is_a_device(folder):
    acme = load_file(folder / "1.toml")
    assert acme.ceiling("matrix", "int8").sparse_flop_per_s == 100e12
    assert acme.ceiling("vector", "fp32").source.confidence == "derived"
    assert acme.links[0].byte_per_s_per_direction == 7.88e9
    assert acme.tdp_w == 25.0
    assert find("ACME 1", user_folder=folder).device == acme


def test_there_is_no_example_that_is_not_tested():
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("word", [*CONFIDENCES, *ENGINES])
def test_every_label_and_engine_is_explained(word):
    assert f"`{word}`" in TEXT


def test_the_lists_of_formats_and_levels_are_complete():
    formats = re.search(r"number formats are `([^`]*)` and `any`", TEXT)[1].split()
    assert set(formats) <= set(BITS)
    used = {ceiling.dtype for name in ("mi355x", "blackhole-p150", "a100-sxm4-80gb")
            for ceiling in load(name).ceilings}  # fmt: skip
    assert used <= set(formats)
    assert f"`{' '.join(LEVELS)}`" in TEXT


def test_the_ridge_points_of_the_text_are_those_of_the_catalog():
    h100, a100 = load("h100-sxm5-80gb"), load("a100-sxm4-80gb")
    orin = load("jetson-agx-orin-64gb")
    for device, dtype, ridge in ((h100, "fp16", 295), (a100, "fp16", 153), (orin, "int8", 671)):
        roof = resolve(device, "matrix", dtype)
        assert round(roof.flop_per_s / main_memory(device).byte_per_s) == ridge
        assert f"= {ridge} |" in TEXT
