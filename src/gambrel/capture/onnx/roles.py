"""What stored tensors are to a model, told by the operators that read them."""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.edges import Edge, Step, Trace
from gambrel.workload import Role

#: Operator → inputs that are parameters, wherever the file keeps them.
_WEIGHTS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(("MatMul", "gambrel::Linear", "Gemm", "com.microsoft::FusedMatMul"), (0, 1, 2)),
    **dict.fromkeys(("Conv", "ConvTranspose", "com.microsoft::FusedConv"), (1, 2)),
    **dict.fromkeys(("gambrel::Dense", "gambrel::Convolution"), (1, 2)),
    "gambrel::Recurrent": tuple(range(1, 24)),
    "ConvInteger": (1,),
    "MatMulInteger": (1,),
    **dict.fromkeys(("QLinearConv", "com.microsoft::QLinearConv"), (3, 8)),
    "QLinearMatMul": (3,),
    "com.microsoft::QGemm": (3, 6),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (1, 2, 3)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "BatchNormalization"), (1, 2)),
    "xla::normalization": (1, 2, 3, 4),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), (1, 2)),
    **dict.fromkeys(("com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4"), (1, 5)),
    "com.microsoft::GatherBlockQuantized": (0,),
    **dict.fromkeys(("com.microsoft::DynamicQuantizeMatMul", "com.microsoft::QAttention"), (1,)),
    "com.microsoft::MatMulIntegerToFloat": (1,),
    "com.microsoft::MoE": tuple(range(2, 8)),
    "com.microsoft::QMoE": (2, 4, 5, 7, 8, 10),
}
#: Operator → inputs that go with the model and are no parameters: statistics, scales, zero points.
_BUFFERS: Final[dict[str, tuple[int, ...]]] = {
    "BatchNormalization": (3, 4),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), (1, 2)),
    **dict.fromkeys(("QLinearConv", "com.microsoft::QLinearConv"), (1, 2, 4, 5, 6, 7)),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    **dict.fromkeys(("com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4"), (2, 3, 4)),
    "com.microsoft::GatherBlockQuantized": (2, 3),
    "com.microsoft::QMoE": (3, 6, 9),
    **dict.fromkeys(("RotaryEmbedding", "com.microsoft::RotaryEmbedding"), (1, 2, 3)),
    "com.microsoft::GroupQueryAttention": (7, 8),
}
#: Operator → inputs that are caches of keys and values.
_CACHES: Final[dict[str, tuple[int, ...]]] = {
    "Attention": (4, 5),
    "com.microsoft::GroupQueryAttention": (3, 4),
    "com.microsoft::MultiHeadAttention": (6, 7),
    "com.microsoft::Attention": (4,),
    "TensorScatter": (0,),
}
_BITS: Final[dict[int, int]] = {2: 25, 4: 21, 8: 2}


def assign_roles(trace: Trace) -> None:
    """Sets the roles of stored tensors and caches in place."""
    for step in trace.steps:
        for edge in _at(step, _WEIGHTS):
            if edge.is_stored:
                edge.role = Role.WEIGHT
        for edge in _at(step, _BUFFERS):
            if edge.is_stored and edge.role is not Role.CONSTANT:
                edge.role = Role.BUFFER
        for edge in _at(step, _CACHES):
            if edge.role is Role.INPUT:
                edge.role = Role.KV_CACHE
        if step.op in ("com.microsoft::MatMulNBits", "com.microsoft::GatherBlockQuantized"):
            _unpack(step)
        if step.op == "com.microsoft::QMoE":
            _unpack_experts(step)


def _unpack_experts(step: Step) -> None:
    """Several narrow weights of an expert lie in a byte."""
    bits = int(step.attrs.get("expert_weight_bits", 4))
    for edge in (step.input(i) for i in (2, 5, 8)):
        if edge is None or edge.shape is None or edge.code != 2 or not edge.is_stored:
            continue
        if bits in _BITS and edge.shape:
            edge.shape = (*edge.shape[:-1], edge.shape[-1] * 8 // bits)
            edge.code = _BITS[bits]


def _at(step: Step, table: dict[str, tuple[int, ...]]) -> list[Edge]:
    places = table.get(step.op, ())
    return [e for e in (step.input(i) for i in places) if e is not None]


def _unpack(step: Step) -> None:
    """Weights of few bits lie in bytes; their elements are counted as what they are."""
    weight = step.input(1 if step.op.endswith("NBits") else 0)
    bits = int(step.attrs.get("bits", 4))
    if weight is None or weight.shape is None or weight.code != 2 or bits not in _BITS:
        return
    if not weight.is_stored:
        return
    if step.op.endswith("NBits"):
        weight.shape = (int(step.attrs["N"]), int(step.attrs["K"]))
    else:
        weight.shape = (*weight.shape[:-1], weight.shape[-1] * 8 // bits)
    weight.code = _BITS[bits]
