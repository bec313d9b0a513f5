"""What happens to the steps of a model between walking it and lowering it."""

from __future__ import annotations

from gambrel.capture.onnx.edges import Trace
from gambrel.capture.onnx.patterns.affine import recognise_affine
from gambrel.capture.onnx.patterns.cones import recognise_activations
from gambrel.capture.onnx.patterns.flow import Flow
from gambrel.capture.onnx.patterns.linear import recognise_linear
from gambrel.capture.onnx.patterns.norms import recognise_norms
from gambrel.capture.onnx.patterns.scores import recognise_attention
from gambrel.capture.onnx.quantized import read_quantized
from gambrel.capture.onnx.roles import assign_roles


def refine(trace: Trace) -> None:
    """Recognises decompositions and quantization, and gives weights their role."""
    flow = Flow(trace)
    read_quantized(flow)
    recognise_norms(flow)
    recognise_affine(flow)
    recognise_activations(flow)
    recognise_attention(flow)
    recognise_linear(flow)
    flow.finish()
    assign_roles(trace)
