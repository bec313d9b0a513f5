"""QDQ graphs read as what compilers make of them: ops on integers, weights stored as integers.

A DequantizeLinear only says how its input is to be read, a QuantizeLinear how a result is to be
written; the op between them computes on integers. At the ends of the graph both are work.
"""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.patterns.flow import Flow
from gambrel.workload import Role

_QUANTIZE: Final = ("QuantizeLinear", "com.microsoft::QuantizeLinear")
_DEQUANTIZE: Final = ("DequantizeLinear", "com.microsoft::DequantizeLinear")
_PRODUCTS: Final = frozenset(
    {"Conv", "ConvTranspose", "MatMul", "Gemm", "gambrel::Dense", "gambrel::Convolution"}
)
#: What only moves a weight between its storage and the product.
_MOVES: Final = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten")
#: Integer formats by onnx.TensorProto.DataType: those that products compute in.
_INTEGERS: Final = frozenset({2, 3})
_FLOATS_OF_8: Final = frozenset({17, 18, 19, 20})


def read_quantized(flow: Flow) -> None:
    """Takes quantization out of the graph wherever a compiler would."""
    for step in flow.steps(*_DEQUANTIZE):
        _read_narrow(flow, step)
    for step in flow.steps(*_QUANTIZE):
        _write_narrow(flow, step)
    for step in flow.trace.steps:
        if step.op in _PRODUCTS and "quantized" not in step.attrs:
            _set_format(step)


def _read_narrow(flow: Flow, step: Step) -> None:
    """Lets the readers of a dequantized tensor read the integers."""
    source, out = step.x(), step.out
    if source.is_stored:
        source.role = Role.WEIGHT
        for edge in step.inputs[1:]:
            if edge is not None and edge.is_stored:
                edge.role = Role.BUFFER
    made = flow.maker.get(source)
    quantized = source.is_stored or (made is not None)
    if not quantized or flow.is_returned(out) or not flow.readers(out):
        return
    for reader in flow.readers(out):
        for index, edge in enumerate(reader.inputs):
            if edge is out:
                flow.redirect(reader, index, source)
        _moves_keep(flow, reader)
    flow.drop(step)


def _moves_keep(flow: Flow, step: Step) -> None:
    """Moved or selected integers stay integers."""
    first = step.input(0)
    if _keeps(step) and first is not None and step.out.code != first.code:
        step.out.code = first.code
        for reader in flow.readers(step.out):
            _moves_keep(flow, reader)


def _keeps(step: Step) -> bool:
    """Whether the results of a step are some of its elements."""
    return step.op in (*_MOVES, "MaxPool") or step.attrs.get("function") == "max"


def _write_narrow(flow: Flow, step: Step) -> None:
    """Lets the op that makes a tensor write the integers itself."""
    x, out = step.x(), step.out
    maker = flow.maker.get(x)
    if maker is None or maker.op in _QUANTIZE + _DEQUANTIZE or flow.is_returned(x):
        return
    if flow.only_reader(x, *_QUANTIZE) is not step or len(maker.outputs) != 1:
        return
    flow.drop(step)
    maker.outputs[0] = out
    flow.maker[out] = maker


def _set_format(step: Step) -> None:
    """The format that a product computes in: integers where both operands are."""
    a, b = step.input(0), step.input(1)
    if a is None or b is None:
        return
    if {a.code, b.code} <= _INTEGERS:
        step.attrs["quantized"] = {"compute_dtype": "int8"}
    elif a.code in _FLOATS_OF_8 and b.code in _FLOATS_OF_8:
        step.attrs["quantized"] = {"compute_dtype": "fp8"}
    elif _is_narrow(b) and not _is_narrow(a):
        step.attrs["quantized"] = {"dequantize": True, "compute_dtype": a.dtype}


def _is_narrow(edge: Edge) -> bool:
    return edge.dtype in ("int8", "uint8", "int4", "int2", "fp8", "fp4", "fp6")
