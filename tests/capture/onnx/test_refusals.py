"""Damaged and hostile files: one sentence, or a partial answer."""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import gambrel
from gambrel.capture.onnx.reader import read_onnx
from gambrel.capture.onnx.wire import KEPT_BYTES, without_data
from gambrel.errors import FileFormatError, MissingExtraError
from tests.capture.onnx.models import array, model, node, save, value


def refused(path, words):
    with pytest.raises(FileFormatError, match=words) as caught:
        gambrel.analyze(str(path), "h100")
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def plain(tmp_path, **more):
    return save(
        tmp_path / "m.onnx",
        [node("MatMul", "x w", "y")],
        [value("x", [2, 64])],
        [value("y", None)],
        [array("w", 64, 64)],
        **more,
    )


def test_a_truncated_file(tmp_path):
    path = plain(tmp_path)
    data = path.read_bytes()
    for end in (5, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        refused(path, "truncated|damaged|no graph")


def test_other_bytes_under_the_name(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"<html>not found</html>")
    refused(path, "damaged|truncated")


def test_a_circle(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [node("Add", "x b", "a"), node("Relu", "a", "b")],
        [value("x", [2])],
        [value("b", None)],
    )
    refused(path, "runs in a circle")


def test_nodes_out_of_order_are_sorted(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [node("Sigmoid", "a", "y"), node("Relu", "x", "a")],
        [value("x", [2])],
        [value("y", None)],
    )
    assert [op.attrs["function"] for op in read_onnx(path).ops] == ["relu", "sigmoid"]


def test_a_name_that_nothing_makes(tmp_path):
    path = save(tmp_path / "m.onnx", [node("Relu", "ghost", "y")], [], [value("y", None)])
    refused(path, "'ghost', which nothing makes")


@pytest.mark.parametrize("dims", [[2] * 10_000, [-3, 2], [2**40, 2**40]])
def test_impossible_sizes(tmp_path, dims):
    path = save(
        tmp_path / "m.onnx", [node("Relu", "x", "y")], [value("x", dims)], [value("y", None)]
    )
    refused(path, "dimension|impossible sizes")


def test_wrong_types_leave_the_op_unmodelled(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [node("MatMul", "x w", "y", bogus="text"), node("Conv", "x w", "z", strides=[0, 0])],
        [value("x", [2, 3], onnx.TensorProto.STRING)],
        [value("y", [2, 3]), value("z", [2, 3])],
        [array("w", 64, 64)],
    )
    assert gambrel.analyze(str(path), "h100").coverage == 0.0


def test_an_operator_set_of_the_future_is_read(tmp_path):
    assert len(read_onnx(plain(tmp_path, opset=999)).ops) == 1


def test_an_impossible_operator_set(tmp_path):
    refused(plain(tmp_path, opset=-5), "operator set -5")


@pytest.mark.parametrize("place", ["../w.bin", "/etc/passwd", "a/../../w.bin", "C:\\w.bin"])
def test_data_outside_the_folder(tmp_path, place):
    path = plain(tmp_path)
    built = onnx.load(path)
    tensor = built.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    path.write_bytes(built.SerializeToString())
    refused(path, "folder|absolute path")


def test_data_behind_a_link_out_of_the_folder(tmp_path):
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"0")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "w.bin").symlink_to(outside)
    built = model(
        [node("MatMul", "x w", "y")],
        [value("x", [2, 64])],
        [value("y", None)],
        [array("w", 64, 64)],
    )
    tensor = built.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    path = tmp_path / "inner" / "m.onnx"
    path.write_bytes(built.SerializeToString())
    refused(path, "outside the model's folder")


def test_external_data_are_not_needed(tmp_path):
    built = model(
        [node("MatMul", "x w", "y")],
        [value("x", [2, 64])],
        [value("y", None)],
        [array("w", 64, 64)],
    )
    tensor = built.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.dims[:] = [64, 4_000_000_000]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="elsewhere.bin")
    path = tmp_path / "m.onnx"
    path.write_bytes(built.SerializeToString())
    assert gambrel.analyze(str(path), "h100").model.parameters == 64 * 4_000_000_000


def test_the_data_of_weights_are_left_out():
    built = model(
        [node("MatMul", "x w", "y")],
        [value("x", [2, 4096])],
        [value("y", None)],
        [array("w", 4096, 64), array("small", 16)],
    )
    data = built.SerializeToString()
    structure = without_data(data)
    assert len(structure) < KEPT_BYTES < len(data)
    left = onnx.ModelProto.FromString(structure)
    assert left.graph.node == built.graph.node
    assert [list(t.dims) for t in left.graph.initializer] == [[4096, 64], [16]]
    assert [len(t.raw_data) for t in left.graph.initializer] == [0, 64]


def test_weights_within_subgraphs_are_left_out_as_well():
    inner = helper.make_graph(
        [node("Identity", "w", "y")], "i", [], [value("y", None)], [array("w", 4096, 9)]
    )
    call = node("If", "c", "z", then_branch=inner, else_branch=inner)
    built = model([call], [value("c", [], 9)], [value("z", None)])
    assert len(without_data(built.SerializeToString())) < KEPT_BYTES


def test_parameters_that_nothing_reads_are_named(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [node("MatMul", "x w", "y")],
        [value("x", [2, 64])],
        [value("y", None)],
        [array("w", 64, 64), array("left_over", 7)],
    )
    workload = read_onnx(path)
    assert any(re.search(r"no op reads 7 of 4,103 parameters", a) for a in workload.assumptions)


def test_a_missing_package_names_its_extra(tmp_path, monkeypatch):
    path = plain(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gambrel\[onnx\]'"):
        read_onnx(path)


def test_scalars_of_the_exporter_are_no_parameters(tmp_path):
    half = onnx.numpy_helper.from_array(np.float32(0.5), "val_7")
    path = save(
        tmp_path / "m.onnx",
        [node("Mul", "x val_7", "y")],
        [value("x", [2])],
        [value("y", None)],
        [half],
    )
    assert gambrel.analyze(read_onnx(path), "h100").model.parameters == 0


def test_tables_that_the_exporter_folded_are_no_parameters(tmp_path):
    nodes = [node("Mul", "x cos", "a"), node("MatMul", "a val_3", "y")]
    stored = [array("cos", 5, 8), array("val_3", 8, 4)]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [5, 8])], [value("y", None)], stored)
    assert gambrel.analyze(read_onnx(path), "h100").model.parameters == 8 * 4
