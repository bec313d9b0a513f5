"""Element-wise functions and optimizer rules as programs over counting numbers."""

from __future__ import annotations

import math

from tests.ops.oracle import (
    Number,
    atan,
    cos,
    erf,
    exp,
    exp2,
    expm1,
    least,
    log,
    log1p,
    log2,
    most,
    rounded,
    select,
    sin,
    sqrt,
    tanh,
)

HALF_ROOT = math.sqrt(0.5)
GELU_TANH = math.sqrt(2 / math.pi)


def sigmoid(x: Number) -> Number:
    return 1.0 / (1.0 + exp(-x))


def silu(x: Number) -> Number:
    return x / (1.0 + exp(-x))


def gelu(x: Number) -> Number:
    return 0.5 * x * (1.0 + erf(x * HALF_ROOT))


def hardsigmoid(x: Number) -> Number:
    return least(most(x + 3.0, 0.0), 6.0) / 6.0


#: Functions of one argument.
UNARY = {
    "neg": lambda x: -x,
    "abs": abs,
    "reciprocal": lambda x: 1.0 / x,
    "square": lambda x: x * x,
    "floor": rounded,
    "relu": lambda x: most(x, 0.0),
    "exp": exp,
    "log1p": log1p,
    "cube": lambda x: x * x * x,
    "clamp": lambda x: least(most(x, -0.5), 0.5),
    "relu6": lambda x: least(most(x, 0.0), 6.0),
    "hardtanh": lambda x: least(most(x, -1.0), 1.0),
    "leaky_relu": lambda x: most(x, 0.01 * x),
    "prelu": lambda x: most(x, 0.25 * x),
    "frac": lambda x: x - rounded(x, math.trunc),
    "hardshrink": lambda x: select(abs(x) > 0.5, x, 0.0),
    "softshrink": lambda x: x - least(most(x, -0.5), 0.5),
    "softsign": lambda x: x / (1.0 + abs(x)),
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda x: x * hardsigmoid(x),
    "quantize": lambda x: least(most(rounded(x / 0.1, round) + 3.0, -128.0), 127.0),
    "dequantize": lambda x: (x - 3.0) * 0.1,
    "sigmoid": sigmoid,
    "silu": silu,
    "quick_gelu": lambda x: x / (1.0 + exp(-(1.702 * x))),
    "gelu": gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1.0 + tanh(GELU_TANH * x * (1.0 + 0.044715 * x * x))),
    "elu": lambda x: select(x > 0.0, x, 1.5 * expm1(x)),
    "celu": lambda x: select(x > 0.0, x, 1.5 * expm1(x / 1.5)),
    # The negative side's two constants are one.
    "selu": lambda x: select(x > 0.0, 1.0507 * x, 1.0507 * 1.6733 * expm1(x)),
    "mish": lambda x: x * tanh(log1p(exp(x))),
    "logsigmoid": lambda x: least(x, 0.0) - log1p(exp(-abs(x))),
    "tanhshrink": lambda x: x - tanh(x),
    "tanh": tanh,
    "logit": lambda x: log(x / (1.0 - x)),
    "sinc": lambda x: sin(z := math.pi * x) / z,
    "dropout": lambda x: x * 1.0 * 2.0,
}


def softplus(x: Number) -> Number:
    z = 2.0 * x
    return select(z > 20.0, x, log1p(exp(z)) / 2.0)


def logaddexp(x: Number, y: Number) -> Number:
    return most(x, y) + log1p(exp(-abs(x - y)))


def remainder(x: Number, y: Number) -> Number:
    return x - y * rounded(x / y)


UNARY["softplus"] = softplus

#: Functions of two arguments (of three: the third is a constant).
BINARY = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": most,
    "lt": lambda x, y: x < y,
    "add_scaled": lambda x, y: x + 2.0 * y,
    "fma": lambda x, y: x * y + 1.0,
    "addcmul": lambda x, y: 1.0 + 0.5 * x * y,
    "addcdiv": lambda x, y: 1.0 + 0.5 * x / y,
    "lerp": lambda x, y: x + 0.3 * (y - x),
    "floor_divide": lambda x, y: rounded(x / y),
    "remainder": remainder,
    "isclose": lambda x, y: abs(x - y) <= 1e-8 + 1e-5 * abs(y),
    "glu": lambda x, y: x * sigmoid(y),
    "swiglu": lambda x, y: silu(x) * y,
    "geglu": lambda x, y: gelu(x) * y,
    "geglu_tanh": lambda x, y: UNARY["gelu_tanh"](x) * y,
    "reglu": lambda x, y: most(x, 0.0) * y,
    "pow": lambda x, y: exp2(y * log2(x)),
    "atan2": lambda x, y: atan(x / y),
    "hypot": lambda x, y: sqrt(x * x + y * y),
    "logaddexp": logaddexp,
    "xlogy": lambda x, y: x * log(y),
    "polar": lambda r, a: (r * cos(a), r * sin(a)),
}


def silu_gradient(g: Number, x: Number) -> Number:
    s = sigmoid(x)
    return g * s * (1.0 + x * (1.0 - s))


def quick_gelu_gradient(g: Number, x: Number) -> Number:
    return silu_gradient(g, 1.702 * x)


def gelu_gradient(g: Number, x: Number) -> Number:
    cdf = 0.5 * (1.0 + erf(HALF_ROOT * x))
    pdf = (1 / math.sqrt(2 * math.pi)) * exp(-0.5 * x * x)
    return g * (cdf + x * pdf)


