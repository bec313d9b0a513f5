"""Element-wise functions: (vector FLOP, function evaluations) per element, one table.

One FLOP each: an addition, subtraction, multiplication, division, comparison, selection, minimum,
maximum, rounding, change of sign, logical or bitwise operation. One evaluation each: a root, an
exponential, a logarithm, a trigonometric or hyperbolic function, erf and the like. Formulas are
evaluated as written in the comments, with the fewest operations that keep them stable; constants
are folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gambrel.ops.base import Cost, OpView, formula, work

Counts = tuple[int, int]


def _each(counts: Counts, names: str) -> dict[str, Counts]:
    return dict.fromkeys(names.split(), counts)


#: Forward functions.
FUNCTIONS: Final[Mapping[str, Counts]] = {
    # One operation.
    **_each((1, 0), "add sub rsub mul div reciprocal neg abs sign floor ceil round trunc"),
    **_each((1, 0), "maximum minimum clamp_min clamp_max relu threshold copysign heaviside"),
    **_each((1, 0), "where masked_fill compare eq ne lt le gt ge isnan isinf isfinite"),
    **_each((1, 0), "logical bitwise shift square deg2rad rad2deg conj"),
    # One evaluation.
    **_each(
        (0, 1), "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt erf erfc erfinv lgamma digamma"
    ),
    **_each((0, 1), "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh bessel"),
    # A change of number format is movement: no arithmetic.
    "cast": (0, 0),
    # A few operations.
    "add_scaled": (2, 0),  # x + a * y, a not 1
    "fma": (2, 0),  # x * y + z; addcmul with value 1
    "addcmul": (3, 0),  # z + a * x * y
    "addcdiv": (3, 0),  # z + a * x / y
    "lerp": (3, 0),  # x + w * (y - x)
    "cube": (2, 0),  # x * x * x
    "clamp": (2, 0),  # min(max(x, low), high)
    "relu6": (2, 0),
    "hardtanh": (2, 0),
    "leaky_relu": (2, 0),  # max(x, a * x)
    "prelu": (2, 0),
    "frac": (2, 0),  # x - trunc(x)
    "floor_divide": (2, 0),  # floor(x / y)
    "remainder": (4, 0),  # x - y * floor(x / y)
    "hardshrink": (3, 0),  # abs, comparison with lambda, selection
    "softshrink": (3, 0),  # x - min(max(x, -l), l)
    "softsign": (3, 0),  # x / (1 + abs(x))
    "rotary": (3, 0),  # x * cos + y * sin, y the other half of the pair
    "hardsigmoid": (4, 0),  # min(max(x + 3, 0), 6) / 6
    "hardswish": (5, 0),  # x * hardsigmoid(x)
    "isclose": (6, 0),  # abs(x - y) <= a + r * abs(y)
    "nan_to_num": (6, 0),  # three tests, three selections
    "dropout": (2, 0),  # x * mask * scale, the mask given
    "native_dropout": (3, 1),  # the mask as well: one random number, one comparison
    "quantize": (5, 0),  # x / scale, round, + zero point, two clamps
    "dequantize": (2, 0),  # (q - zero point) * scale
    "fake_quantize": (7, 0),  # both
    # Activations made of exponentials and the like.
    "sigmoid": (3, 1),  # 1 / (1 + exp(-x))
    "silu": (3, 1),  # x / (1 + exp(-x))
    "quick_gelu": (4, 1),  # x / (1 + exp(-(1.702 * x)))
    "gelu": (4, 1),  # 0.5 * x * (1 + erf(x * c))
    "gelu_tanh": (8, 1),  # 0.5 * x * (1 + tanh(c * x * (1 + d * x * x)))
    "elu": (3, 1),  # x > 0 ? x : a * expm1(x)
    "celu": (4, 1),  # x > 0 ? x : a * expm1(x / a)
    "selu": (4, 1),  # s * elu(x)
    "softplus": (4, 2),  # b * x > t ? x : log1p(exp(b * x)) / b
    "mish": (1, 3),  # x * tanh(log1p(exp(x)))
    "logsigmoid": (4, 2),  # min(x, 0) - log1p(exp(-abs(x)))
    "tanhshrink": (1, 1),  # x - tanh(x)
    "glu": (4, 1),  # a * sigmoid(b), per element of the result
    "swiglu": (4, 1),  # silu(a) * b
    "geglu": (5, 1),  # gelu(a) * b
    "geglu_tanh": (9, 1),  # gelu_tanh(a) * b
    "reglu": (2, 0),  # relu(a) * b
    "logit": (2, 1),  # log(x / (1 - x))
    # Two operands.
    "pow": (1, 2),  # exp2(y * log2(x)); whole powers 2 and 3 are square and cube
    "atan2": (1, 1),  # atan(y / x)
    "hypot": (3, 1),  # sqrt(x * x + y * y)
    "logaddexp": (5, 2),  # max(x, y) + log1p(exp(-abs(x - y)))
    "xlogy": (1, 1),  # x * log(y)
    "sinc": (2, 1),  # sin(pi * x) / (pi * x)
    "polar": (2, 2),  # r * cos(a), r * sin(a)
    # The arithmetic of one step after its products (`gambrel.ops.recurrent`), per hidden unit.
    "lstm_cell": (17, 5),
    "gru_cell": (14, 3),
}

#: Forward functions of complex numbers; for others twice the real count.
COMPLEX_FUNCTIONS: Final[Mapping[str, Counts]] = {
    "mul": (6, 0),  # (ac - bd) + (ad + bc)i
    "div": (11, 0),  # times the conjugate: 6; c * c + d * d: 3; two divisions
    "abs": (3, 1),  # sqrt(a * a + b * b)
    "exp": (2, 3),  # exp(a) * cos(b), exp(a) * sin(b)
    "polar": (2, 2),
    "conj": (1, 0),
}

#: Gradients with respect to the input, from the gradient ``g`` of the output and saved values.
BACKWARD_FUNCTIONS: Final[Mapping[str, Counts]] = {
    "relu": (2, 0),  # y > 0 ? g : 0
    "threshold": (2, 0),
    "leaky_relu": (3, 0),  # x > 0 ? g : a * g
    "prelu": (5, 0),  # the same, and for the slope x > 0 ? 0 : g * x
    "relu6": (4, 0),  # low < x and x < high ? g : 0
    "hardtanh": (4, 0),
    "hardsigmoid": (5, 0),  # the same with g / 6
    "hardswish": (7, 0),  # x < -3 ? 0 : x > 3 ? g : g * (x / 3 + 0.5)
    "hardshrink": (3, 0),  # abs(x) > l ? g : 0
    "softshrink": (3, 0),
    "softsign": (4, 0),  # g / (1 + abs(x)) ** 2
    "dropout": (2, 0),  # g * mask * scale
    "native_dropout": (2, 0),
    "sigmoid": (3, 0),  # g * y * (1 - y)
    "tanh": (3, 0),  # g * (1 - y * y)
    "logit": (3, 0),  # g / (x * (1 - x))
    # s = sigmoid(x): 3 and one evaluation; g * s * (1 + x * (1 - s)): 5.
    "silu": (8, 1),
    "quick_gelu": (9, 1),  # the same with z = 1.702 * x
    # cdf = 0.5 * (1 + erf(c * x)): 3; pdf = d * exp(-0.5 * x * x): 3; g * (cdf + x * pdf): 3.
    "gelu": (9, 2),
    # u = c * x * (1 + d * x * x): 5; t = tanh(u); 0.5 * (1 + t): 2; 1 - t * t: 2;
    # c * (1 + 3d * x * x), x * x known: 3; 0.5 * x and two products: 3; their sum, times g: 2.
    "gelu_tanh": (17, 1),
    "elu": (4, 1),  # x > 0 ? g : g * (a * exp(x))
    "celu": (4, 1),  # x > 0 ? g : g * exp(x / a)
    "selu": (5, 1),  # x > 0 ? s * g : g * (b * exp(x)): one product more than elu
    "softplus": (7, 1),  # z = b * x; z > t ? g : g / (1 + exp(-z)): 1, 2, 3, and g times it 1
    # p = log1p(exp(x)), t = tanh(p), s = sigmoid(x): 3, 4; g * (t + x * s * (1 - t * t)): 6.
    "mish": (9, 4),
    "logsigmoid": (2, 1),  # g / (1 + exp(x))
    # s = sigmoid(b): 3; da = g * s: 1; db = da * (1 - s) * a: 3.
    "glu": (7, 1),
    # f(a) * b: da is the gradient of f with g * b for g; db = g * f(a), with f(a) one product more.
    "swiglu": (11, 1),
    "geglu": (12, 2),
    "geglu_tanh": (20, 1),
    "reglu": (5, 0),  # a > 0 ? g * b : 0, and g * max(a, 0)
    "lstm_cell": (23, 1),
    "gru_cell": (18, 0),
}


@formula("elementwise")
def elementwise(op: OpView) -> Cost | None:
    """The function's count (table in `gambrel.ops.elementwise`) times the elements of the result.

    Sizes: elements. Attrs: function. An unknown function is unmodelled.
    """
    counts = FUNCTIONS.get(str(op.attrs.get("function")))
    if counts is None:
        return None
    if op.is_complex:
        doubled = (2 * counts[0], 2 * counts[1])
        counts = COMPLEX_FUNCTIONS.get(str(op.attrs["function"]), doubled)
    return _times_elements(op, counts)


@formula("elementwise_backward")
def elementwise_backward(op: OpView) -> Cost | None:
    """The gradient's count (table in `gambrel.ops.elementwise`) times the elements.

    Sizes: elements (of the gradient of the result). Attrs: function.
    """
    counts = BACKWARD_FUNCTIONS.get(str(op.attrs.get("function")))
    return None if counts is None else _times_elements(op, counts)


def _times_elements(op: OpView, counts: Counts) -> Cost:
    vector, special = counts
    n = op.size("elements")
    # A plain zero, not zero times an array: engines with nothing to do are left out.
    return Cost(
        work=work(
            op.dtype, vector=n * vector if vector else 0, special=n * special if special else 0
        )
    )
