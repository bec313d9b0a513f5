"""Modules of libraries for JAX as functions of their parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gambrel.errors import CaptureError, kind_and_line

_Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def called(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> _Call:
    """A function of arrays alone, and what to call it with, parameters first.

    Plain functions are returned as they are; what they close over are their parameters.
    """
    args = tuple(args)
    for library, test in (("keras", _keras), ("flax.linen", _linen), ("flax.nnx", _nnx)):
        if library in sys.modules:
            found = test(function, args, kwargs)
            if found is not None:
                return found
    return _tree(function, args, kwargs) or _fixed(function, args, kwargs)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _fixed(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
    """Keyword arguments without arrays (train=False) choose a program: they stay Python values."""
    import jax

    fixed = {k: v for k, v in kwargs.items() if not all(map(_is_array, jax.tree.leaves(v)))}
    if not fixed:
        return function, args, kwargs
    rest = {k: v for k, v in kwargs.items() if k not in fixed}

    def with_values(*a: Any, **k: Any) -> Any:
        return function(*a, **k, **fixed)

    with_values.__signature__ = _signature(function)  # type: ignore[attr-defined]
    return with_values, args, rest


def _signature(function: Any) -> Any:
    import inspect

    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.Signature()


def _tree(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
    """A module that is a tree of arrays and other values (Equinox)."""
    import jax

    leaves, tree = jax.tree_util.tree_flatten(function)
    if tree == jax.tree_util.tree_structure(0) or not any(map(_is_array, leaves)):
        return None
    moving = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]
    paths = [p for p, _ in jax.tree_util.tree_flatten_with_path(function)[0]]
    keys = [jax.tree_util.keystr(paths[i]) for i in moving]

    def apply(model: dict[str, Any], *a: Any, **k: Any) -> Any:
        whole = list(leaves)
        for i, key in zip(moving, keys, strict=True):
            whole[i] = model[key]
        return jax.tree_util.tree_unflatten(tree, whole)(*a, **k)

    model = {key: leaves[i] for i, key in zip(moving, keys, strict=True)}
    return _fixed(apply, (model, *args), kwargs)


def _linen(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
    """A module of Flax Linen: the forms of its variables follow from its inputs."""
    import jax

    linen = sys.modules["flax.linen"]
    if not isinstance(function, linen.Module):
        return None
    keys = {name: jax.random.key(0) for name in ("params", "dropout")}

    def init(*a: Any) -> Any:
        return function.init(keys, *a, **kwargs)

    try:
        variables = jax.eval_shape(init, *args)
    except Exception as error:
        raise CaptureError(
            f"{type(function).__name__}.init fails with these inputs: {kind_and_line(error)}"
        ) from error

    def apply(variables: Any, *a: Any) -> Any:
        return function.apply(variables, *a, rngs={"dropout": jax.random.key(0)}, **kwargs)

    return apply, (variables, *args), {}


def _nnx(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
    """A module of Flax NNX: split into its graph and its arrays."""
    nnx = sys.modules["flax.nnx"]
    if not isinstance(function, nnx.Module):
        return None
    graph, params, rest = nnx.split(function, nnx.Param, ...)

    def apply(params: Any, buffers: Any, *a: Any, **k: Any) -> Any:
        return nnx.merge(graph, params, buffers)(*a, **k)

    return _fixed(apply, (params, rest, *args), kwargs)


def _keras(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
    """A model of Keras 3 on its JAX backend."""
    keras = sys.modules["keras"]
    if not isinstance(function, keras.Model):
        return None
    if keras.backend.backend() != "jax":
        raise CaptureError(
            f"{function.name}: Keras runs on the {keras.backend.backend()} backend here; set "
            "KERAS_BACKEND=jax before importing it."
        )
    from gambrel.capture.jax.keras_models import stateless

    return stateless(function, args, kwargs)
