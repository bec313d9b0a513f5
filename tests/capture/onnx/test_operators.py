"""Work of single operators, by hand arithmetic."""

import numpy as np
import onnx
import pytest

import gambrel
from gambrel.capture.onnx.reader import read_onnx
from tests.capture.onnx.models import array, given, node, save, value


def cost(workload):
    analysis = gambrel.analyze(workload, "h100", causal="full")
    assert analysis.coverage == 1.0
    return int(analysis.total.matrix_flops), analysis.total


def kinds(workload):
    return [op.kind for op in workload.ops]


def test_a_convolution_of_two_groups(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [node("Conv", "x w b", "y", group=2, strides=[2, 2], pads=[1, 1, 1, 1])],
        [value("x", [3, 4, 8, 8])],
        [value("y", None)],
        [array("w", 6, 2, 3, 3), array("b", 6)],
    )
    workload = read_onnx(path)
    # 3 images, 6 channels of 4x4 results, each of 2 channels times 9 taps
    assert cost(workload)[0] == 2 * 3 * 6 * 16 * 2 * 9
    assert gambrel.analyze(workload, "h100").model.parameters == 6 * 2 * 9 + 6


def test_a_transposed_convolution_counts_its_input(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [node("ConvTranspose", "x w", "y", strides=[2, 2])],
        [value("x", [1, 4, 5, 5])],
        [value("y", None)],
        [array("w", 4, 3, 2, 2)],
    )
    assert cost(read_onnx(path))[0] == 2 * 25 * 4 * 3 * 4


def test_gemm_and_a_product_with_its_bias_are_one_op(tmp_path):
    gemm = save(
        tmp_path / "gemm.onnx",
        [node("Gemm", "x w b", "y", transB=1)],
        [value("x", [5, 7])],
        [value("y", None)],
        [array("w", 3, 7), array("b", 3)],
    )
    apart = save(
        tmp_path / "apart.onnx",
        [node("MatMul", "x w", "p"), node("Add", "b p", "y")],
        [value("x", [5, 7])],
        [value("y", None)],
        [array("w", 7, 3), array("b", 3)],
    )
    for path in (gemm, apart):
        workload = read_onnx(path)
        assert kinds(workload) == ["matmul"]
        assert workload.ops[0].attrs["bias"] is True
        assert cost(workload)[0] == 2 * 5 * 7 * 3


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_counts_every_step(tmp_path, op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    path = save(
        tmp_path / "m.onnx",
        [node(op, "x w r", "y", hidden_size=5, direction="bidirectional")],
        [value("x", [9, 2, 3])],
        [value("y", None)],
        [array("w", 2, gates * 5, 3), array("r", 2, gates * 5, 5)],
    )
    # 9 steps, 2 sequences, 2 directions, gates·5 sums of 3 + 5 products
    assert cost(read_onnx(path))[0] == 2 * 9 * 2 * 2 * gates * 5 * 8


def test_a_decomposed_attention_is_one_op(tmp_path):
    nodes = [
        node("Transpose", "k", "t", perm=[0, 1, 3, 2]),
        node("Mul", "q s", "scaled"),
        node("MatMul", "scaled t", "a"),
        node("Add", "a mask", "b"),
        node("Softmax", "b", "c", axis=-1),
        node("MatMul", "c v", "y"),
    ]
    inputs = [value(n, [2, 3, 10, 8]) for n in "qkv"] + [value("mask", [1, 1, 10, 10])]
    path = save(
        tmp_path / "m.onnx", nodes, inputs, [value("y", None)], [given("s", 0.3, np.float32)]
    )
    workload = read_onnx(path)
    assert kinds(workload) == ["attention"]
    assert cost(workload)[0] == 2 * 2 * 3 * 10 * 10 * (8 + 8)


def test_grouped_query_attention_sees_the_cache(tmp_path):
    call = node(
        "GroupQueryAttention",
        "q k v pk pv len total",
        "y nk nv",
        domain="com.microsoft",
        num_heads=4,
        kv_num_heads=2,
    )
    inputs = [value("q", [1, 1, 32]), value("k", [1, 1, 16]), value("v", [1, 1, 16])]
    inputs += [value(n, [1, 2, 31, 8]) for n in ("pk", "pv")]
    inputs += [value("len", [1], 6), value("total", [], 6)]
    outputs = [value(n, None) for n in ("y", "nk", "nv")]
    path = save(tmp_path / "m.onnx", [call], inputs, outputs, domains=["com.microsoft"])
    # 4 heads, one query, 31 + 1 keys, width 8 twice
    assert cost(read_onnx(path))[0] == 2 * 4 * 32 * 16


def test_weights_of_four_bits_are_stored_as_such(tmp_path):
    call = node(
        "MatMulNBits", "x w s", "y", domain="com.microsoft", N=16, K=64, bits=4, block_size=32
    )
    stored = [array("w", 16, 2, 16, dtype=np.uint8), array("s", 32)]
    path = save(
        tmp_path / "m.onnx",
        [call],
        [value("x", [3, 64])],
        [value("y", None)],
        stored,
        domains=["com.microsoft"],
    )
    workload = read_onnx(path)
    weight = next(t for t in workload.tensors if t.name == "w")
    assert (weight.dtype, weight.shape, weight.role) == ("int4", (16, 64), "weight")
    assert cost(workload)[0] == 2 * 3 * 16 * 64
    assert gambrel.analyze(workload, "h100").model.parameters == 16 * 64


def quantized(tmp_path):
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("DequantizeLinear", "xq s z", "xf"),
        node("DequantizeLinear", "w s z", "wf"),
        node("Conv", "xf wf", "c"),
        node("Relu", "c", "r"),
        node("QuantizeLinear", "r s z", "rq"),
        node("DequantizeLinear", "rq s z", "y"),
    ]
    stored = [array("w", 4, 3, 3, 3, dtype=np.int8), given("s", 0.1, np.float32)]
    stored.append(given("z", 0, np.int8))
    return save(tmp_path / "q.onnx", nodes, [value("x", [1, 3, 6, 6])], [value("y", None)], stored)


