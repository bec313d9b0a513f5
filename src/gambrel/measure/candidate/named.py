"""Torch's own version of a named op, as a reference that can be run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gambrel.capture.inputs import _TORCH as _FORMATS
from gambrel.errors import InputError
from gambrel.workload import Op, Role


def reference_of_op(text: str) -> tuple[Any, tuple[Any, ...]]:
    """A module that computes the op, and inputs.

    Raises:
        InputError: Torch has no such function here.
    """
    import torch

    from gambrel.capture.files.python_source import as_module
    from gambrel.capture.named_op import named_op

    workload = named_op(text)
    op = workload.ops[0]
    function = _FUNCTIONS.get(op.kind, _by_name)(op)
    if workload.dtype not in _FORMATS:
        raise InputError(f"torch has no tensors of {workload.dtype} to run {text} with.")
    dtype = getattr(torch, _FORMATS[workload.dtype])
    tensors = [workload.tensors[i] for i in op.inputs]
    example = tuple(torch.randn(t.shape).to(dtype) for t in tensors if t.role is not Role.OUTPUT)
    return as_module(function), example


def _matmul(op: Op) -> Callable[..., Any]:
    import torch

    if op.attrs.get("bias"):
        return lambda a, b, bias: torch.matmul(a, b) + bias
    function: Callable[..., Any] = torch.matmul
    return function


def _conv(op: Op) -> Callable[..., Any]:
    raise InputError(f"{op.name}: give a convolution to run as file.py:function.")


def _attention(op: Op) -> Callable[..., Any]:
    import torch

    causal = bool(op.attrs.get("causal"))
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda q, k, v: attend(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def _softmax(op: Op) -> Callable[..., Any]:
    import torch

    function = getattr(torch, str(op.attrs["function"]))
    return lambda x: function(x, dim=-1)


def _norm(op: Op) -> Callable[..., Any]:
    import torch

    functional = torch.nn.functional
    if op.attrs["function"] == "rms_norm":
        return lambda x, w: functional.rms_norm(x, x.shape[-1:], w)
    return lambda x, w: functional.layer_norm(x, x.shape[-1:], w)


def _reduction(op: Op) -> Callable[..., Any]:
    import torch

    function = getattr(torch, str(op.attrs["function"]), None)
    if function is None:
        raise InputError(f"torch has no function {op.name!r} to run.")
    return lambda x: function(x, dim=-1)


def _copy(_: Op) -> Callable[..., Any]:
    return lambda x: x.clone()


def _by_name(op: Op) -> Callable[..., Any]:
    import torch

    places = (torch, torch.nn.functional)
    function = next((f for p in places if (f := getattr(p, op.name, None)) is not None), None)
    if function is None:
        raise InputError(f"torch has no function {op.name!r} to run.")
    return function  # type: ignore[no-any-return]


_FUNCTIONS: Final[dict[str, Callable[[Op], Callable[..., Any]]]] = {
    "matmul": _matmul,
    "convolution": _conv,
    "attention": _attention,
    "softmax": _softmax,
    "normalization": _norm,
    "reduction": _reduction,
    "copy": _copy,
}
