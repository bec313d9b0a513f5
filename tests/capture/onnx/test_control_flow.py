"""Branches, loops, scans, sequences, functions: what runs, and how often."""

import numpy as np
import onnx
import pytest
from onnx import helper

import gambrel
from gambrel.capture.onnx.reader import read_onnx
from tests.capture.onnx.models import array, given, node, save, value


def flops(path):
    return int(gambrel.analyze(read_onnx(path), "h100").total.matrix_flops)


def branch(name, width):
    out = f"{name}_y"
    return helper.make_graph(
        [node("MatMul", f"x w{width}", out)],
        name,
        [],
        [value(out, None)],
        [array(f"w{width}", 8, width)],
    )


@pytest.mark.parametrize(("condition", "width"), [(True, 4), (False, 16)])
def test_the_branch_that_runs_counts(tmp_path, condition, width):
    call = node("If", "c", "y", then_branch=branch("a", 4), else_branch=branch("b", 16))
    path = save(
        tmp_path / "m.onnx",
        [call],
        [value("x", [2, 8])],
        [value("y", None)],
        [given("c", condition, np.bool_)],
    )
    assert flops(path) == 2 * 2 * 8 * width


def test_of_branches_that_data_choose_the_larger_counts(tmp_path):
    call = node("If", "c", "y", then_branch=branch("a", 4), else_branch=branch("b", 16))
    inputs = [value("x", [2, 8]), value("c", [], onnx.TensorProto.BOOL)]
    path = save(tmp_path / "m.onnx", [call], inputs, [value("y", None)])
    assert flops(path) == 2 * 2 * 8 * 16
    assert "larger branch" in read_onnx(path).assumptions[0]


def body():
    return helper.make_graph(
        [
            node("MatMul", "h w", "next"),
            node("Relu", "next", "seen"),
            node("Identity", "going", "on"),
        ],
        "body",
        [value("i", [], 7), value("going", [], 9), value("h", [2, 8])],
        [value("on", [], 9), value("next", [2, 8]), value("seen", [2, 8])],
        [array("w", 8, 8)],
    )


def test_a_loop_counts_its_trips(tmp_path):
    call = node("Loop", "n  x", "last all", body=body())
    call.input[:] = ["n", "", "x"]
    outputs = [value("last", None), value("all", None)]
    path = save(tmp_path / "m.onnx", [call], [value("x", [2, 8])], outputs, [given("n", 11)])
    workload = read_onnx(path)
    assert flops(path) == 11 * 2 * 2 * 8 * 8
    assert workload.ops[0].repeat == 11
    assert workload.tensors[workload.outputs[1]].shape == (11, 2, 8)
    assert gambrel.analyze(workload, "h100").model.parameters == 64


def test_a_loop_of_unknown_length_says_so(tmp_path):
    call = node("Loop", "n", "last all", body=body())
    call.input[:] = ["n", "", "x"]
    inputs = [value("x", [2, 8]), value("n", [], 7)]
    path = save(tmp_path / "m.onnx", [call], inputs, [value("last", None)])
    assert flops(path) == 2 * 2 * 8 * 8
    assert "trip count" in read_onnx(path).assumptions[0]


def test_a_scan_runs_once_a_slice(tmp_path):
    inner = helper.make_graph(
        [node("MatMul", "h w", "p"), node("Add", "p part", "new"), node("Identity", "new", "out")],
        "body",
        [value("h", [2, 8]), value("part", [2, 8])],
        [value("new", [2, 8]), value("out", [2, 8])],
        [array("w", 8, 8)],
    )
    call = node("Scan", "h0 x", "h all", body=inner, num_scan_inputs=1)
    inputs = [value("h0", [2, 8]), value("x", [7, 2, 8])]
    path = save(tmp_path / "m.onnx", [call], inputs, [value("h", None), value("all", None)])
    assert flops(path) == 7 * 2 * 2 * 8 * 8
    assert read_onnx(path).tensors[read_onnx(path).outputs[1]].shape == (7, 2, 8)


def test_sequences_are_lists_of_tensors(tmp_path):
    nodes = [
        node("SplitToSequence", "x sizes", "parts", axis=1),
        node("SequenceAt", "parts one", "b"),
        node("MatMul", "b w", "y"),
    ]
    stored = [given("sizes", [3, 5]), given("one", 1), array("w", 5, 2)]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [4, 8])], [value("y", None)], stored)
    assert flops(path) == 2 * 4 * 5 * 2


def test_a_function_of_the_model_counts_at_each_call(tmp_path):
    function = helper.make_function(
        "mine",
        "Twice",
        ["x", "w"],
        ["y"],
        [node("MatMul", "x w", "h"), node("MatMul", "h w", "y")],
        [helper.make_opsetid("", 18)],
    )
    nodes = [
        node("Twice", "x w", "h", domain="mine"),
        node("Twice", "h w", "y", domain="mine"),
    ]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [value("x", [3, 8])],
        [value("y", None)],
        [array("w", 8, 8)],
        domains=["mine"],
        functions=[function],
    )
    assert flops(path) == 4 * 2 * 3 * 8 * 8


def test_a_function_that_calls_itself_is_refused(tmp_path):
    function = helper.make_function(
        "mine",
        "Again",
        ["x"],
        ["y"],
        [node("Again", "x", "y", domain="mine")],
        [helper.make_opsetid("mine", 1)],
    )
    path = save(
        tmp_path / "m.onnx",
        [node("Again", "x", "y", domain="mine")],
        [value("x", [3])],
        [value("y", None)],
        domains=["mine"],
        functions=[function],
    )
    with pytest.raises(gambrel.errors.FileFormatError, match="nested more than 40 deep"):
        read_onnx(path)


def test_a_loop_that_data_end_runs_as_often_as_the_user_says(tmp_path):
    loop = node("Loop", "n", "last all", body=body())
    loop.input[:] = ["n", "", "x"]
    inputs = [value("x", [2, 8]), value("n", [], 7)]
    path = save(tmp_path / "m.onnx", [loop], inputs, [value("last", None), value("all", None)])
    once = read_onnx(path)
    assert any("--size trip=N" in note for note in once.assumptions)
    assert flops(path) == 2 * 2 * 8 * 8
    analysis = gambrel.analyze(str(path), "h100", sizes={"trip": 5})
    assert analysis.total.matrix_flops == 5 * 2 * 2 * 8 * 8
    assert not any("--size trip=N" in note for note in analysis.assumptions)
