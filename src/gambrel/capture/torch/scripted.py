"""TorchScript: compiled modules, which run in torch's interpreter where no function is replaced."""

from __future__ import annotations

import io
from typing import Any, Final

import torch

from gambrel.errors import CaptureError, first_line

#: Composite ops of one layer with all its steps, which must not be taken apart.
WHOLE: Final = frozenset(f"aten.{cell}" for cell in ("lstm", "gru", "rnn_tanh", "rnn_relu"))


def is_scripted(model: Any) -> bool:
    """Whether any part of a model is compiled."""
    return isinstance(model, torch.nn.Module) and any(
        isinstance(m, torch.jit.ScriptModule) for m in model.modules()
    )


def on_meta(model: Any) -> Any:
    """A compiled module with its weights on meta; the same where they are there already.

    Its ops check devices before a dispatch mode sees them, so that the weights cannot stay where
    they are.

    Raises:
        CaptureError: It cannot be copied.
    """
    if not isinstance(model, torch.jit.ScriptModule) or all(p.is_meta for p in _tensors(model)):
        return model
    buffer = io.BytesIO()
    try:
        torch.jit.save(model, buffer)
        buffer.seek(0)
        loaded = torch.jit.load(buffer, map_location="meta")
    except RuntimeError as error:
        raise CaptureError(
            f"the compiled module cannot be copied to meta: {first_line(error)[:200]}"
        ) from error
    if not hasattr(loaded, "forward"):
        raise CaptureError(
            "the compiled module has several forms of forward, of which a copy keeps none; wrap it "
            "in a module with one, or capture it before compiling"
        )
    return loaded


def _tensors(model: Any) -> list[Any]:
    return [*model.parameters(), *model.buffers()]


def layers_shape(cell: str) -> Any:
    """The results of a recurrent layer without its steps."""

    def shape(x: Any, *given: Any) -> Any:
        # input, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first; packed
        # rows have their batch sizes before hx, and no batch_first.
        packed = isinstance(given[2], (list, tuple))
        hx, bidirectional = (given[1], given[7]) if packed else (given[0], given[6])
        return _results(cell, x, hx, bool(bidirectional))

    return shape


def _results(cell: str, x: Any, hx: Any, bidirectional: bool) -> Any:
    state = hx[0] if cell == "lstm" else hx
    directions = 2 if bidirectional else 1
    out = x.new_empty((*x.shape[:-1], state.shape[-1] * directions))
    states = tuple(torch.empty_like(s) for s in (hx if cell == "lstm" else (hx,)))
    return (out, *states)
