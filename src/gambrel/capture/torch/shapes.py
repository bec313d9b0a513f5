"""Shapes of results that gambrel works out itself, in place of torch's functions for meta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from gambrel.capture.torch.scripted import WHOLE, layers_shape


def _grouped_mm(a: Any, b: Any, offs: Any = None, out_dtype: Any = None, **_: Any) -> Any:
    """Groups along the rows, the columns or the summed dimension; any dtype."""
    if a.dim() == b.dim() == 2:
        shape: tuple[int, ...] = (offs.shape[0], a.shape[0], b.shape[1])
    elif a.dim() == b.dim():
        shape = (a.shape[0], a.shape[1], b.shape[2])
    else:
        shape = (a.shape[-2], b.shape[-1])
    return a.new_empty(shape, dtype=out_dtype or a.dtype)


def _ctc_loss(log_probs: Any, targets: Any, *_: Any, **__: Any) -> Any:
    """A loss a sequence, and the forward variables: two states a label, and one."""
    frames, batch = log_probs.shape[:2] if log_probs.dim() == 3 else (log_probs.shape[0], 1)
    states = 2 * targets.shape[-1] + 1
    return log_probs.new_empty((batch,)), log_probs.new_empty((batch, frames, states))


def _ctc_loss_backward(_: Any, log_probs: Any, *__: Any, **___: Any) -> Any:
    return torch.empty_like(log_probs)


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, *_: Any) -> Any:
    """The usual case: everything in float32, rows after one another."""
    operands = [t for t in (x, weight, bias, mean, var) if t is not None]
    if any(t.dtype is not torch.float32 for t in operands) or not _in_order(x):
        return None
    return torch.empty_like(x), x.new_empty(x.shape[1]), x.new_empty(x.shape[1])


def _cat(tensors: Any, dim: int = 0) -> Any:
    """The usual case: parts of one type that differ in one dimension only."""
    first = tensors[0]
    dim = dim if dim >= 0 else dim + first.dim()
    if not 0 <= dim < first.dim() or not all(_in_order(t) for t in tensors):
        return None
    before, after = first.shape[:dim], first.shape[dim + 1 :]
    for t in tensors:
        alike = t.dim() == first.dim() and t.dtype is first.dtype
        if not alike or t.shape[:dim] != before or t.shape[dim + 1 :] != after:
            return None
    return first.new_empty((*before, sum(t.shape[dim] for t in tensors), *after))


def _mm(a: Any, b: Any, *more: Any, **options: Any) -> Any:
    """The usual case. Torch's own function imports its compiler first, which takes seconds."""
    if more or options or a.dim() != 2 or b.dim() != 2:
        return None
    if a.shape[1] != b.shape[0] or a.dtype is not b.dtype:
        return None
    return a.new_empty((a.shape[0], b.shape[1]))


def _addmm(bias: Any, a: Any, b: Any, *more: Any, **options: Any) -> Any:
    """The usual case: a row of the same type is added to every row."""
    found = _mm(a, b, *more, **options)
    if found is None or bias.shape != found.shape[1:] or bias.dtype is not a.dtype:
        return None
    return found


def _in_order(tensor: Any) -> bool:
    """Whether the elements lie one after another, and the strides say nothing else."""
    step = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if stride != step:
            return False
        step *= size
    return step > 0


#: Shapes of ops without a shape function for meta, of those whose own refuses what their kernels
#: accept (here: float32), and of those whose own works the result out by computing with tensors.
#: None leaves a call to torch.
SHAPES: Final[dict[str, Callable[..., Any]]] = {
    "aten._grouped_mm": _grouped_mm,
    "aten._ctc_loss": _ctc_loss,
    "aten._ctc_loss_backward": _ctc_loss_backward,
    "aten.native_batch_norm": _batch_norm,
    "aten.cat": _cat,
    "aten.mm": _mm,
    "aten.addmm": _addmm,
    **{name: layers_shape(name.removeprefix("aten.")) for name in WHOLE},
}
