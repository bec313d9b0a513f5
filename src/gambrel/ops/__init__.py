"""Cost formulas: one registry from neutral op kinds to work and compulsory traffic.

Importing this package registers every family. It loads no array library: formulas are plain
arithmetic that works on exact ints and on arrays alike.
"""

from gambrel.ops import (  # noqa: F401  # each registers its own
    attention,
    collective,
    convolution,
    detection,
    elementwise,
    embedding,
    interpolation,
    kernel,
    loss,
    matmul,
    movement,
    normalization,
    optimizer,
    recurrent,
    reduction,
    scan,
    transform,
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
    is_prunable,
    kinds,
)

__all__ = [
    "Conventions",
    "Cost",
    "Engine",
    "OpView",
    "TensorView",
    "cost",
    "is_free",
    "is_modelled",
    "is_prunable",
    "kinds",
]
