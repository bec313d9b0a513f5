"""LSTM, GRU and plain recurrent networks: all steps, layers and directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gambrel.ops.base import Cost, OpView, Size, formula, where, work


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """Counts per step and hidden unit.

    Attributes:
        gates: Pre-activations; each is a product with the input and one with the state.
        vector: FLOP of a step without biases.
        special: Function evaluations of a step.
        biases: Additions of the two biases of each gate.
        backward_vector: FLOP of a step's gradients without biases.
        backward_special: Function evaluations of a step's gradients.
        bias_gradients: Additions to distinct gradients of biases.
    """

    gates: int
    vector: int
    special: int
    biases: int
    backward_vector: int
    backward_special: int
    bias_gradients: int


_CELLS: Final = {
    # Forward: input part + state part of 4 gates 4; 3 sigmoids (3 and one evaluation each); tanh;
    # c = f * c + i * g: 3; tanh(c); o * tanh(c): 1.
    # Backward: dh = dy + dh' 1; do 1; dc += dh * o * (1 - t * t), t = tanh(c) formed again: 5 and
    # one evaluation; di, df, dg, dc' 4; slopes y * (1 - y) * d of 3 sigmoids 9, of tanh 3.
    "lstm": _Cell(
        gates=4,
        vector=17,
        special=5,
        biases=8,
        backward_vector=23,
        backward_special=1,
        bias_gradients=4,
    ),
    # Forward: r, z: 2 sums, 2 sigmoids 6; n = tanh(in + r * hn): 2; (1 - z) * n + z * h: 4.
    # Backward: dh = dy + dh' 1; dz = dh * (h - n) 2; dn = dh * (1 - z) 2; dh' = dh * z 1; slope of
    # tanh 3; dr = dn * hn 1; dhn = dn * r 1; slopes of 2 sigmoids 6; dh' += 1. The two biases of n
    # have different gradients, those of r and of z the same.
    "gru": _Cell(
        gates=3,
        vector=14,
        special=3,
        biases=6,
        backward_vector=18,
        backward_special=0,
        bias_gradients=4,
    ),
    # Forward: the sum 1, tanh. Backward: dh = dy + dh' 1, slope 3.
    "rnn_tanh": _Cell(
        gates=1,
        vector=1,
        special=1,
        biases=2,
        backward_vector=4,
        backward_special=0,
        bias_gradients=1,
    ),
    # Forward: the sum 1, maximum 1. Backward: dh = dy + dh' 1, comparison and selection 2.
    "rnn_relu": _Cell(
        gates=1,
        vector=2,
        special=0,
        biases=2,
        backward_vector=3,
        backward_special=0,
        bias_gradients=1,
    ),
}


@formula("recurrent")
def recurrent(op: OpView) -> Cost | None:
    """Per step: 2·batch·gates·hidden·(input + state) of products, and the cell's arithmetic.

    Layers behind the first take the states of all directions as input. A projection (LSTM) makes
    the state ``projection`` wide by a product of 2·hidden·projection. Weights are read once: they
    stay on chip over the steps, which is the least any schedule can do.

    Sizes: batch, seq, input_size, hidden, directions (1), layers (1), projection (0).
    Attrs: cell (lstm, gru, rnn_tanh, rnn_relu), bias.
    Inputs: sequence, states, weights, biases. Outputs: sequence, states.
    """
    cell = _CELLS.get(str(op.attrs.get("cell")))
    if cell is None:
        return None
    vector = cell.vector + (cell.biases if op.attrs.get("bias") else 0)
    return _cost(op, 2 * _macs(op, cell), vector, cell.special)


@formula("recurrent_backward")
def recurrent_backward(op: OpView) -> Cost | None:
    """Each product twice, for both its factors; gradients of the cell by unit and step.

    Gates and cell states are kept from the forward pass. The gradient of a bias adds over steps and
    batch into zero, one addition a unit and step.

    Sizes and attrs: as recurrent.
    """
    cell = _CELLS.get(str(op.attrs.get("cell")))
    if cell is None:
        return None
    vector = cell.backward_vector + (cell.bias_gradients if op.attrs.get("bias") else 0)
    return _cost(op, 4 * _macs(op, cell), vector, cell.backward_special)


def _cost(op: OpView, matrix: Size, vector: int, special: int) -> Cost:
    """Products, and arithmetic of each hidden unit at each step of every direction and layer."""
    steps = op.size("batch") * op.size("seq")
    units = steps * op.size("directions", 1) * op.size("layers", 1) * op.size("hidden")
    evaluated = units * special if special else 0
    made = work(op.operand_dtype(1), matrix=matrix, vector=units * vector, special=evaluated)
    return Cost(work=made)


def _macs(op: OpView, cell: _Cell) -> Size:
    """Multiply-adds of all products."""
    hidden, projection = op.size("hidden"), op.size("projection", 0)
    directions, layers = op.size("directions", 1), op.size("layers", 1)
    state = where(projection > 0, projection, hidden)
    gates = cell.gates * hidden
    first = gates * (op.size("input_size") + state)
    later = gates * (directions * state + state)
    step = first + (layers - 1) * later + layers * hidden * projection
    return op.size("batch") * op.size("seq") * directions * step
