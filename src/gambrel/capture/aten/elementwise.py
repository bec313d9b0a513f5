"""Ops that compute each result from the elements at the same place: a table of names.

The function name is ATen's own except where several ATen ops share one neutral function.
"""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described, TensorArg, flatten
from gambrel.capture.aten.registry import rule

#: Neutral function → ATen names. One work count a function (`gambrel.ops.elementwise`).
FUNCTIONS: Final[dict[str, str]] = {
    "maximum": "maximum fmax",
    "mul": "mul multiply ldexp",
    "div": "div divide true_divide",
    "floor_divide": "floor_divide",
    "addcdiv": "addcdiv",
    "lerp": "lerp",
    "square": "square",
    "minimum": "minimum fmin",
    "remainder": "remainder fmod",
    "abs": "abs absolute",
    "neg": "neg negative",
    "sign": "sign sgn signbit",
    "copysign": "copysign",
    "heaviside": "heaviside",
    "reciprocal": "reciprocal",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "exp": "exp exp2 special_exp2",
    "expm1": "expm1 special_expm1",
    "log": "log log2 log10",
    "log1p": "log1p special_log1p",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asin": "asin arcsin",
    "acos": "acos arccos",
    "atan": "atan arctan",
    "asinh": "asinh arcsinh",
    "acosh": "acosh arccosh",
    "atanh": "atanh arctanh",
    "atan2": "atan2 arctan2 angle",
    "hypot": "hypot",
    "sinc": "sinc special_sinc",
    "erf": "erf erfc special_erf special_erfc special_erfcx",
    "bessel": "i0 special_i0 special_i0e special_i1 special_i1e special_bessel_j0"
    " special_bessel_j1 special_bessel_y0 special_bessel_y1",
    "erfinv": "erfinv special_erfinv",
    "lgamma": "lgamma special_gammaln",
    "digamma": "digamma special_digamma special_psi",
    "xlogy": "xlogy special_xlogy special_xlog1py",
    "logaddexp": "logaddexp logaddexp2",
    "logit": "logit special_logit",
    "sigmoid": "sigmoid special_expit",
    "logsigmoid": "log_sigmoid log_sigmoid_forward",
    "hardsigmoid": "hardsigmoid",
    "relu": "relu",
    "relu6": "relu6",
    "leaky_relu": "leaky_relu rrelu rrelu_with_noise rrelu_with_noise_functional",
    "prelu": "_prelu_kernel prelu",
    "elu": "elu",
    "celu": "celu",
    "selu": "selu",
    "silu": "silu",
    "mish": "mish",
    "hardswish": "hardswish",
    "hardtanh": "hardtanh",
    "softplus": "softplus",
    "threshold": "threshold",
    "softshrink": "softshrink",
    "hardshrink": "hardshrink",
    "clamp": "clamp clip clamp_min clamp_max",
    "round": "round floor ceil trunc fix special_round",
    "frac": "frac",
    "compare": "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf isclose isreal"
    " not_equal less less_equal greater greater_equal isin",
    "logical": "logical_and logical_or logical_xor logical_not",
    "bitwise": "bitwise_and bitwise_or bitwise_xor bitwise_not"
    " __and__ __or__ __xor__ __iand__ __ior__ __ixor__",
    "shift": "bitwise_left_shift bitwise_right_shift __lshift__ __rshift__",
    "where": "where masked_fill tril triu",
    "nan_to_num": "nan_to_num",
    "conj": "_conj_physical conj_physical",
    "polar": "polar",
    "deg2rad": "deg2rad rad2deg",
    "cast": "complex",
}

#: Neutral function → ATen names of gradients; the first argument is the incoming gradient.
GRADIENTS: Final[dict[str, str]] = {
    "threshold": "threshold_backward",
    "sigmoid": "sigmoid_backward",
    "tanh": "tanh_backward",
    "silu": "silu_backward",
    "mish": "mish_backward",
    "hardswish": "hardswish_backward",
    "hardsigmoid": "hardsigmoid_backward",
    "hardtanh": "hardtanh_backward",
    "leaky_relu": "leaky_relu_backward rrelu_with_noise_backward",
    "elu": "elu_backward",
    "softplus": "softplus_backward",
    "softshrink": "softshrink_backward",
    "hardshrink": "hardshrink_backward",
    "logsigmoid": "log_sigmoid_backward",
    "logit": "logit_backward",
    "prelu": "_prelu_kernel_backward",
    "native_dropout": "native_dropout_backward",
}


