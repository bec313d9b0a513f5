"""Cost formulas: one registry from neutral op kinds to work and compulsory traffic.

Importing this package registers every family. It loads no array library: formulas are plain
arithmetic that works on exact ints and on arrays alike.
"""

from gambrel.ops import (
    attention,
    convolution,
    elementwise,
    matmul,
    movement,
    normalization,
)
from gambrel.ops.base import (
    Conventions,
    Cost,
    Engine,
    OpView,
    TensorView,
    cost,
    is_free,
    is_modelled,
    kinds,
)

__all__ = [
    "Conventions",
    "Cost",
    "Engine",
    "OpView",
    "TensorView",
    "attention",
    "convolution",
    "cost",
    "elementwise",
    "is_free",
    "is_modelled",
    "kinds",
    "matmul",
    "movement",
    "normalization",
]
