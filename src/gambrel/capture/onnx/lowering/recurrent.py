"""LSTM, GRU and plain recurrent layers: all steps of a layer in one op."""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes

_GATES: Final = {"LSTM": 4, "GRU": 3, "RNN": 1}


@lowers("LSTM", "GRU", "RNN")
def layer(op: NodeOperands) -> Lowered:
    """X (steps, batch, width), weights, recurrent weights, bias, lengths, states, peepholes."""
    x, weight, bias = op.x(0), op.x(1), op.optional(3)
    steps, batch = x.shape[:2] if not op.attr("layout", 0) else (x.shape[1], x.shape[0])
    sizes: Sizes = {
        "batch": batch,
        "seq": steps,
        "input_size": x.shape[2],
        "hidden": weight.shape[1] // _GATES[op.step.op],
        "projection": 0,
        "directions": weight.shape[0],
        "layers": 1,
    }
    attrs: Attributes = {"cell": _cell(op), "bias": bias is not None}
    return op.described("recurrent", sizes, attrs)


def _cell(op: NodeOperands) -> str:
    """Other activations than the usual ones are not modelled."""
    kind = op.step.op.lower()
    given = [str(a).lower() for a in op.attr("activations") or ()]
    if kind != "rnn":
        usual = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"]}[kind]
        return kind if not given or given[: len(usual)] == usual else "of other activations"
    return "rnn_relu" if given[:1] == ["relu"] else "rnn_tanh"