def pointwise(call: Call) -> Described:
    """As many applications as results, after broadcasting."""
    return call.described("elementwise", _elements(call), {"function": _FUNCTION_OF[call.op]})


def listed(call: Call) -> Described:
    """A ``_foreach_`` op: the same function on every tensor of a list."""
    sizes = {"elements": sum(t.numel for t in call.outputs)}
    return call.described("elementwise", sizes, {"function": _listed_function(call)})


@rule("aten.add", "aten.sub", "aten.subtract", "aten.rsub", "aten._add_relu")
def add(call: Call) -> Described:
    """self, other, *, alpha: a factor other than one is a product more."""
    return call.described(
        "elementwise", _elements(call), {"function": _sum(call.arg(2, "alpha", 1))}
    )


@rule("aten.addcmul")
def addcmul(call: Call) -> Described:
    """self, tensor1, tensor2, *, value: a factor other than one is a product more."""
    function = "fma" if call.arg(3, "value", 1) == 1 else "addcmul"
    return call.described("elementwise", _elements(call), {"function": function})


@rule("aten.pow", "aten.float_power")
def power(call: Call) -> Described:
    """self, exponent: small whole powers are products, half a root."""
    return call.described("elementwise", _elements(call), {"function": _power(call)})


def gradient(call: Call) -> Described:
    """As many applications as elements of the incoming gradient."""
    sizes = {"elements": call.tensor(0).numel}
    return call.described("elementwise_backward", sizes, {"function": _GRADIENT_OF[call.op]})


@rule("aten.diff")
def difference(call: Call) -> Described:
    """self, n, dim, ...: neighbours subtracted, n times over."""
    sizes = {"elements": call.out.numel * call.arg(1, "n", 1)}
    return call.described("elementwise", sizes, {"function": "add"})


@rule("aten.gelu")
def gelu(call: Call) -> Described:
    """self, *, approximate."""
    return call.described("elementwise", _elements(call), {"function": _gelu(call)})


@rule("aten.gelu_backward")
def gelu_backward(call: Call) -> Described:
    """grad_output, self, *, approximate."""
    sizes = {"elements": call.tensor(0, "grad_output").numel}
    return call.described("elementwise_backward", sizes, {"function": _gelu(call)})


@rule("aten.glu")
def glu(call: Call) -> Described:
    """Half of the input gates the other half: a sigmoid and a product a result."""
    return call.described("elementwise", _elements(call), {"function": "glu"})


@rule("aten.glu_backward")
def glu_backward(call: Call) -> Described:
    """grad_output, self, dim: one application for each element of the gradient."""
    sizes = {"elements": call.tensor(0, "grad_output").numel}
    return call.described("elementwise_backward", sizes, {"function": "glu"})


@rule("aten.native_dropout", "aten._fused_dropout")
def native_dropout(call: Call) -> Described:
    """input, p, train: a random mask and a scaled product."""
    if call.name == "native_dropout" and call.arg(2, "train", True) is False:
        return call.described("copy", attrs={"function": "clone"})
    sizes = {"elements": call.tensor(0, "input").numel}
    return call.described("elementwise", sizes, {"function": "native_dropout"})