def gelu_tanh_gradient(g: Number, x: Number) -> Number:
    square = x * x
    t = tanh(GELU_TANH * x * (1.0 + 0.044715 * square))
    slope = GELU_TANH * (1.0 + 3 * 0.044715 * square)
    return g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope)


def mish_gradient(g: Number, x: Number) -> Number:
    t = tanh(log1p(exp(x)))
    return g * (t + x * sigmoid(x) * (1.0 - t * t))


def softplus_gradient(g: Number, x: Number) -> Number:
    z = 2.0 * x
    return select(z > 20.0, g, g * (1.0 / (1.0 + exp(-z))))


def softsign_gradient(g: Number, x: Number) -> Number:
    base = 1.0 + abs(x)
    return g / (base * base)


def hardswish_gradient(g: Number, x: Number) -> Number:
    inner = select(x > 3.0, g, g * (x / 3.0 + 0.5))
    return select(x < -3.0, 0.0, inner)


def inside(g: object, x: Number, low: float, high: float) -> Number:
    return select((x > low) & (x < high), g, 0.0)


def sigmoid_gradient(g: Number, x: Number) -> Number:
    y = x.tally.number(1 / (1 + math.exp(-x.value)))  # saved by the forward pass
    return g * y * (1.0 - y)


def tanh_gradient(g: Number, x: Number) -> Number:
    y = x.tally.number(math.tanh(x.value))
    return g * (1.0 - y * y)


#: The gradient with respect to x, from that of the result.
GRADIENTS = {
    "relu": lambda g, x: select(x > 0.0, g, 0.0),
    "leaky_relu": lambda g, x: select(x > 0.0, g, 0.01 * g),
    "relu6": lambda g, x: inside(g, x, 0.0, 6.0),
    "hardtanh": lambda g, x: inside(g, x, -1.0, 1.0),
    "hardsigmoid": lambda g, x: inside(g / 6.0, x, -3.0, 3.0),
    "hardswish": hardswish_gradient,
    "hardshrink": lambda g, x: select(abs(x) > 0.5, g, 0.0),
    "softshrink": lambda g, x: select(abs(x) > 0.5, g, 0.0),
    "softsign": softsign_gradient,
    "dropout": lambda g, _x: g * 1.0 * 2.0,
    "sigmoid": sigmoid_gradient,
    "tanh": tanh_gradient,
    "logit": lambda g, x: g / (x * (1.0 - x)),
    "silu": silu_gradient,
    "quick_gelu": quick_gelu_gradient,
    "gelu": gelu_gradient,
    "gelu_tanh": gelu_tanh_gradient,
    "elu": lambda g, x: select(x > 0.0, g, g * (1.5 * exp(x))),
    "celu": lambda g, x: select(x > 0.0, g, g * exp(x / 1.5)),
    "selu": lambda g, x: select(x > 0.0, 1.0507 * g, g * (1.0507 * 1.6733 * exp(x))),
    "softplus": softplus_gradient,
    "mish": mish_gradient,
    "logsigmoid": lambda g, x: g / (1.0 + exp(x)),
}


def adam(p: Number, g: Number, m: Number, v: Number) -> Number:
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return p - 0.001 * m / (sqrt(v) * 1.5 + 1e-8)


def nadam(p: Number, g: Number, m: Number, v: Number) -> Number:
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    d = sqrt(v) * 1.5 + 1e-8
    return p - 0.001 * g / d - 0.002 * m / d


def adamax(p: Number, g: Number, m: Number, u: Number) -> Number:
    m = 0.9 * m + 0.1 * g
    u = most(0.99 * u, abs(g) + 1e-8)
    return p - 0.002 * m / u


def adagrad(p: Number, g: Number, s: Number, _: Number) -> Number:
    return p - 0.01 * g / (sqrt(s + g * g) + 1e-10)


def rmsprop(p: Number, g: Number, v: Number, _: Number) -> Number:
    return p - 0.01 * g / (sqrt(0.99 * v + 0.01 * g * g) + 1e-8)


def adadelta(p: Number, g: Number, v: Number, a: Number) -> Number:
    v = 0.9 * v + 0.1 * g * g
    step = sqrt(a + 1e-6) / sqrt(v + 1e-6) * g
    a = 0.9 * a + 0.1 * step * step
    return p - 1.0 * step


def lion(p: Number, g: Number, m: Number, _: Number) -> Number:
    direction = rounded(0.9 * m + 0.1 * g, lambda x: int(math.copysign(1, x)))
    m = 0.99 * m + 0.01 * g
    return p - 0.001 * direction


def sgd_momentum(p: Number, g: Number, m: Number, _: Number) -> Number:
    return p - 0.1 * (0.9 * m + g)


def sgd_nesterov(p: Number, g: Number, m: Number, _: Number) -> Number:
    m = 0.9 * m + g
    return p - 0.1 * (g + 0.9 * m)


#: One parameter's step.
RULES = {
    "sgd": lambda p, g, _m, _v: p - 0.1 * g,
    "sgd_momentum": sgd_momentum,
    "sgd_nesterov": sgd_nesterov,
    "adam": adam,
    "nadam": nadam,
    "adamax": adamax,
    "adagrad": adagrad,
    "rmsprop": rmsprop,
    "adadelta": adadelta,
    "lion": lion,
}
