"""Attention kernels that JAX calls by name: cuDNN's, splash and flash attention in Pallas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gambrel.capture.onnx.edges import Edge

if TYPE_CHECKING:
    from gambrel.capture.jax.walk import JaxprWalker

#: Forward kernels: jax.experimental.pallas.ops.tpu.splash_attention names them.
_SPLASH: Final = re.compile(r"splash_m[hq]a_fwd")
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
    """``jax.nn.dot_product_attention(implementation="cudnn")``: queries, keys, values, a bias."""
    p = eqn.params
    q, k, v = (edge.shape or () for edge in inputs[:3])
    swapped = int(p["layout"]) == 1 if isinstance(p["layout"], int) else "BNTH" in str(p["layout"])
    tokens, heads = (2, 1) if swapped else (1, 2)
    sizes = _sizes(q[0], q[heads], k[heads], q[tokens], k[tokens], (q[-1], v[-1]))
    kind = str(p["mask_type"]).upper()
    if "CAUSAL" in kind:
        sizes |= {"causal": True, "alignment": "upper_left"}
    if p.get("sliding_window_length"):
        sizes |= {"causal": True, "alignment": "upper_left", "window": p["sliding_window_length"]}
    if "PADDING" in kind:
        walker.graph.note("padded sequences are counted at their full length")
    bias = p.get("variadic_args", (False,))[0]
    return _emitted(walker, eqn, inputs[:3], sizes, inputs[3] if bias else None)


def splash(walker: JaxprWalker, eqn: Any, inputs: Sequence[Edge], name: str) -> list[Edge] | None:
    """Splash attention: the mask of its blocks is known; None for any other kernel."""
    if not _SPLASH.search(name):
        return None
    large = [e for e in inputs if e.code in _FLOATS and len(e.shape or ()) > 1]
    if len(large) < 3:
        return None
    q, k, v = large[:3]
    shape, keys = q.shape or (), k.shape or ()
    if len(shape) < 3 or len(keys) < 2:
        return None
    kv_heads = keys[-3] if len(keys) == len(shape) else 1
    batch = shape[0] if len(shape) > 3 else 1
    dims = shape[-1], (v.shape or ())[-1]
    sizes = _sizes(batch, shape[-3], kv_heads, shape[-2], keys[-2], dims)
    mask = _block_mask(inputs, sizes)
    if mask is None:
        walker.graph.note(f"the mask of {name} is not known: all pairs are counted")
    else:
        sizes |= mask
    return _emitted(walker, eqn, [q, k, v], sizes, None)


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


def _sizes(
    batch: int, heads: int, kv_heads: int, q_len: int, kv_len: int, dims: tuple[int, int]
) -> dict[str, Any]:
    return {
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "q_len": q_len,
        "kv_len": kv_len,
        "head_dim": dims[0],
        "v_head_dim": dims[1],
    }


def _emitted(
    walker: JaxprWalker, eqn: Any, operands: Sequence[Edge], sizes: dict[str, Any], mask: Any
) -> list[Edge]:
    given = [*operands, mask] if mask is not None else list(operands)
    return walker.emit(eqn, "attention", given, sizes)