def test_a_quantized_graph_runs_on_integers(tmp_path):
    workload = read_onnx(quantized(tmp_path))
    functions = [op.attrs.get("function", op.kind) for op in workload.ops]
    assert functions == ["quantize", "convolution", "relu", "dequantize"]
    conv = workload.ops[1]
    assert conv.attrs["compute_dtype"] == "int8"
    assert [workload.tensors[i].dtype for i in conv.inputs] == ["int8", "int8"]
    assert cost(workload)[1].flops > 0


def test_a_weight_that_is_dequantized_is_storage_not_work(tmp_path):
    nodes = [node("DequantizeLinear", "w s", "wf"), node("MatMul", "x wf", "y")]
    stored = [array("w", 8, 4, dtype=np.int8), given("s", 0.1, np.float32)]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [2, 8])], [value("y", None)], stored)
    workload = read_onnx(path)
    (op,) = workload.ops
    assert op.attrs["dequantize"] is True
    assert op.attrs["compute_dtype"] == "fp32"


def test_batch_norm_keeps_its_statistics_as_buffers(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [node("BatchNormalization", "x a b m v", "y")],
        [value("x", [1, 6, 2, 2])],
        [value("y", None)],
        [array(n, 6) for n in "abmv"],
    )
    assert gambrel.analyze(read_onnx(path), "h100").model.parameters == 12


def gelu(x):
    return [
        node("Div", f"{x} root", "d"),
        node("Erf", "d", "e"),
        node("Add", "e one", "f"),
        node("Mul", f"{x} f", "g"),
        node("Mul", "g half", "y"),
    ]


def layer_norm(x):
    return [
        node("ReduceMean", x, "mean", axes=[-1]),
        node("Sub", f"{x} mean", "d"),
        node("Pow", "d two", "p"),
        node("ReduceMean", "p", "var", axes=[-1]),
        node("Add", "var eps", "e"),
        node("Sqrt", "e", "r"),
        node("Div", "d r", "n"),
        node("Mul", "n w", "m"),
        node("Add", "m b", "y"),
    ]


NUMBERS = {"root": 2**0.5, "one": 1.0, "half": 0.5, "two": 2.0, "eps": 1e-5, "scale": 1.702}


@pytest.mark.parametrize(
    ("nodes", "kind", "function"),
    [
        (gelu("x"), "elementwise", "gelu"),
        (layer_norm("x"), "normalization", "layer_norm"),
        ([node("Sigmoid", "x", "s"), node("Mul", "x s", "y")], "elementwise", "silu"),
        (
            [node("Softplus", "x", "s"), node("Tanh", "s", "t"), node("Mul", "x t", "y")],
            "elementwise",
            "mish",
        ),
        (
            [node("Mul", "x scale", "a"), node("Sigmoid", "a", "s"), node("Mul", "x s", "y")],
            "elementwise",
            "quick_gelu",
        ),
    ],
    ids=["gelu", "layer_norm", "silu", "mish", "quick_gelu"],
)
def test_what_exporters_write_out_is_one_op(tmp_path, nodes, kind, function):
    stored = [given(name, number, np.float32) for name, number in NUMBERS.items()]
    stored += [array("w", 12), array("b", 12)]
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", [4, 12])], [value("y", None)], stored, opset=13
    )
    (op,) = read_onnx(path).ops
    assert (op.kind, op.attrs["function"]) == (kind, function)


