"""ATen ops to neutral kinds, without torch: one table for every front end that meets ATen ops.

The rules stand in one module a family; importing this package registers them all.
"""

from gambrel.capture.aten import (  # noqa: F401  # each registers its own
    attention,
    collective,
    convolution,
    copies,
    elementwise,
    factories,
    indexing,
    linalg,
    losses,
    matmul,
    normalization,
    optimizer,
    pooling,
    recurrent,
    reduction,
    views,
    vision,
)
from gambrel.capture.aten.call import Call, Described, TensorArg, flatten
from gambrel.capture.aten.registry import describe, is_known, known_ops, rule

__all__ = [
    "Call",
    "Described",
    "TensorArg",
    "describe",
    "flatten",
    "is_known",
    "known_ops",
    "rule",
]
