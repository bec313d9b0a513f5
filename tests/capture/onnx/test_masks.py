"""Masks of attention: what their values, or how they are made, leave of all pairs."""

import numpy as np
import onnx
import pytest

import gambrel
from gambrel.capture.onnx.reader import read_onnx
from tests.capture.onnx.models import given, node, save, value

TOKENS, HEADS, WIDTH = 64, 2, 8
BOOL, FLOAT = onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT


def attention(tmp_path, mask_nodes, stored=(), *, join="Add", inputs=()):
    """Two products around a softmax, of which the scores are joined with what ``mask`` names."""
    between = node("Add", "scores mask", "masked")
    if join != "Add":
        first, second = ("scores", "low") if join == "seen" else ("low", "scores")
        between = node("Where", f"mask {first} {second}", "masked")
    nodes = [
        *mask_nodes,
        node("Transpose", "k", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned", "scores"),
        between,
        node("Softmax", "masked", "weights", axis=-1),
        node("MatMul", "weights v", "y"),
    ]
    shape = [1, HEADS, TOKENS, WIDTH]
    numbers = [given("low", -1e9, np.float32), given("zero", 0.0, np.float32)]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [*(value(n, shape) for n in "qkv"), *inputs],
        [value("y", shape)],
        [*stored, *numbers],
    )
    return read_onnx(path)


def only(workload):
    """The one attention, and the FLOP of all products."""
    ops = [op for op in workload.ops if op.kind == "attention"]
    assert len(ops) == 1
    return ops[0], int(gambrel.analyze(workload, "h100").total.matrix_flops)


TRIANGLE = np.tri(TOKENS, dtype=bool)
#: A token sees itself and all before it; two products of 2 FLOP each.
CAUSAL = 2 * 2 * HEADS * WIDTH * (TOKENS * (TOKENS + 1) // 2)
FULL = 2 * 2 * HEADS * WIDTH * TOKENS * TOKENS


def test_a_triangle_that_nodes_make_is_no_work(tmp_path):
    ones = onnx.helper.make_tensor("value", FLOAT, [1], [1.0])
    nodes = [
        node("ConstantOfShape", "square", "ones", value=ones),
        node("Trilu", "ones", "lower", upper=0),
        node("Equal", "lower zero", "hidden"),
        node("Where", "hidden low zero", "mask"),
    ]
    workload = attention(tmp_path, nodes, [given("square", [TOKENS, TOKENS])])
    assert [op.kind for op in workload.ops] == ["attention"]
    op, flops = only(workload)
    assert op.attrs["causal"]
    assert not op.attrs["mask"]
    assert flops == CAUSAL


@pytest.mark.parametrize("join", ["seen", "hidden", "Add"])
def test_a_triangle_among_the_weights_is_looked_up(tmp_path, join):
    """64 x 64 numbers are more than what is kept of other tensors while a file is parsed."""
    held = {
        "seen": TRIANGLE,
        "hidden": ~TRIANGLE,
        "Add": np.where(TRIANGLE, 0, -np.inf).astype(np.float32),
    }[join]
    stored = given("mask", held[None, None], held.dtype)
    op, flops = only(attention(tmp_path, [], [stored], join=join))
    assert op.attrs["causal"]
    assert flops == CAUSAL


def test_a_part_of_a_larger_triangle(tmp_path):
    """As models keep it for their longest context."""
    whole = given("all", np.tri(128, dtype=bool)[None, None], bool)
    ends = [given("from", [0, 0]), given("to", [TOKENS, TOKENS]), given("axes", [2, 3])]
    nodes = [node("Slice", "all from to axes", "mask")]
    op, flops = only(attention(tmp_path, nodes, [whole, *ends], join="seen"))
    assert op.attrs["causal"]
    assert flops == CAUSAL


def test_a_band_is_a_window(tmp_path):
    band = TRIANGLE & ~np.tri(TOKENS, TOKENS, -16, dtype=bool)
    op, flops = only(attention(tmp_path, [], [given("mask", band, bool)], join="seen"))
    assert op.sizes["window"] == 16
    # 1 + 2 + ... + 16 pairs of the first tokens, 16 of each of the others
    assert flops == 2 * 2 * HEADS * WIDTH * (16 * 17 // 2 + 16 * (TOKENS - 16))


def test_padding_beside_a_triangle_stays_an_input(tmp_path):
    padding = value("padding", [1, 1, 1, TOKENS], BOOL)
    nodes = [node("And", "triangle padding", "mask")]
    stored = [given("triangle", TRIANGLE, bool)]
    op, flops = only(attention(tmp_path, nodes, stored, join="seen", inputs=[padding]))
    assert op.attrs["causal"]
    assert op.attrs["mask"]
    assert flops == CAUSAL


def test_places_compared_with_each_other(tmp_path):
    """The ranges begin where data say, and so their values are not known."""
    nodes = [
        node("Add", "start length", "end"),
        node("Range", "start end one", "places"),
        node("Reshape", "places column", "rows"),
        node("Reshape", "places row", "columns"),
        node("LessOrEqual", "columns rows", "mask"),
    ]
    stored = [given("length", TOKENS), given("one", 1)]
    stored += [given("column", [TOKENS, 1]), given("row", [1, TOKENS])]
    start = value("start", [], onnx.TensorProto.INT64)
    op, flops = only(attention(tmp_path, nodes, stored, join="seen", inputs=[start]))
    assert op.attrs["causal"]
    assert flops == CAUSAL


@pytest.mark.parametrize("name", ["input", "scattered", "per head"])
def test_other_masks_leave_all_pairs(tmp_path, name):
    rng = np.random.default_rng(0)
    shape = [1, HEADS if name == "per head" else 1, TOKENS, TOKENS]
    held = rng.random(shape) < 0.5
    held[..., 0] = True
    inputs, stored = [], [given("mask", held, bool)]
    if name == "input":
        inputs, stored = [value("mask", shape, BOOL)], []
    op, flops = only(attention(tmp_path, [], stored, join="seen", inputs=inputs))
    assert not op.attrs["causal"]
    assert flops == FULL


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_bias_is_read_whatever_its_sign(tmp_path, sign, hides):
    """Relative positions add to scores; ALiBi takes from them, under a triangle."""
    bias = sign * np.random.default_rng(0).random((1, HEADS, TOKENS, TOKENS)).astype(np.float32)
    if hides:
        bias = np.where(TRIANGLE, bias, -np.inf).astype(np.float32)
    op, flops = only(attention(tmp_path, [], [given("mask", bias, np.float32)]))
    assert op.attrs["mask"]
    assert op.attrs["causal"] is hides
    assert flops == (CAUSAL if hides else FULL)


def test_the_same_number_everywhere_changes_nothing(tmp_path):
    same = np.full((1, 1, TOKENS, TOKENS), 3.0, np.float32)
    op, flops = only(attention(tmp_path, [], [given("mask", same, np.float32)]))
    assert not op.attrs["mask"]
    assert flops == FULL
