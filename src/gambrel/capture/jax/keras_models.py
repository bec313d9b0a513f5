"""Models of Keras 3 on the JAX backend."""

from __future__ import annotations

from typing import Any

from gambrel.errors import CaptureError


def stateless(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model as a function of its trainable and its other variables."""
    import jax

    if not model.built:
        try:
            jax.eval_shape(model, *args)
        except Exception as error:
            raise CaptureError(
                f"{model.name} is not built and cannot be with these inputs: {error}".splitlines()[
                    0
                ]
            ) from error
    params = {v.path: _form(v) for v in model.trainable_variables}
    buffers = {v.path: _form(v) for v in model.non_trainable_variables}

    def apply(params: dict[str, Any], buffers: dict[str, Any], *a: Any) -> Any:
        values = [params[v.path] for v in model.trainable_variables]
        others = [buffers[v.path] for v in model.non_trainable_variables]
        return model.stateless_call(values, others, *a, **kwargs)[0]

    return apply, (params, buffers, *args), {}


def _form(variable: Any) -> Any:
    import jax

    return jax.ShapeDtypeStruct(tuple(variable.shape), variable.dtype)
