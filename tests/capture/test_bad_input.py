"""Every format with every fault that it can have: one sentence, or a part with coverage below 1."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import gambrel
from gambrel.errors import GambrelError, MissingExtraError
from tests.capture.bad_models import GRAPHS, Wanted, keras_archive, write

FAULTS = {
    "cyclic": Wanted(cyclic=True),
    "10^4 dimensions": Wanted(shape=(1,) * 10_000),
    "a negative size": Wanted(shape=(2, -3)),
    "impossible sizes": Wanted(shape=(2**40, 2**40)),
}
#: Sizes are 32 bits wide.
NOT_IN = {(".tflite", "impossible sizes")}
#: Files of 10^6 operations that are written and told in a second or two.
MANY = (".onnx", ".tflite", ".mlmodel", ".mlir", ".hlo")


def graph(folder: Path, suffix: str, wanted: Wanted) -> Path:
    needed = {".onnx": "onnx", ".tflite": "tflite", ".mlir": "jaxlib"}.get(suffix)
    if needed:
        pytest.importorskip(needed)
    return write(folder / f"m{suffix}", GRAPHS[suffix](wanted))


def refused(path: Path) -> str:
    """The one sentence, which names the file."""
    with pytest.raises(GambrelError) as caught:
        gambrel.analyze(path, "h100")
    assert not isinstance(caught.value, MissingExtraError)
    said = str(caught.value)
    assert "\n" not in said
    assert path.name in said
    return said


@pytest.mark.parametrize("suffix", GRAPHS)
def test_without_a_fault_it_is_read(tmp_path, suffix):
    found = gambrel.analyze(graph(tmp_path, suffix, Wanted()), "h100")
    assert found.coverage == 1
    # One operation on 8 values, which reads and writes them.
    assert found.total.vector_flops == 8


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("suffix", GRAPHS)
def test_a_fault_is_refused(tmp_path, suffix, fault):
    if (suffix, fault) in NOT_IN:
        pytest.skip("the format cannot say it")
    refused(graph(tmp_path, suffix, FAULTS[fault]))


@pytest.mark.parametrize("suffix", [s for s in GRAPHS if s != ".hlo"])
def test_an_unknown_operator_lowers_the_coverage(tmp_path, suffix):
    op = "mystery.op" if suffix == ".mlir" else "Mystery"
    found = gambrel.analyze(graph(tmp_path, suffix, Wanted(op=op)), "h100")
    assert found.coverage == 0
    assert any("ystery" in op.name for op in found.workload.ops)


def test_hlo_has_no_operators_of_others(tmp_path):
    assert "names no operation" in refused(graph(tmp_path, ".hlo", Wanted(op="Mystery")))


@pytest.mark.parametrize("suffix", MANY)
def test_a_million_operations(tmp_path, suffix):
    refused(graph(tmp_path, suffix, Wanted(count=10**6)))


@pytest.mark.parametrize("suffix", [".mlir", ".hlo"])
def test_a_text_is_counted_before_it_is_parsed(tmp_path, suffix):
    path = graph(tmp_path, suffix, Wanted(count=400_001))
    path.write_bytes(path.read_bytes() + b"\n?! no line of any program")
    assert "more than 400,000 operations; refused" in refused(path)


def test_a_million_layers_of_openvino_are_counted_before_they_are_parsed(tmp_path):
    layers = b'<layer id="1" type="ReLU"/>' * 10**6
    path = write(tmp_path / "m.xml", b'<net version="11"><layers>%b</layers></net>' % layers)
    assert "layers; refused" in refused(path)


@pytest.mark.parametrize("part", [0, 0.3, 0.9])
@pytest.mark.parametrize("suffix", GRAPHS)
def test_truncated(tmp_path, suffix, part):
    """What is left of a file may be a whole graph that has nothing to say."""
    path = graph(tmp_path, suffix, Wanted(count=3))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    refused(path)


CONTENTS = {
    "zeros": bytes(4096),
    "a page": b"<html>not found</html>",
    "no keys": b"{}",
    "a zip cut off": b"PK\x03\x04",
    "a picture": b"\x89PNG\r\n",
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("suffix", [*GRAPHS, ".gguf", ".safetensors", ".pt2", ".pt", ".json"])
def test_something_else_under_the_name(tmp_path, suffix, content):
    refused(write(tmp_path / f"m{suffix}", CONTENTS[content]))


def bomb(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, b"\0" * (64 << 20))
    return path


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        (".keras", ["config.json", "model.weights.h5"]),
        (".pt2", ["m/models/model.json", "m/version"]),
        (".pt", ["m/data.pkl", "m/version"]),
    ],
)
def test_a_zip_bomb(tmp_path, suffix, names):
    said = refused(bomb(tmp_path / f"m{suffix}", names))
    assert "refused" in said


def test_layers_within_layers_without_end(tmp_path):
    text = '{"class_name": "Sequential", "config": {"layers": [' * 5000
    refused(write(tmp_path / "m.keras", keras_archive(text)))
