"""Norms and attention that exporters write out, in forms that programs of XLA have as well."""

import numpy as np
import onnx

from gambrel.capture.onnx.reader import read_onnx
from tests.capture.onnx.models import array, given, node, save, value

HALF, FLOAT = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT


def rms_norm(x, out):
    """In fp32, as transformers writes it for weights of 16 bits, without the weights."""
    return [
        node("Cast", x, "wide", to=FLOAT),
        node("Pow", "wide two", "square"),
        node("ReduceMean", "square axes", "mean", keepdims=1),
        node("Add", "mean eps", "shifted"),
        node("Sqrt", "shifted", "root"),
        node("Reciprocal", "root", "inverse"),
        node("Mul", "wide inverse", "scaled"),
        node("Cast", "scaled", out, to=HALF),
    ]


NUMBERS = [
    given("two", 2.0, np.float32),
    given("eps", 1e-6, np.float32),
    given("axes", [-1]),
]


def test_the_casts_around_an_rms_norm_belong_to_it(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [*rms_norm("x", "narrow"), node("Mul", "weight narrow", "y")],
        [value("x", [2, 16, 32], HALF)],
        [value("y", [2, 16, 32], HALF)],
        [*NUMBERS, array("weight", 32, dtype=np.float16)],
    )
    workload = read_onnx(path)
    (op,) = workload.ops
    assert op.attrs == {"function": "rms_norm", "statistics": True, "affine": True}
    assert op.sizes == {"elements": 1024, "groups": 32}
    assert [workload.tensors[i].dtype for i in (*op.inputs, *op.outputs)] == ["fp16"] * 3


def test_positions_behind_an_rms_norm_are_no_part_of_it(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [*rms_norm("x", "narrow"), node("Add", "narrow places", "y")],
        [value("x", [2, 16, 32], HALF)],
        [value("y", [2, 16, 32], HALF)],
        [*NUMBERS, array("places", 1, 16, 32, dtype=np.float16)],
    )
    assert [op.kind for op in read_onnx(path).ops] == ["normalization", "elementwise"]


def test_a_mean_over_channels_stays_written_out(tmp_path):
    nodes = [
        node("Pow", "x two", "square"),
        node("ReduceMean", "square axes", "mean", keepdims=1),
        node("Add", "mean eps", "shifted"),
        node("Sqrt", "shifted", "root"),
        node("Div", "x root", "y"),
    ]
    numbers = [*NUMBERS[:2], given("axes", [1])]
    shape = [2, 8, 4, 4]
    path = save(tmp_path / "m.onnx", nodes, [value("x", shape)], [value("y", shape)], numbers)
    assert not any(op.kind == "normalization" for op in read_onnx(path).ops)


def test_scores_may_change_their_form_on_the_way(tmp_path):
    """Windows of 4 tokens, whose scores get a dimension for the mask and lose it again."""
    stored = [
        given("five", [2, 3, 2, 4, 4]),
        given("four", [6, 2, 4, 4]),
        given("scale", 0.25, np.float32),
    ]
    nodes = [
        node("Transpose", "k", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned", "scores"),
        node("Mul", "scores scale", "small"),
        node("Reshape", "small five", "apart"),
        node("Add", "apart bias", "masked"),
        node("Reshape", "masked four", "together"),
        node("Softmax", "together", "weights", axis=-1),
        node("MatMul", "weights v", "y"),
    ]
    shape = [6, 2, 4, 8]
    inputs = [*(value(name, shape) for name in "qkv"), value("bias", [1, 3, 1, 4, 4])]
    workload = read_onnx(save(tmp_path / "m.onnx", nodes, inputs, [value("y", shape)], stored))
    (op,) = workload.ops
    assert op.kind == "attention"
    assert op.attrs["mask"]
    assert op.sizes == {
        "batch": 6,
        "heads": 2,
        "kv_heads": 2,
        "q_len": 4,
        "kv_len": 4,
        "head_dim": 8,
        "v_head_dim": 8,
    }


def test_a_sum_over_queries_is_no_attention(tmp_path):
    """The second product reads the weights at its right: it sums over the queries."""
    nodes = [
        node("MatMul", "q k", "scores"),
        node("Softmax", "scores", "weights", axis=-1),
        node("MatMul", "v weights", "y"),
    ]
    inputs = [value("q", [2, 4, 8]), value("k", [2, 8, 4]), value("v", [2, 8, 4])]
    workload = read_onnx(save(tmp_path / "m.onnx", nodes, inputs, [value("y", [2, 8, 4])]))
    assert [op.kind for op in workload.ops] == ["matmul", "softmax", "matmul"]
