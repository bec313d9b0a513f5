"""Recurrent layers (LSTM, GRU, RNN) as one op: all steps, layers and directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.packing import packed_sequences
from gambrel.capture.torch.patching import put
from gambrel.capture.torch.semantic import Node
from gambrel.workload import Sizes

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

_CELLS: Final = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def recurrent_layers(stack: ExitStack, session: Session) -> None:
    """Replaces the functions that ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` call."""
    packed_sequences(stack, session)
    for cell in _CELLS:
        put(stack, torch._VF, cell, _make(cell, getattr(torch._VF, cell), session))


def _make(cell: str, original: Any, session: Session) -> Callable[..., Any]:
    def layers(*args: Any) -> Any:
        if isinstance(args[3], (list, tuple)):  # packed: data, batch_sizes, hx, params, ...
            x, batch_sizes, *rest = args
            # The rows of all steps stand one after the other: as many sequences of one step.
            return _run(cell, session, _Call(original, (batch_sizes,), tuple(rest)), x, *rest)
        x, *rest = args
        *_, batch_first = rest
        steps = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
        return _run(cell, session, _Call(original, (), tuple(rest), steps), x, *rest)

    return layers


@dataclass(frozen=True, slots=True)
class _Call:
    """How to run the original.

    Attributes:
        original: The function that was replaced.
        sizes: The batch sizes of packed data.
        rest: Its arguments after these.
        steps: Batch and steps of data that is not packed.
    """

    original: Any
    sizes: tuple[Any, ...]
    rest: tuple[Any, ...]
    steps: tuple[int, int] | None = None

    def __call__(self, cell: str, count: int, data: Any, operands: Sequence[Any]) -> Any:
        given = list(operands[count:])
        state = given if cell == "lstm" else given[0]
        return self.original(data, *self.sizes, state, list(operands[:count]), *self.rest[2:])


def _run(
    cell: str,
    session: Session,
    call: _Call,
    x: Any,
    hx: Any,
    weights: Any,
    bias: bool,
    count: int,
    _dropout: float,
    _train: bool,
    bidirectional: bool,
    _batch_first: bool = False,
) -> Any:
    states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    x, weights, states = session.autocast.lower((x, list(weights), states))
    batch, seq = call.steps or (x.shape[0], 1)
    directions = 2 if bidirectional else 1
    width = states[0].shape[-1]
    hidden = states[1].shape[-1] if cell == "lstm" else width
    sizes: Sizes = {
        "batch": batch,
        "seq": seq,
        "input_size": x.shape[-1],
        "hidden": hidden,
        "directions": directions,
        "layers": count,
        "projection": width if width != hidden else 0,
    }

    def empty(data: Any, *_: Any) -> tuple[Any, ...]:
        out = data.new_empty((*data.shape[:-1], directions * width))
        return (out, *(torch.empty_like(s) for s in states))

    def compute(data: Any, *rest: Any) -> tuple[Any, ...]:
        return tuple(call(cell, len(weights), data, rest))

    return Node(
        session=session,
        name=f"aten.{cell}",
        kind="recurrent",
        sizes=sizes,
        attrs={"cell": cell, "bias": bool(bias)},
        empty=empty,
        compute=compute,
    )((x, *weights, *states))
