"""Ops that gambrel runs as one node, whatever a library makes of them, in backward as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from gambrel.workload import Attributes, Sizes

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One call of a semantic op.

    Attributes:
        session: The capture that it belongs to.
        name: Name of the op that it stands for.
        kind: Neutral kind.
        sizes: For the formulas of both.
        attrs: For the formulas of both.
        empty: Results without data, from the operands.
        backward_kind: Neutral kind of the backward where it is not ``kind + "_backward"``.
        compute: Real results, from the operands; used when a capture executes.
            Their values go into the layout of ``empty``.
        saved: Which of the results the backward reads.
    """

    session: Session
    name: str
    kind: str
    sizes: Sizes
    attrs: Attributes
    empty: Callable[..., tuple[Any, ...]]
    compute: Callable[..., tuple[Any, ...]]
    backward_kind: str = ""
    saved: slice = field(default_factory=lambda: slice(None))

    def __call__(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Runs and records the op; autograd sees one function.

        Args:
            operands: Tensors (or None) in the order of the formula's inputs.
        """
        if torch.is_grad_enabled() and any(_wants_gradient(t) for t in operands):
            return tuple(_Differentiable.apply(self, *operands))
        return self.forward(operands)

    def forward(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Runs and records the op itself."""
        with muted(self.session):
            results = self.empty(*operands)
            if self.session.options.execute:
                for result, value in zip(results, self.compute(*operands), strict=True):
                    result.copy_(value)  # in the layout of the fused kernel, whatever ran here
        described = (self.kind, self.sizes, self.attrs)
        self.session.recorder.semantic(self.name, described, operands, results)
        return results

    def backward(
        self,
        grads: Sequence[Any],
        operands: Sequence[Any],
        results: Sequence[Any],
        wanted: Sequence[bool],
    ) -> list[Any]:
        """Makes and records the gradients of the operands that want one."""
        with muted(self.session):
            pairs = zip(operands, wanted, strict=True)
            found: list[Any] = [torch.empty_like(t) if w else None for t, w in pairs]
            if self.session.options.execute:
                values = _real_gradients(self.compute, grads, operands, wanted)
                for gradient, value in zip(found, values, strict=True):
                    if value is not None:
                        gradient.copy_(value)
        described = (self.backward_kind or f"{self.kind}_backward", self.sizes, self.attrs)
        reads = [*grads, *operands, *results[self.saved]]
        self.session.recorder.semantic(f"{self.name}_backward", described, reads, found)
        return found


@contextmanager
def muted(session: Session) -> Iterator[None]:
    """Ops inside are not recorded: they belong to the semantic op that is being run."""
    session.recorder.muted += 1
    try:
        yield
    finally:
        session.recorder.muted -= 1


def _wants_gradient(operand: Any) -> bool:
    return isinstance(operand, torch.Tensor) and bool(operand.requires_grad)


def _real_gradients(
    compute: Callable[..., tuple[Any, ...]],
    grads: Sequence[Any],
    operands: Sequence[Any],
    wanted: Iterable[bool],
) -> list[Any]:
    asked = list(wanted)
    with torch.enable_grad():
        leaves = [
            t.detach().requires_grad_(bool(w)) if isinstance(t, torch.Tensor) else t
            for t, w in zip(operands, asked, strict=True)
        ]
        inputs = [t for t, w in zip(leaves, asked, strict=True) if w]
        pairs = [(r, g) for r, g in zip(compute(*leaves), grads, strict=True) if g is not None]
        results, weights = zip(*pairs, strict=True)
        found = iter(torch.autograd.grad(results, inputs, weights, allow_unused=True))
    return [next(found) if w else None for w in asked]


class _Differentiable(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """A node with its backward as one node."""

    @staticmethod
    def forward(ctx: Any, node: Node, *operands: Any) -> Any:
        """Runs the node and saves what its backward reads."""
        results = node.forward(operands)
        ctx.node = node
        ctx.count = len(operands)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands, *results)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of the operands."""
        saved = ctx.saved_tensors
        operands, results = saved[: ctx.count], saved[ctx.count :]
        return (None, *ctx.node.backward(grads, operands, results, ctx.needs_input_grad[1:]))
