"""Short ways to build ops and to read their costs."""

from __future__ import annotations

import itertools
import math
from typing import Any

from gambrel.ops import Conventions, Cost, Engine, OpView, TensorView, cost

_fresh = itertools.count(1)


def tensor(*shape: int, dtype: str = "fp32", **fields: Any) -> TensorView:
    """A tensor with memory of its own unless ``storage`` says otherwise."""
    known = {"elements": math.prod(shape), "storage": next(_fresh), **fields}
    return TensorView(shape=shape, dtype=dtype, **known)


def op(
    kind: str,
    sizes: dict[str, Any] | None = None,
    *,
    inputs: tuple[TensorView, ...] = (),
    outputs: tuple[TensorView, ...] = (),
    causal_pairs: str = "half",
    **attrs: Any,
) -> OpView:
    return OpView(
        kind=kind,
        sizes=sizes or {},
        inputs=inputs,
        outputs=outputs,
        attrs=attrs,
        conventions=Conventions(causal=causal_pairs),
    )


def costed(view: OpView) -> Cost:
    found = cost(view)
    assert found is not None, f"{view.kind} {dict(view.attrs)} is unmodelled"
    return found


def on(found: Cost, engine: Engine) -> Any:
    """Work on an engine over all number formats."""
    return sum(amount for (e, _), amount in found.work.items() if e is engine)


def matrix(view: OpView) -> Any:
    return on(costed(view), Engine.MATRIX)


def vector(view: OpView) -> Any:
    return on(costed(view), Engine.VECTOR)


def special(view: OpView) -> Any:
    return on(costed(view), Engine.SPECIAL)


def counts(view: OpView) -> tuple[Any, Any, Any]:
    """(matrix, vector, special)."""
    return matrix(view), vector(view), special(view)
