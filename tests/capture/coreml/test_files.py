"""Packages of coremltools against hand counts."""

import json
import shutil
from pathlib import Path

import pytest

import gambrel
from gambrel.capture.coreml.reader import read_coreml
from gambrel.capture.files.identify import FileKind, identify
from gambrel.errors import FileFormatError, GambrelError

DATA = Path(__file__).parents[2] / "data" / "coreml"
INNER = Path("Data") / "com.apple.CoreML" / "model.mlmodel"


def test_a_block_counts_as_by_hand():
    workload = read_coreml(DATA / "block.mlpackage")
    tokens = 2 * 16
    attention = 3 * tokens * 32 * 32 + 2 * 2 * 2 * 16 * 16 * 16
    perceptron = 2 * tokens * 32 * 64
    grouped = tokens * 32 * 8 * 3
    transposed = tokens * 32 * 16 * 2
    recurrent = 2 * 32 * 4 * 8 * (16 + 8)
    analysis = gambrel.analyze(workload, "h100")
    total = attention + perceptron + grouped + transposed + recurrent
    assert analysis.total.matrix_flops == 2 * total
    assert analysis.coverage == 1
    assert workload.dtype == "fp16"
    assert [op.kind for op in workload.ops].count("attention") == 1


@pytest.mark.parametrize(("name", "stored"), [("tiny_int8", "int8"), ("tiny_pal4", "int4")])
def test_narrow_weights_are_storage(name, stored):
    workload = read_coreml(DATA / f"{name}.mlpackage")
    products = [op for op in workload.ops if op.kind in ("convolution", "matmul")]
    assert len(products) == 4
    for op in products:
        assert workload.tensors[op.inputs[1]].dtype == stored
        assert op.attrs["compute_dtype"] == "fp16"
    places = 16 * 16
    hand = places * (8 * 27 + 8 * 9 + 8 * 16) + 16 * 10
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.total.matrix_flops == 2 * hand
    # 3·8·9 + 8·9 + 8·16 + 16·10 weights, 8 + 8 + 16 + 10 biases; the norm is folded.
    assert analysis.model.parameters == 216 + 72 + 128 + 160 + 42


def test_a_package_and_the_file_in_it_are_the_same():
    package = gambrel.analyze(str(DATA / "block.mlpackage"), "h100")
    file = gambrel.analyze(str(DATA / "block.mlpackage" / INNER), "h100")
    assert identify(DATA / "block.mlpackage" / INNER) is FileKind.COREML
    assert package.total == file.total


def test_the_content_tells_it_from_onnx(tmp_path):
    onnx = pytest.importorskip("onnx")
    from tests.capture.onnx.models import node, save, value

    plain = save(tmp_path / "a.bin", [node("Relu", "x", "y")], [value("x", [2])], [value("y", [2])])
    model = onnx.load(plain)
    model.producer_name = "pytorch"
    onnx.save(model, plain)
    assert identify(plain) is FileKind.ONNX
    shutil.copy(DATA / "block.mlpackage" / INNER, tmp_path / "b.bin")
    assert identify(tmp_path / "b.bin") is FileKind.COREML


def test_a_neural_network_says_what_to_do():
    with pytest.raises(FileFormatError, match="convert_to='mlprogram'"):
        read_coreml(DATA / "tiny_nn.mlmodel")


@pytest.mark.parametrize("path", ["../../../secret", "/etc/passwd"])
def test_a_manifest_that_leads_outside(tmp_path, path):
    folder = tmp_path / "m.mlpackage"
    shutil.copytree(DATA / "block.mlpackage", folder)
    manifest = json.loads((folder / "Manifest.json").read_text())
    manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"] = path
    (folder / "Manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(GambrelError, match="outside the package"):
        gambrel.analyze(str(folder), "h100")


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"rootModelIdentifier": {}}'])
def test_a_broken_manifest(tmp_path, text):
    folder = tmp_path / "m.mlpackage"
    folder.mkdir()
    (folder / "Manifest.json").write_text(text)
    with pytest.raises(GambrelError, match="names no model"):
        gambrel.analyze(str(folder), "h100")


def test_truncated(tmp_path):
    whole = (DATA / "block.mlpackage" / INNER).read_bytes()
    path = tmp_path / "m.mlmodel"
    for end in range(1, len(whole), 1499):
        path.write_bytes(whole[:end])
        with pytest.raises(FileFormatError) as caught:
            read_coreml(path)
        assert "\n" not in str(caught.value)
