"""ONNX operators to neutral kinds: one rule each, in one module per family."""

from gambrel.capture.onnx.lowering import (
    attention,
    convolution,
    elementwise,
    experts,
    movement,
    normalization,
    pooling,
    products,
    quantization,
    recurrent,
    reduction,
    signals,
)
from gambrel.capture.onnx.lowering.registry import NodeOperands, is_lowered, lower, lowers

__all__ = [
    "NodeOperands",
    "attention",
    "convolution",
    "elementwise",
    "experts",
    "is_lowered",
    "lower",
    "lowers",
    "movement",
    "normalization",
    "pooling",
    "products",
    "quantization",
    "recurrent",
    "reduction",
    "signals",
]
