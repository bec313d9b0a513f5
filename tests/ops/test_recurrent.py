"""Recurrent layers against cells that really step."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.ops import cost, elementwise
from tests.ops.builders import costed, counts, matrix, op, tensor
from tests.ops.oracle import Number, Tally, fma, most, select, tanh
from tests.ops.programs import sigmoid

small = st.integers(1, 3)
CELLS = ["lstm", "gru", "rnn_tanh", "rnn_relu"]
Row = list[Number]


def products(tally: Tally, width: int, row: Row) -> Row:
    """A weight matrix of ``width`` rows times a vector."""
    results = []
    for _ in range(width):
        total = tally.number(0.0)
        for x in row:
            total = fma(total, tally.number(0.1), x)
        results.append(total)
    return results


def gates(tally: Tally, number: int, x: Row, h: Row, hidden: int, bias: bool) -> list[list[Row]]:
    """Input and state parts of every gate, biases added to each."""
    parts = []
    for source in (x, h):
        rows = [products(tally, hidden, source) for _ in range(number)]
        parts.append([[v + 0.1 for v in row] for row in rows] if bias else rows)
    return parts


def lstm(tally: Tally, x: Row, h: Row, hidden: int, bias: bool, projection: int) -> Row:
    of_input, of_state = gates(tally, 4, x, h, hidden, bias)
    out = []
    for i in range(hidden):
        c = tally.number(0.3)
        a, f, g, o = (p[i] + q[i] for p, q in zip(of_input, of_state, strict=True))
        c = sigmoid(f) * c + sigmoid(a) * tanh(g)
        out.append(sigmoid(o) * tanh(c))
    return products(tally, projection, out) if projection else out


def gru(tally: Tally, x: Row, h: Row, hidden: int, bias: bool, projection: int) -> Row:
    (xr, xz, xn), (hr, hz, hn) = gates(tally, 3, x, h, hidden, bias)
    out = []
    for i in range(hidden):
        r, z = sigmoid(xr[i] + hr[i]), sigmoid(xz[i] + hz[i])
        n = tanh(xn[i] + r * hn[i])
        out.append((1.0 - z) * n + z * h[i])
    return out


def rnn_tanh(tally: Tally, x: Row, h: Row, hidden: int, bias: bool, projection: int) -> Row:
    (xs,), (hs,) = gates(tally, 1, x, h, hidden, bias)
    return [tanh(a + b) for a, b in zip(xs, hs, strict=True)]


def rnn_relu(tally: Tally, x: Row, h: Row, hidden: int, bias: bool, projection: int) -> Row:
    (xs,), (hs,) = gates(tally, 1, x, h, hidden, bias)
    return [most(a + b, 0.0) for a, b in zip(xs, hs, strict=True)]


def run(tally: Tally, step, sizes: dict, bias: bool) -> None:
    """All layers, directions and steps of one batch row, one after the other."""
    projection, hidden = sizes["projection"], sizes["hidden"]
    for _ in range(sizes["batch"]):
        sequence = [tally.numbers(sizes["input_size"]) for _ in range(sizes["seq"])]
        for _ in range(sizes["layers"]):
            directions = []
            for _ in range(sizes["directions"]):
                h, outputs = tally.numbers(projection or hidden), []
                for x in sequence:
                    h = step(tally, x, h, hidden, bias, projection)
                    outputs.append(h)
                directions.append(outputs)
            sequence = [list(chain(*parts)) for parts in zip(*directions, strict=True)]


@settings(max_examples=12, deadline=None)
@given(small, small, small, small, st.integers(1, 2), small, st.booleans(), st.integers(0, 2))
@pytest.mark.parametrize("cell", CELLS)
def test_step_by_step(cell, batch, seq, width, hidden, directions, layers, bias, projection):
    sizes = {"batch": batch, "seq": seq, "input_size": width, "hidden": hidden}
    sizes |= {"directions": directions, "layers": layers}
    sizes["projection"] = projection if cell == "lstm" else 0
    tally = Tally()
    run(tally, globals()[cell], sizes, bias)
    view = op("recurrent", sizes, cell=cell, bias=bias)
    assert counts(view) == (2 * tally.multiply_adds, tally.vector, tally.special)


def test_lstm_256_to_512():
    sizes = {"batch": 4, "seq": 100, "input_size": 256, "hidden": 512}
    view = op("recurrent", sizes, cell="lstm", bias=True)
    # a step of a row: 4 * 512 * (256 + 512) = 1,572,864 multiply-adds
    assert counts(view) == (2 * 400 * 1_572_864, 400 * 512 * 25, 400 * 512 * 5)


def test_weights_are_read_once_over_all_steps():
    x, h = tensor(100, 4, 256), tensor(1, 4, 512)
    weights = tensor(2048, 256), tensor(2048, 512), tensor(2048), tensor(2048)
    view = op(
        "recurrent",
        {"batch": 4, "seq": 100, "input_size": 256, "hidden": 512},
        inputs=(x, h, *weights),
        outputs=(tensor(100, 4, 512), tensor(1, 4, 512)),
        cell="rnn_tanh",
    )
    found = costed(view)
    assert found.read_bytes == 4 * (102_400 + 2_048 + 2048 * 770)
    assert found.write_bytes == 4 * (204_800 + 2_048)


@pytest.mark.parametrize("cell", CELLS)
def test_backward_repeats_each_product_twice(cell):
    sizes = {"batch": 2, "seq": 5, "input_size": 7, "hidden": 3, "directions": 2, "layers": 2}
    forward, backward = (
        op("recurrent", sizes, cell=cell),
        op("recurrent_backward", sizes, cell=cell),
    )
    assert matrix(backward) == 2 * matrix(forward)


def sigmoid_slope(g: Number, y: Number) -> Number:
    return g * y * (1.0 - y)


def tanh_slope(g: Number, y: Number) -> Number:
    return g * (1.0 - y * y)


def lstm_gradient(t: Tally) -> int:
    dy, dnext, cnext, c, before, i, f, g, o = t.numbers(9)
    dh = dy + dnext
    th = tanh(c)
    do = dh * th
    dc = cnext + dh * o * (1.0 - th * th)
    di, df, dg, _ = dc * g, dc * before, dc * i, dc * f
    for gradient, gate in ((di, i), (df, f), (do, o)):
        sigmoid_slope(gradient, gate)
    tanh_slope(dg, g)
    return 4


def gru_gradient(t: Tally) -> int:
    dy, dnext, h, r, z, n, hn, part = t.numbers(8)
    dh = dy + dnext
    dz, dn = dh * (h - n), dh * (1.0 - z)
    direct = dh * z
    pre = tanh_slope(dn, n)
    dr, _ = pre * hn, pre * r
    sigmoid_slope(dr, r)
    sigmoid_slope(dz, z)
    direct + part  # from the products of the gates
    return 4  # r, z, and the two biases of n


def tanh_gradient(t: Tally) -> int:
    dy, dnext, h = t.numbers(3)
    tanh_slope(dy + dnext, h)
    return 1


def relu_gradient(t: Tally) -> int:
    dy, dnext, h = t.numbers(3)
    select(h > 0.0, dy + dnext, 0.0)
    return 1


@pytest.mark.parametrize(
    ("cell", "program"),
    list(zip(CELLS, [lstm_gradient, gru_gradient, tanh_gradient, relu_gradient], strict=True)),
)
def test_backward_of_a_unit(cell, program):
    tally = Tally()
    biases = program(tally)
    sizes = {"batch": 2, "seq": 5, "input_size": 7, "hidden": 3}
    bare = counts(op("recurrent_backward", sizes, cell=cell))
    assert bare[1:] == (30 * tally.vector, 30 * tally.special)
    biased = counts(op("recurrent_backward", sizes, cell=cell, bias=True))
    assert biased[1] - bare[1] == 30 * biases


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_fused_gates_are_the_cell_without_its_products(cell):
    sizes = {"batch": 1, "seq": 1, "input_size": 2, "hidden": 1}
    forward = counts(op("recurrent", sizes, cell=cell))[1:]
    backward = counts(op("recurrent_backward", sizes, cell=cell))[1:]
    assert elementwise.FUNCTIONS[f"{cell}_cell"] == forward
    assert elementwise.BACKWARD_FUNCTIONS[f"{cell}_cell"] == backward


@pytest.mark.parametrize("kind", ["recurrent", "recurrent_backward"])
def test_unknown_cell_is_unmodelled(kind):
    assert cost(op(kind, {"batch": 1}, cell="qrnn")) is None
