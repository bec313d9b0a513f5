"""What all semantic ops share: they are one node, whatever a library makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


@contextmanager
def muted(session: Session) -> Iterator[None]:
    """Ops inside are not recorded: they belong to the semantic op that is being run."""
    session.recorder.muted += 1
    try:
        yield
    finally:
        session.recorder.muted -= 1


def needs_gradient(operands: Iterable[Any]) -> bool:
    """Whether autograd has to follow an op on these operands."""
    return torch.is_grad_enabled() and any(
        isinstance(t, torch.Tensor) and t.requires_grad for t in operands
    )
