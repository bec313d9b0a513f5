"""Whether a model is a function of JAX, and its name: asked of every model, without a reader."""

from __future__ import annotations

import sys
from typing import Any


def is_function(value: Any) -> bool:
    """Whether a value can be a function or a module of JAX, which then is imported already."""
    return "jax" in sys.modules and callable(value)


def function_name(function: Any) -> str:
    """What a function or a module is called."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", "") or type(inner).__name__)
