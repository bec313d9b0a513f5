"""MLIR with the dialects that XLA's users write, from jaxlib alone: importing JAX takes longer."""

from __future__ import annotations

from typing import Any, Final

#: Dialects that register by a function of their own: module in jaxlib, function.
_OWN: Final = (
    ("sdy", "register_dialect"),
    ("mpmd", "register_dialect"),
    ("mhlo", "register_mhlo_dialect"),
    ("chlo", "register_dialect"),
    ("stablehlo", "register_dialect"),
)


def make_context() -> Any:
    """A context with every dialect that JAX writes; by JAX itself where its jaxlib differs."""
    try:
        return _of_jaxlib()
    except (ImportError, AttributeError, TypeError):
        from jax.interpreters import mlir

        return mlir.make_ir_context()


def _of_jaxlib() -> Any:
    from importlib import import_module

    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext

    upstream = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(upstream)
    context = ir.Context()
    context.allow_unregistered_dialects = True  # what is not known is unmodelled
    context.append_dialect_registry(upstream)
    context.load_all_available_dialects()
    for name, function in _OWN:
        getattr(import_module(f"jaxlib.mlir.dialects.{name}"), function)(context)
    return context
