"""Recurrent layers that torch runs as one op: LSTM, GRU and plain RNN, all steps counted."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described, TensorArg, flatten
from gambrel.capture.aten.registry import rule
from gambrel.workload import Attributes, Sizes

#: Rows of the gate weights, in units of the hidden size.
_GATES: Final[dict[str, int]] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
#: torch's numbering of cuDNN's and oneDNN's modes (torch.backends.cudnn.rnn.get_cudnn_mode).
_MODES: Final = ("rnn_relu", "rnn_tanh", "lstm", "gru")


@rule("aten.lstm", "aten.gru", "aten.rnn_tanh", "aten.rnn_relu")
def layers(call: Call) -> Described:
    """input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first.

    The packed form (overload ``data``) has data, batch_sizes, hx, params, has_biases, ...
    """
    cell = call.name
    packed = call.overload == "data"
    shift = 1 if packed else 0
    x = call.tensor(0, "input")
    weights = tuple(flatten(call.arg(2 + shift, "params")))
    directions = 2 if call.arg(7 + shift, "bidirectional", False) else 1
    sizes: Sizes = {
        **_steps(x, not packed and bool(call.arg(8, "batch_first", False)), packed),
        **_widths(cell, weights, x.shape[-1]),
        "directions": directions,
        "layers": call.arg(4 + shift, "num_layers", 1),
    }
    attrs: Attributes = {"cell": cell, "bias": bool(call.arg(3 + shift, "has_biases", True))}
    return call.described("recurrent", sizes, attrs)


@rule("aten.lstm_cell", "aten.gru_cell", "aten.rnn_tanh_cell", "aten.rnn_relu_cell")
def one_step(call: Call) -> Described:
    """input, hx, w_ih, w_hh, b_ih, b_hh: one step of one layer."""
    cell = call.name.removesuffix("_cell")
    x = call.tensor(0, "input")
    weights = (call.tensor(2, "w_ih"), call.tensor(3, "w_hh"))
    sizes: Sizes = {
        "batch": x.numel // x.shape[-1],
        "seq": 1,
        **_widths(cell, weights, x.shape[-1]),
        "directions": 1,
        "layers": 1,
    }
    attrs: Attributes = {"cell": cell, "bias": call.optional(4, "b_ih") is not None}
    return call.described("recurrent", sizes, attrs)


@rule("aten.mkldnn_rnn_layer")
def mkldnn(call: Call) -> Described:
    """Of input (seq, batch, width), weights, hx, cx, reverse, batch_sizes, mode, hidden, ..."""
    return call.described("recurrent", *_mkldnn(call, mode=9, bias=12))


@rule("aten.mkldnn_rnn_layer_backward")
def mkldnn_backward(call: Call) -> Described:
    """input, four weights, hx, cx, output, hy, cy, three gradients, reverse, mode, hidden, ..."""
    return call.described("recurrent_backward", *_mkldnn(call, mode=14, bias=17))


@rule("aten._cudnn_rnn", "aten.miopen_rnn")
def cudnn(call: Call) -> Described:
    """input, weight[], stride0, buf, hx, cx, mode, hidden, proj, layers, batch_first, ...

    miopen has no buf and no proj: input, weight[], stride0, hx, cx, mode, hidden, layers, ...
    """
    if call.op == "aten.miopen_rnn":
        return call.described("recurrent", *_cudnn(call, 5, 7, 8, 11, None))
    return call.described("recurrent", *_cudnn(call, 6, 9, 10, 13, 8))


@rule("aten._cudnn_rnn_backward", "aten.miopen_rnn_backward")
def cudnn_backward(call: Call) -> Described:
    """input, weight[], stride0, buf, hx, cx, output, three gradients, mode, hidden, proj, ..."""
    if call.op == "aten.miopen_rnn_backward":
        return call.described("recurrent_backward", *_cudnn(call, 10, 12, 13, 16, None))
    return call.described("recurrent_backward", *_cudnn(call, 10, 13, 14, 17, 12))


@rule("wkv7.forward")
def wkv7(call: Call) -> Described:
    """r, w, k, v, a, b of (batch, seq, heads, channels): the kernel of RWKV-7."""
    keys, values = call.tensor(2, "k"), call.tensor(3, "v")
    batch, seq, heads, key_dim = keys.shape
    named = {"batch": batch, "seq": seq, "heads": heads, "key_dim": key_dim}
    return call.described("wkv7_scan", {**named, "value_dim": values.shape[-1]}, {})


def _mkldnn(call: Call, mode: int, bias: int) -> tuple[Sizes, Attributes]:
    x = call.tensor(0, "input")
    cell = _MODES[call.arg(mode, "mode")]
    sizes: Sizes = {
        **_steps(x, False, False),
        "input_size": x.shape[-1],
        "hidden": call.arg(mode + 1, "hidden_size"),
        "projection": 0,
        "directions": 1,
        "layers": 1,
    }
    return sizes, {"cell": cell, "bias": bool(call.arg(bias, "has_biases", True))}


def _cudnn(
    call: Call, mode: int, layers: int, batch_first: int, bidirectional: int, projection: int | None
) -> tuple[Sizes, Attributes]:
    x = call.tensor(0, "input")
    stride = call.arg(2, "weight_stride0")
    sizes: Sizes = {
        **_steps(x, bool(call.arg(batch_first)), len(x.shape) == 2),
        "input_size": x.shape[-1],
        "hidden": call.arg(mode + 1, "hidden_size"),
        "projection": 0 if projection is None else call.arg(projection, "proj_size"),
        "directions": 2 if call.arg(bidirectional, "bidirectional") else 1,
        "layers": call.arg(layers, "num_layers"),
    }
    return sizes, {"cell": _MODES[call.arg(mode, "mode")], "bias": stride > 2}


def _steps(x: TensorArg, batch_first: bool, packed: bool) -> Sizes:
    """Batch and steps; packed rows count as that many sequences of one step."""
    if packed:
        return {"batch": x.shape[0], "seq": 1}
    if len(x.shape) == 2:
        return {"batch": 1, "seq": x.shape[0]}
    batch, seq = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    return {"batch": batch, "seq": seq}


def _widths(cell: str, weights: tuple[TensorArg, ...], input_size: int) -> Sizes:
    """Hidden size and projection from w_ih (gates·hidden, in) and w_hh (gates·hidden, out)."""
    hidden = weights[0].shape[0] // _GATES[cell]
    out = weights[1].shape[1]
    return {"input_size": input_size, "hidden": hidden, "projection": 0 if out == hidden else out}
