"""Element-wise functions: every table entry against a program that really does it."""

from __future__ import annotations

import math

import pytest

from gambrel.ops import cost, elementwise
from tests.ops.builders import costed, counts, op, tensor
from tests.ops.oracle import Tally, plain
from tests.ops.programs import BINARY, GRADIENTS, UNARY


def words(text: str) -> set[str]:
    return set(text.split())


#: Entries that are one operation or one evaluation by the definition of the count.
ONE_OPERATION = words(
    "add sub rsub mul div reciprocal neg abs sign floor ceil round trunc maximum minimum clamp_min"
    " clamp_max relu threshold copysign heaviside where masked_fill compare eq ne lt le gt ge isnan"
    " isinf isfinite logical bitwise shift square deg2rad rad2deg conj"
)
ONE_EVALUATION = words(
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt erf erfc erfinv lgamma digamma sin cos tan asin"
    " acos atan sinh cosh tanh asinh acosh atanh bessel"
)
#: Counted in other tests (cells), or by hand: (vector, special).
BY_HAND = {
    "cast": (0, 0),
    "nan_to_num": (3 + 3, 0),  # is it NaN, +inf, -inf; a selection each
    "native_dropout": (2 + 1, 1),  # mask and scale; the draw compared with p
    "fake_quantize": (5 + 2, 0),  # quantize, dequantize
    "rotary": (2 + 1, 0),  # x cos + y sin
}
CELLS = {"lstm_cell", "gru_cell"}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_function_of_one_argument_matches_the_program(name):
    tally = Tally()
    UNARY[name](tally.number(0.7))
    assert elementwise.FUNCTIONS[name] == (tally.vector, tally.special)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_function_of_two_arguments_matches_the_program(name):
    tally = Tally()
    BINARY[name](tally.number(0.7), tally.number(1.3))
    assert elementwise.FUNCTIONS[name] == (tally.vector, tally.special)


def test_every_function_is_tested():
    tested = UNARY.keys() | BINARY.keys() | ONE_OPERATION | ONE_EVALUATION | BY_HAND.keys() | CELLS
    assert set(elementwise.FUNCTIONS) == tested


@pytest.mark.parametrize("name", sorted(ONE_OPERATION))
def test_one_operation(name):
    assert elementwise.FUNCTIONS[name] == (1, 0)


@pytest.mark.parametrize("name", sorted(ONE_EVALUATION))
def test_one_evaluation(name):
    assert elementwise.FUNCTIONS[name] == (0, 1)


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_counted_by_hand(name):
    assert elementwise.FUNCTIONS[name] == BY_HAND[name]


PLACES = (-4.3, -0.83, 0.31, 0.77)
#: logit is defined between 0 and 1.
PLACED = [(n, x) for n in sorted(GRADIENTS) for x in PLACES if n != "logit" or x > 0]


@pytest.mark.parametrize(("name", "x"), PLACED)
def test_gradient_matches_the_program_and_the_program_the_slope(name, x):
    tally = Tally()
    found = GRADIENTS[name](tally.number(1.3), tally.number(x))
    assert elementwise.BACKWARD_FUNCTIONS[name] == (tally.vector, tally.special)
    step = 1e-6
    above, below = (plain(UNARY[name](Tally().number(x + s))) for s in (step, -step))
    assert math.isclose(found.value, 1.3 * (above - below) / (2 * step), abs_tol=1e-4)


def test_gradients_by_hand():
    table = elementwise.BACKWARD_FUNCTIONS
    assert table["threshold"] == (1 + 1, 0)  # comparison, selection
    assert table["prelu"] == (3 + 2, 0)  # as leaky ReLU; for the slope a product and a selection
    assert table["native_dropout"] == (2, 0)
    # s 3 and one evaluation; da = g * s; db = da * (1 - s) * a
    assert table["glu"] == (3 + 1 + 3, 1)
    # f(a) * b: g * b, the gradient of f with that for g; f(a) from what is known, g * f(a)
    assert table["swiglu"] == (1 + 8 + 1 + 1, 1)
    assert table["geglu"] == (1 + 9 + 1 + 1, 2)
    assert table["geglu_tanh"] == (1 + 17 + 1 + 1, 1)
    # g * b, a comparison and a selection; max(a, 0) and g times it
    assert table["reglu"] == (1 + 2 + 1 + 1, 0)


def test_every_gradient_is_tested():
    gates = {"glu", "swiglu", "geglu", "geglu_tanh", "reglu"}
    others = {"threshold", "prelu", "native_dropout"} | gates | CELLS
    assert set(elementwise.BACKWARD_FUNCTIONS) == GRADIENTS.keys() | others


def test_work_is_per_element_and_traffic_includes_the_result():
    square = (1024, 1024)
    add = op(
        "elementwise",
        {"elements": 1024 * 1024},
        inputs=(tensor(*square), tensor(*square)),
        outputs=(tensor(*square),),
        function="add",
    )
    found = costed(add)
    assert counts(add) == (0, 1_048_576, 0)
    assert found.read_bytes + found.write_bytes == 12_582_912  # 12.58e6: three times 4 MiB


def test_broadcast_operand_is_read_once():
    row = tensor(8, 1024, elements=1024)  # an expanded row
    add = op(
        "elementwise",
        {"elements": 8192},
        inputs=(tensor(8, 1024), row),
        outputs=(tensor(8, 1024),),
        function="add",
    )
    assert costed(add).read_bytes == (8192 + 1024) * 4


def test_complex_product_is_four_products_and_two_sums():
    z = tensor(100, dtype="complex64")
    mul = op("elementwise", {"elements": 100}, inputs=(z, z), outputs=(z,), function="mul")
    assert costed(mul).work == {("vector", "fp32"): 600}
    neg = op("elementwise", {"elements": 100}, inputs=(z,), outputs=(z,), function="neg")
    assert costed(neg).work == {("vector", "fp32"): 200}


def test_engines_without_work_are_left_out():
    relu = op("elementwise", {"elements": 5}, inputs=(tensor(5, dtype="fp16"),), function="relu")
    assert costed(relu).work == {("vector", "fp16"): 5}
    cast = op("elementwise", {"elements": 5}, inputs=(tensor(5, dtype="fp16"),), function="cast")
    assert costed(cast).work == {}


@pytest.mark.parametrize("kind", ["elementwise", "elementwise_backward"])
@pytest.mark.parametrize("attrs", [{"function": "frobnicate"}, {}])
def test_unknown_function_is_unmodelled(kind, attrs):
    assert cost(op(kind, {"elements": 5}, **attrs)) is None
