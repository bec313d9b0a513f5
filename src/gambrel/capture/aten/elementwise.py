"""Ops that compute each result from the elements at the same place: a table of names.

The function name is ATen's own except where several ATen ops share one neutral function.
"""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described, TensorArg, flatten
from gambrel.capture.aten.registry import by_op, function_of, rule

#: ATen names that are those of the neutral function, and no other op's.
_SAME: Final = (
    "floor_divide addcdiv lerp square copysign heaviside reciprocal sqrt rsqrt sin cos tan"
    " sinh cosh tanh hypot hardsigmoid relu relu6 elu celu selu silu mish hardswish hardtanh"
    " softplus threshold softshrink hardshrink frac nan_to_num polar glu"
)
#: Neutral function → ATen names. One work count a function (`gambrel.ops.elementwise`).
FUNCTIONS: Final[dict[str, str]] = {
    **{name: name for name in _SAME.split()},
    "maximum": "maximum fmax",
    "mul": "mul multiply ldexp outer ger",
    "div": "div divide true_divide",
    "minimum": "minimum fmin",
    "remainder": "remainder fmod",
    "abs": "abs absolute",
    "neg": "neg negative",
    "sign": "sign sgn signbit",
    "exp": "exp exp2 special_exp2",
    "expm1": "expm1 special_expm1",
    "log": "log log2 log10",
    "log1p": "log1p special_log1p",
    "asin": "asin arcsin",
    "acos": "acos arccos",
    "atan": "atan arctan",
    "asinh": "asinh arcsinh",
    "acosh": "acosh arccosh",
    "atanh": "atanh arctanh",
    "atan2": "atan2 arctan2 angle",
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
    "leaky_relu": "leaky_relu rrelu rrelu_with_noise rrelu_with_noise_functional",
    "prelu": "_prelu_kernel prelu",
    "clamp": "clamp clip clamp_min clamp_max",
    "round": "round floor ceil trunc fix special_round",
    "compare": "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf isclose isreal"
    " not_equal less less_equal greater greater_equal isin",
    "logical": "logical_and logical_or logical_xor logical_not",
    "bitwise": "bitwise_and bitwise_or bitwise_xor bitwise_not"
    " __and__ __or__ __xor__ __iand__ __ior__ __ixor__",
    "shift": "bitwise_left_shift bitwise_right_shift __lshift__ __rshift__",
    "where": "where tril triu",
    "masked_fill": "masked_fill",
    "conj": "_conj_physical conj_physical",
    "deg2rad": "deg2rad rad2deg",
    "cast": "complex",
    # The gate arithmetic of one step, whose products ran before it as ops of their own.
    "lstm_cell": "_thnn_fused_lstm_cell",
    "gru_cell": "_thnn_fused_gru_cell",
    "quantize": "quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic"
    " quantized_decomposed.quantize_per_tensor quantized_decomposed.quantize_per_channel"
    " quantized_decomposed.quantize_per_token",
    "fake_quantize": "fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask"
    " fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask"
    " _fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "dequantize": "dequantize quantized_decomposed.dequantize_per_tensor"
    " quantized_decomposed.dequantize_per_channel quantized_decomposed.dequantize_per_token",
}

#: Functions whose gradient is ``NAME_backward``: the first argument is the incoming gradient.
_GRADIENTS: Final = (
    "threshold sigmoid tanh silu mish hardswish hardsigmoid hardtanh elu softplus softshrink"
    " hardshrink logit native_dropout glu"
)
#: The others: neutral function → ATen names.
GRADIENTS: Final[dict[str, str]] = {
    **{name: f"{name}_backward" for name in _GRADIENTS.split()},
    "leaky_relu": "leaky_relu_backward rrelu_with_noise_backward",
    "logsigmoid": "log_sigmoid_backward",
    "prelu": "_prelu_kernel_backward",
    "lstm_cell": "_thnn_fused_lstm_cell_backward_impl",
    "gru_cell": "_thnn_fused_gru_cell_backward",
}
_FUNCTION_OF: Final = by_op(FUNCTIONS)
_GRADIENT_OF: Final = by_op(GRADIENTS)

#: What torch also offers on lists of tensors.
_FOREACH: Final = (
    "add sub mul div addcmul addcdiv lerp pow sqrt rsqrt reciprocal exp expm1 log log1p log2 log10"
    " abs neg sign sin cos tan sinh cosh tanh asin acos atan erf erfc lgamma sigmoid round floor"
    " ceil trunc frac clamp_min clamp_max maximum minimum"
)
_POWERS: Final = {2: "square", 3: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


@rule(*_FUNCTION_OF)
def pointwise(call: Call) -> Described:
    """As many applications as results, after broadcasting."""
    return call.described(
        "elementwise", _elements(call), {"function": function_of(call.op, _FUNCTION_OF)}
    )


@rule(*(f"aten._foreach_{name}" for name in _FOREACH.split()))
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


@rule(*_GRADIENT_OF)
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


@rule("aten.nonzero", "aten.nonzero_numpy", "aten.nonzero_static", "aten.argwhere", "aten.equal")
def nonzero(call: Call) -> Described:
    """One comparison an element; the indices found are written, or the host gets the answer."""
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
