"""Recurrent layers and attention of Keras."""

from __future__ import annotations

from typing import Any, Final

from gambrel.capture.graph.lowering import DENSE, RECURRENT
from gambrel.capture.keras.call import LayerCall
from gambrel.capture.keras.translation import RULES
from gambrel.capture.onnx.edges import Edge
from gambrel.capture.onnx.lowering.attention import SCALED

#: Class → gates.
_GATES: Final = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


@RULES("LSTM", "GRU", "SimpleRNN")
def _recurrent(call: LayerCall) -> Edge:
    return _layer(call, call.kind, dict(call.config), 1)


@RULES("Bidirectional")
def _bidirectional(call: LayerCall) -> Edge:
    """The layer in both directions, whose results are joined or added."""
    inner = call.config["layer"]
    merged = call.config.get("merge_mode", "concat")
    if inner["class_name"] not in _GATES or merged != "concat":
        raise ValueError("a layer without a rule inside")
    return _layer(call, inner["class_name"], inner["config"], 2)


def _layer(call: LayerCall, kind: str, config: dict[str, Any], directions: int) -> Edge:
    batch, steps, width = call.shape
    hidden, gates = int(config["units"]), _GATES[kind]
    if not 0 < hidden < 1 << 24:
        raise ValueError("impossible units")
    bias = bool(config.get("use_bias", True))
    weights = [
        call.weight("kernel", (directions, gates * hidden, width)),
        call.weight("recurrent_kernel", (directions, gates * hidden, hidden)),
    ]
    if bias:
        # A GRU that resets after its product has a second bias, for the state.
        twice = kind == "GRU" and config.get("reset_after", True)
        weights.append(call.weight("bias", (directions, (2 if twice else 1) * gates * hidden)))
    cell = {"LSTM": "lstm", "GRU": "gru"}.get(kind) or (
        "rnn_relu" if config.get("activation") == "relu" else "rnn_tanh"
    )
    every = bool(config.get("return_sequences"))
    middle = (steps,) if every else ()
    out = call.out((batch, *middle, directions * hidden))
    call.writer.add(
        RECURRENT,
        [call.x, *weights],
        [out],
        batch=batch,
        seq=steps,
        input_size=width,
        hidden=hidden,
        directions=directions,
        projection=0,
        cell=cell,
        bias=bias,
    )
    return out


@RULES("MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention")
def _attention(call: LayerCall) -> Edge:
    """Projections of query, value and key, attention of heads, a projection back."""
    grouped = call.kind.startswith("Group")
    heads = call.whole("num_query_heads" if grouped else "num_heads")
    shared = call.whole("num_key_value_heads") if grouped else heads
    width = call.whole("head_dim" if grouped else "key_dim")
    out_width = width if grouped else call.whole("value_dim", width)
    if len(call.shape) != 3 or call.config.get("output_shape") or call.config.get("use_gate"):
        raise ValueError("axes or results of its own")
    query = call.x
    value = call.inputs[1] if len(call.inputs) > 1 else query
    key = call.inputs[2] if len(call.inputs) > 2 else value
    given = (("query", query, heads, width), ("key", key, shared, width))
    q, k, v = (
        _projected(call, *one) for one in (*given, ("value", value, shared, out_width))
    )  # fmt: skip
    batch, tokens, model = call.shape
    mixed = call.out((batch, heads, tokens, out_width))
    step = call.writer.add(SCALED, [q, k, v, None], [mixed])
    if call.keywords.get("use_causal_mask"):
        step.attrs.update(causal=True, alignment="upper_left")
    out = call.out((batch, tokens, model))
    weight = call.weight("output.kernel", (model, heads * out_width))
    bias = call.weight("output.bias", (model,)) if call.config.get("use_bias", True) else None
    call.writer.add(DENSE, [mixed, weight, bias], [out])
    return out


def _projected(call: LayerCall, name: str, source: Edge, heads: int, width: int) -> Edge:
    batch, tokens, model = source.shape or ()
    made = heads * width
    bias = call.weight(f"{name}.bias", (made,)) if call.config.get("use_bias", True) else None
    out = call.out((batch, heads, tokens, width))
    call.writer.add(DENSE, [source, call.weight(f"{name}.kernel", (made, model)), bias], [out])
    return out