@rule("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "aten.feature_alpha_dropout")
def dropout(call: Call) -> Described:
    """input, p, train: the identity outside training."""
    if not call.arg(2, "train", False) or not call.arg(1, "p", 0.5):
        return call.described("view")
    return call.described("elementwise", _elements(call), {"function": "native_dropout"})


@rule("aten.bucketize", "aten.searchsorted")
def search(call: Call) -> Described:
    """A binary search of every value: ceil(log2(boundaries + 1)) comparisons."""
    first, second = call.arg(0, "input"), call.arg(1, "boundaries")
    if call.op == "aten.searchsorted":
        first, second = second, first
    steps = second.shape[-1].bit_length()
    values = first.numel if isinstance(first, TensorArg) else 1
    return call.described("elementwise", {"elements": values * steps}, {"function": "compare"})


@rule("aten.nonzero", "aten.nonzero_numpy", "aten.nonzero_static", "aten.argwhere")
def nonzero(call: Call) -> Described:
    """One comparison an element; the indices found are written."""
    return call.described(
        "elementwise", {"elements": call.tensor(0).numel}, {"function": "compare"}
    )


@rule("aten._amp_foreach_non_finite_check_and_unscale_")
def amp_unscale(call: Call) -> Described:
    """Every gradient times one scale, its finiteness checked."""
    grads = tuple(flatten(call.arg(0)))
    sizes = {"elements": sum(t.numel for t in grads)}
    outputs = [*grads, call.optional(1, "found_inf")]
    return call.described("elementwise", sizes, {"function": "mul"}, outputs=outputs)


@rule(
    "aten.quantize_per_tensor",
    "aten.quantize_per_channel",
    "aten.quantize_per_tensor_dynamic",
    "quantized_decomposed.quantize_per_tensor",
    "quantized_decomposed.quantize_per_channel",
    "quantized_decomposed.quantize_per_token",
)
def quantize(call: Call) -> Described:
    """Scale, shift, round, clamp."""
    return call.described("elementwise", _elements(call), {"function": "quantize"})


@rule(
    "aten.fake_quantize_per_tensor_affine",
    "aten.fake_quantize_per_tensor_affine_cachemask",
    "aten.fake_quantize_per_channel_affine",
    "aten.fake_quantize_per_channel_affine_cachemask",
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)
def fake_quantize(call: Call) -> Described:
    """To the integer grid and back, in the floating format."""
    return call.described("elementwise", _elements(call), {"function": "fake_quantize"})


@rule(
    "aten.dequantize",
    "quantized_decomposed.dequantize_per_tensor",
    "quantized_decomposed.dequantize_per_channel",
    "quantized_decomposed.dequantize_per_token",
)
def dequantize(call: Call) -> Described:
    """Subtract the zero point, scale."""
    return call.described("elementwise", _elements(call), {"function": "dequantize"})


def _elements(call: Call) -> dict[str, int | str | tuple[int | str, ...]]:
    return {"elements": call.out.numel}


def _gelu(call: Call) -> str:
    return "gelu_tanh" if call.kwargs.get("approximate", "none") == "tanh" else "gelu"


def _sum(alpha: object) -> str:
    return "add" if alpha == 1 else "add_scaled"


def _power(call: Call) -> str:
    exponent = call.arg(1, "exponent")
    return _POWERS.get(exponent, "pow") if isinstance(exponent, (int, float)) else "pow"


def _listed_function(call: Call) -> str:
    plain = call.name.removeprefix("_foreach_")
    if plain in ("add", "sub"):
        return _sum(call.kwargs.get("alpha", 1))
    if plain == "addcmul":  # value, or a list or tensor of scalars
        return "fma" if call.kwargs.get("value", call.arg(3, "", 1)) == 1 else "addcmul"
    return _power(call) if plain == "pow" else _FUNCTION_OF[f"aten.{plain}"]


_POWERS: Final = {2: "square", 3: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


_FUNCTION_OF: Final = {f"aten.{op}": f for f, names in FUNCTIONS.items() for op in names.split()}
_FUNCTION_OF.update({f"{op}_": f for op, f in list(_FUNCTION_OF.items())})
_GRADIENT_OF: Final = {f"aten.{op}": f for f, names in GRADIENTS.items() for op in names.split()}

#: What torch also offers on lists of tensors.
_FOREACH: Final = (
    "add sub mul div addcmul addcdiv lerp pow sqrt rsqrt reciprocal exp expm1 log log1p log2 log10"
    " abs neg sign sin cos tan sinh cosh tanh asin acos atan erf erfc lgamma sigmoid round floor"
    " ceil trunc frac clamp_min clamp_max maximum minimum"
)
for _op in _FUNCTION_OF:
    if not _op.endswith("_") or _op.endswith("__"):
        rule(_op)(pointwise)
for _op in _FOREACH.split():
    rule(f"aten._foreach_{_op}")(listed)
for _op in _GRADIENT_OF:
    rule(_op)(gradient)
