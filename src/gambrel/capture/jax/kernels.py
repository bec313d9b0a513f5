"""Attention kernels that JAX calls by name: cuDNN's, splash and flash attention in Pallas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gambrel.capture.onnx.edges import Edge
from gambrel.capture.onnx.lowering.attention import sizes_of
from gambrel.capture.xla.fused_attention import PADDED, in_order, mask_of

if TYPE_CHECKING:
    from gambrel.capture.jax.walk import JaxprWalker


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """A kernel of jax.experimental.pallas.ops.

    Attributes:
        gradients: Of a backward pass, those that it makes; None of a forward pass.
        tokens_first: Whether tokens stand before heads.
        blocks: Whether an operand says which blocks the mask leaves.
    """

    gradients: str | None = None
    tokens_first: bool = False
    blocks: bool = False


#: Kernels by what their names begin with, of the TPU but for mha.
_KERNELS: Final = (
    (re.compile(r"splash_m[hq]a_fwd"), _Kernel(blocks=True)),
    (re.compile(r"splash_m[hq]a_dq"), _Kernel(blocks=True, gradients="query")),
    (re.compile(r"splash_m[hq]a_dkv"), _Kernel(blocks=True, gradients="keys")),
    (re.compile(r"^mha_forward$"), _Kernel(tokens_first=True)),
    (re.compile(r"^mha_backward$"), _Kernel(tokens_first=True, gradients="all")),
    (re.compile(r"^_flash_attention_kernel$"), _Kernel()),
    (re.compile(r"^_flash_attention_dq_kernel$"), _Kernel(gradients="query")),
    (re.compile(r"^_flash_attention_dkv_kernel$"), _Kernel(gradients="keys")),
)
_MAX_DEPTH: Final = 8
#: Primitives of cuDNN's attention.
CUDNN: Final = tuple(
    f"dot_product_attention_{phase}{end}" for phase in ("fwd", "bwd") for end in ("", "_wrapper")
)
#: What tracing pretends where cuDNN is not installed: the first version with all layouts.
_CUDNN: Final = 91_000
_FLOATS: Final = frozenset({1, 10, 11, 16, 17, 19})


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Calls of cuDNN's attention can be traced on a machine that has none: nothing is run."""
    try:
        from jax._src.cudnn import fused_attention_stablehlo as fused

        installed = fused.check_cudnn_version
    except (ImportError, AttributeError):
        yield
        return

    def version() -> int:
        try:
            return int(installed())
        except RuntimeError:
            return _CUDNN

    fused.check_cudnn_version = version
    try:
        yield
    finally:
        fused.check_cudnn_version = installed


def cudnn(walker: JaxprWalker, eqn: Any, inputs: list[Edge]) -> list[Edge]:
    """``jax.nn.dot_product_attention(implementation="cudnn")``: queries, keys, values, a bias.

    Its gradient has six more operands between, then the saved sums, the output and its gradient.
    """
    p = eqn.params
    q, k, v = (edge.shape or () for edge in inputs[:3])
    swapped = int(p["layout"]) == 1 if isinstance(p["layout"], int) else "BNTH" in str(p["layout"])
    tokens, heads = (2, 1) if swapped else (1, 2)
    sizes = sizes_of(q[0], q[heads], k[heads], q[tokens], k[tokens], q[-1], v[-1])
    kind = str(p["mask_type"]).upper()
    sizes |= mask_of(kind, p.get("sliding_window_length"))
    if "PADDING" in kind:
        walker.graph.note(PADDED)
    bias = inputs[3] if p.get("variadic_args", (False,))[0] else None
    if "bwd" in eqn.primitive.name:
        *_, sums, output, grad = inputs
        return _emitted(walker, eqn, inputs[:3], sizes, bias, grad, [output, sums])
    return _emitted(walker, eqn, inputs[:3], sizes, bias)


