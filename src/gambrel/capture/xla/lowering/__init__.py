"""Rules from operations of XLA that ONNX lacks to neutral kinds."""

from gambrel.capture.xla.lowering import movement, numeric, products, reduction

__all__ = ["movement", "numeric", "products", "reduction"]
