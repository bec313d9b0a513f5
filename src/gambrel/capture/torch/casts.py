"""Code that asks for fp32 by name: in fp32 nothing comes of it, in 16 bits it is a cast.

A model of fp32 whose code does so is captured in 16 bits as well, and the workload holds both.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.patching import put

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

#: What 16 bits stand for; the ops of fp16 are the same but where code asks for one of them.
NARROW: Final = torch.bfloat16

#: Methods that cast, and those that take the format of their result.
_METHODS: Final = ("float", "to", "type", "softmax", "log_softmax")
_FUNCTIONS: Final = ("softmax", "log_softmax")


def notice(stack: ExitStack, session: Session) -> None:
    """Notes in the ledger whether the model asks for fp32 by name."""
    for name in _METHODS:
        put(stack, torch.Tensor, name, _noted(getattr(torch.Tensor, name), session))
    for name in _FUNCTIONS:
        put(stack, torch, name, _noted(getattr(torch, name), session))


def _noted(original: Any, session: Session) -> Callable[..., Any]:
    always = original.__name__ == "float"

    def call(*args: Any, **kwargs: Any) -> Any:
        named = always or any(map(_names_fp32, (*args[1:], *kwargs.values())))
        # Where no mode listens, torch itself finds out the shape of an op.
        if named and torch._C._len_torch_dispatch_stack():
            session.ledger.asks_fp32 = True
        return original(*args, **kwargs)

    return call


def _names_fp32(value: Any) -> bool:
    return value is torch.float32 or (
        isinstance(value, torch.Tensor) and value.dtype is torch.float32
    )
