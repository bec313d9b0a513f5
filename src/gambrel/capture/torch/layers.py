"""Recurrent layers (LSTM, GRU, RNN) as one op: all steps, layers and directions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.patching import put
from gambrel.capture.torch.semantic import Node
from gambrel.workload import Sizes

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

_CELLS: Final = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def recurrent_layers(stack: ExitStack, session: Session) -> None:
    """Replaces the functions that ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` call."""
    for cell in _CELLS:
        put(stack, torch._VF, cell, _make(cell, getattr(torch._VF, cell), session))


def _make(cell: str, original: Any, session: Session) -> Callable[..., Any]:
    def layers(*args: Any) -> Any:
        if isinstance(args[3], (list, tuple)):  # packed: data, batch_sizes, hx, params, ...
            return original(*args)
        return _run(cell, original, session, *args)

    return layers


def _run(
    cell: str,
    original: Any,
    session: Session,
    x: Any,
    hx: Any,
    weights: Any,
    bias: bool,
    count: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    batch, seq = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
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
        out = data.new_empty((*data.shape[:2], directions * width))
        return (out, *(torch.empty_like(s) for s in states))

    def compute(data: Any, *rest: Any) -> tuple[Any, ...]:
        given = list(rest[len(weights) :])
        state = given if cell == "lstm" else given[0]
        flags = (bias, count, dropout, train, bidirectional, batch_first)
        return tuple(original(data, state, list(rest[: len(weights)]), *flags))

    return Node(
        session=session,
        name=f"aten.{cell}",
        kind="recurrent",
        sizes=sizes,
        attrs={"cell": cell, "bias": bool(bias)},
        empty=empty,
        compute=compute,
    )((x, *weights, *states))