def of_pallas(
    walker: JaxprWalker, eqn: Any, inputs: Sequence[Edge], name: str
) -> list[Edge] | None:
    """The attention kernels that come with JAX, by their names; None for any other kernel."""
    if name == "mha_preprocess_backward":  # sums that the formula of the gradient has in it
        return walker.emit(eqn, "annotation", inputs)
    kernel = next((kind for pattern, kind in _KERNELS if pattern.search(name)), None)
    large = [e for e in inputs if e.code in _FLOATS and len(e.shape or ()) > 1]
    if kernel is None or len(large) < (3 if kernel.gradients is None else 4):
        return None
    q, k, v, *rest = large
    shape, keys = q.shape or (), k.shape or ()
    if len(shape) < 3 or len(keys) < 2:
        return None
    tokens, head = (-3, -2) if kernel.tokens_first else (-2, -3)
    kv_heads = keys[head] if len(keys) == len(shape) else 1
    batch = shape[0] if len(shape) > 3 else 1
    dims = shape[-1], (v.shape or ())[-1]
    sizes = sizes_of(batch, shape[head], kv_heads, shape[tokens], keys[tokens], *dims)
    mask = _block_mask(inputs, sizes) if kernel.blocks else _compared(eqn.params.get("jaxpr"))
    if mask is None:
        walker.graph.note(f"the mask of {name} is not known: all pairs are counted")
    sizes |= mask or {}
    if kernel.gradients is None:
        return _emitted(walker, eqn, [q, k, v], sizes, None)
    whole = (*shape[:-1], dims[1])
    grad = next((e for e in reversed(rest) if e.shape == whole), rest[-1])
    fused = any(len(form_of_result(r)) > len(shape) for r in eqn.outvars)
    sizes["gradients"] = "all" if fused else kernel.gradients
    return _emitted(walker, eqn, [q, k, v], sizes, None, grad, [e for e in rest if e is not grad])


def form_of_result(variable: Any) -> tuple[int, ...]:
    """The shape of what an equation makes."""
    return tuple(getattr(variable.aval, "shape", ()))


def _compared(jaxpr: Any, depth: int = 0) -> dict[str, Any]:
    """A triangle, where a kernel compares the places of a block of queries and keys."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    for eqn in getattr(inner, "eqns", ()) if depth < _MAX_DEPTH else ():
        if eqn.primitive.name in ("ge", "le") and len(form_of_result(eqn.outvars[0])) == 2:
            return {"causal": True, "alignment": "upper_left"}
        for value in eqn.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                found = _compared(part, depth + 1)
                if found:
                    return found
    return {}


def _block_mask(inputs: Sequence[Edge], sizes: dict[str, Any]) -> dict[str, Any] | None:
    """Blocks are left out (0), masked within (1) or whole (2): all are, or those of a triangle."""
    known = [
        np.asarray(e.value)
        for e in inputs
        if e.value is not None
        and len(e.shape or ()) == 3
        and np.asarray(e.value).dtype.kind in "iu"
    ]
    masks = [m for m in known if set(np.unique(m).tolist()) <= {0, 1, 2} and m.any()]
    if not masks:
        return None
    blocks = masks[-1]
    if (blocks == 2).all():
        return {}
    rows, columns = blocks.shape[-2:]
    triangle = np.tri(rows, columns, -1, dtype=int) * 2 + np.eye(rows, columns, dtype=int)
    if sizes["q_len"] == sizes["kv_len"] and all((m == triangle).all() for m in blocks):
        return {"causal": True, "alignment": "lower_right"}
    return None


def _emitted(
    walker: JaxprWalker,
    eqn: Any,
    queries: Sequence[Edge],
    sizes: dict[str, Any],
    bias: Edge | None,
    grad: Edge | None = None,
    rest: Sequence[Edge] = (),
) -> list[Edge]:
    op, operands, attrs = in_order(queries, grad, rest, bias)
    return walker.emit(eqn, op, operands, sizes | attrs)