def test_a_formula_that_something_else_reads_stays_written_out(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [node("Sigmoid", "x", "s"), node("Mul", "x s", "y")],
        [value("x", [4])],
        [value("y", None), value("s", None)],
    )
    assert [op.attrs["function"] for op in read_onnx(path).ops] == ["sigmoid", "mul"]


def test_an_unknown_operator_lowers_the_coverage(tmp_path):
    nodes = [node("Relu", "x", "r"), node("Mystery", "r", "y", domain="com.example")]
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", [4])], [value("y", [4])], domains=["com.example"]
    )
    analysis = gambrel.analyze(str(path), "h100")
    assert analysis.coverage == 0.5


def test_shape_arithmetic_is_no_work(tmp_path):
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n first", "u"),
        node("Concat", "u minus", "c", axis=0),
        node("Reshape", "x c", "y"),
    ]
    stored = [given("zero", 0), given("first", [0]), given("minus", [-1])]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [4, 3, 2])], [value("y", None)], stored)
    workload = read_onnx(path)
    assert workload.ops == ()
    assert workload.tensors[workload.outputs[0]].shape == (4, 6)


def test_narrow_floats_keep_their_width(tmp_path):
    kinds_of = {"fp8": onnx.TensorProto.FLOAT8E4M3FN, "bf16": onnx.TensorProto.BFLOAT16}
    for name, code in kinds_of.items():
        path = save(
            tmp_path / "m.onnx",
            [node("Identity", "x", "a"), node("Transpose", "a", "y")],
            [value("x", [4, 3], code)],
            [value("y", None, code)],
        )
        assert read_onnx(path).tensors[0].dtype == name


def experts(tmp_path, op, stored, **attributes):
    names = "x r w1 {0} w2 {1}" if op == "QMoE" else "x r w1 {0} w2"
    call = node(op, names.format("s1" if op == "QMoE" else "b1", "s2"), "y",
                domain="com.microsoft", k=2, **attributes)  # fmt: skip
    if op == "QMoE":
        call.input[:] = ["x", "r", "w1", "s1", "", "w2", "s2"]
    inputs = [value("x", [6, 16]), value("r", [6, 4])]
    return read_onnx(
        save(tmp_path / "m.onnx", [call], inputs, [value("y", None)], stored,
             domains=["com.microsoft"])
    )  # fmt: skip


@pytest.mark.parametrize(("name", "width"), [("relu", 32), ("swiglu", 64)])
def test_a_mixture_of_experts(tmp_path, name, width):
    stored = [array("w1", 4, width, 16), array("b1", 4, width), array("w2", 4, 16, 32)]
    workload = experts(tmp_path, "MoE", stored, activation_type=name)
    flops, total = cost(workload)
    # 6 tokens through 2 experts each: 16 to the hidden width (twice where gated), 32 to 16.
    assert flops == 6 * 2 * 2 * (16 * width + 32 * 16)
    assert gambrel.analyze(workload, "h100").model.parameters == 4 * (width * 16 + width + 16 * 32)
    assert total.sol_traffic_bytes < sum(4 * np.prod(t.dims) for t in stored) + 4 * 6 * 36


def test_a_mixture_of_experts_of_4_bits(tmp_path):
    packed = [
        helper_tensor("w1", (4, 32, 8)), array("s1", 4, 32),
        helper_tensor("w2", (4, 16, 16)), array("s2", 4, 16),
    ]  # fmt: skip
    workload = experts(tmp_path, "QMoE", packed, expert_weight_bits=4)
    assert cost(workload)[0] == 6 * 2 * 2 * (16 * 32 + 32 * 16)
    products = [op for op in workload.ops if op.kind == "grouped_matmul"]
    for op in products:
        assert workload.tensors[op.inputs[1]].dtype == "int4"
        assert op.attrs["compute_dtype"] == "fp32"


def helper_tensor(name, shape):
    return onnx.numpy_helper.from_array(np.zeros(shape, np.uint8), name)
