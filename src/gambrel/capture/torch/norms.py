"""Root-mean-square normalization and dropout as one op each, as the GPU kernels run them.

On the CPU and on the meta device torch spells ``rms_norm`` out (square, mean, root, two products,
each through memory); on GPUs it is one fused kernel, forward and backward, like layer norm.
Dropout there is a draw, a quotient and a product over masks of the input's format; on GPUs one
kernel draws, scales and writes a mask of one byte an element.
Source: aten/src/ATen/native/Dropout.cpp of torch, ``is_fused_kernel_acceptable``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from gambrel.capture.torch.patching import put
from gambrel.capture.torch.semantic import Node

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


def fused_norms(stack: ExitStack, session: Session) -> None:
    """Replaces the functions that ``nn.functional.rms_norm`` and ``dropout`` call."""
    put(stack, torch, "rms_norm", _make(torch.rms_norm, session))
    if not session.options.device.startswith("cpu"):
        for module in (torch, torch._VF):
            put(stack, module, "dropout", _fused_dropout(torch.dropout))


def _fused_dropout(original: Any) -> Callable[..., Any]:
    def dropout(input: Any, p: float, train: bool) -> Any:
        if train and 0 < p < 1 and input.numel():
            return torch.native_dropout(input, p, train)[0]
        return original(input, p, train)

    return dropout


def _make(original: Any, session: Session) -> Callable[..., Any]:
    def rms_norm(
        input: Any,  # the name that callers may use
        normalized_shape: Sequence[int],
        weight: Any = None,
        eps: float | None = None,
    ) -> Any:
        width = prod(normalized_shape)
        if not _is_fused(input, weight) or not width:
            return original(input, normalized_shape, weight, eps)

        def empty(x: Any, *_: Any) -> tuple[Any, ...]:
            kept = x.shape[: x.dim() - len(normalized_shape)]
            roots = x.new_empty((*kept, *(1 for _ in normalized_shape)), dtype=torch.float32)
            return torch.empty_like(x), roots

        def compute(x: Any, scale: Any = None) -> tuple[Any, ...]:
            axes = tuple(range(-len(normalized_shape), 0))
            least = torch.finfo(x.dtype).eps if eps is None else eps
            mean = x.float().square().mean(axes, keepdim=True)
            return original(x, normalized_shape, scale, eps), torch.rsqrt(mean + least)

        node = Node(
            session=session,
            name="aten._fused_rms_norm",
            kind="normalization",
            sizes={"elements": input.numel(), "groups": input.numel() // width},
            attrs={"function": "rms_norm", "statistics": True, "affine": weight is not None},
            empty=empty,
            compute=compute,
            saved=slice(1, None),
        )
        return node((input,) if weight is None else (input, weight))[0]

    return rms_norm


def _is_fused(x: Any, weight: Any) -> bool:
    """Whether torch has one kernel for it: real numbers, weights in the same format."""
    return x.is_floating_point() and (weight is None or weight.dtype == x.dtype)
