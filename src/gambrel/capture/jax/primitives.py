"""Primitives of JAX to operations of StableHLO: names, and attributes under one spelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

_Attrs: TypeAlias = dict[str, Any]

_SAME_NAME: Final = (
    "square cbrt erf erfc logistic tanh tan asin acos atan sinh cosh asinh acosh atanh lgamma"
    " digamma atan2 abs sign floor ceil sqrt rsqrt is_finite and or xor not shift_left nextafter"
    " shift_right_logical shift_right_arithmetic reshape copy real imag complex conj clamp"
    " stop_gradient optimization_barrier bessel_i0e bessel_i1e cholesky qr svd eig lu"
    " householder_product geqrf triangular_solve exp2 reduce_precision sharding_constraint"
)
#: Primitives whose attributes do not matter → operation.
_PLAIN: Final[dict[str, str]] = {
    **{name: name for name in _SAME_NAME.split()},
    "add": "add",
    "add_any": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "rem": "remainder",
    "max": "maximum",
    "min": "minimum",
    "neg": "negate",
    "pow": "power",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sin": "sine",
    "cos": "cosine",
    "erf_inv": "erf_inv",
    "round": "round_nearest_even",
    "population_count": "popcnt",
    "clz": "count_leading_zeros",
    "convert_element_type": "convert",
    "bitcast_convert_type": "bitcast_convert",
    "squeeze": "reshape",
    "expand_dims": "reshape",
    "rev": "reverse",
    "eigh": "eigh",
    "random_bits": "rng",
    "threefry2x32": "rng",
    "rng_bit_generator": "rng",
    "rng_uniform": "rng",
    "dynamic_slice": "dynamic_slice",
    "dynamic_update_slice": "dynamic_update_slice",
    "argmax": "argmax",
    "argmin": "argmax",
    "empty": "zeros",
    "empty2": "zeros",
    "axis_index": "zeros",
    # Marks for the compiler, differentiation or debugging: the operand is handed on.
    **dict.fromkeys(
        ("copy_p", "name", "pvary", "reshard", "layout_constraint", "preduced", "tie", "pin"),
        "annotation",
    ),
    **dict.fromkeys(
        ("unpin", "device_put", "reduced_vary_cast_p", "vary_unreduced_cast_p"), "annotation"
    ),
    # Keys of random numbers are a few bytes.
    **dict.fromkeys(
        ("random_seed", "random_wrap", "random_unwrap", "random_split", "random_fold_in"), "key"
    ),
    **dict.fromkeys(("random_clone", "create_token", "after_all"), "key"),
}
_COMPARISONS: Final = {n: n.upper() for n in ("eq", "ne", "lt", "le", "gt", "ge")}
_REDUCTIONS: Final = {
    "reduce_sum": "add",
    "reduce_max": "maximum",
    "reduce_min": "minimum",
    "reduce_prod": "multiply",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}
_WINDOWS: Final = {
    "reduce_window_sum": "add",
    "reduce_window_max": "maximum",
    "reduce_window_min": "minimum",
}
_RUNNING: Final = {
    "cumsum": "add",
    "cumprod": "multiply",
    "cummax": "maximum",
    "cummin": "minimum",
    "cumlogsumexp": "logaddexp",
}
_SCATTERS: Final = ("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max")


#: Primitive → operation, the attribute → the parameter that it is, what the name says itself.
_NAMED: Final[dict[str, tuple[str, dict[str, str], _Attrs]]] = {
    "broadcast_in_dim": ("broadcast_in_dim", {"dims": "broadcast_dimensions"}, {}),
    "transpose": ("transpose", {"perm": "permutation"}, {}),
    "split": ("split", {"axis": "axis"}, {}),
    "concatenate": ("concatenate", {"axis": "dimension"}, {}),
    "pad": ("pad", {}, {}),
    "iota": ("iota", {"axis": "dimension"}, {}),
    "gather": ("gather", {"slice_sizes": "slice_sizes"}, {}),
    "integer_pow": ("integer_pow", {"y": "y"}, {}),
    "sort": ("sort", {"axis": "dimension"}, {}),
    "top_k": ("top_k", {"axis": "axis"}, {}),
    "approx_top_k": ("top_k", {"axis": "reduction_dimension"}, {}),
    "ragged_dot": ("ragged_dot", {}, {}),
    "ragged_dot_general": ("ragged_dot", {}, {}),
    "reduce_window": ("reduce_window", {"window": "window_dimensions"}, {}),
    "select_and_scatter_add": ("select_and_scatter", {"window": "window_dimensions"}, {}),
    **{n: ("compare", {}, {"direction": d}) for n, d in _COMPARISONS.items()},
    **{n: ("reduce", {"axes": "axes"}, {"function": f}) for n, f in _REDUCTIONS.items()},
    **{
        n: ("reduce_window", {"window": "window_dimensions"}, {"function": f})
        for n, f in _WINDOWS.items()
    },
    **{n: ("cumulative", {"axis": "axis"}, {"function": f}) for n, f in _RUNNING.items()},
    **{n: ("scatter", {}, {"accumulate": n != "scatter"}) for n in _SCATTERS},
}


def _numbers(values: Any) -> list[int]:
    return [int(v) for v in values]


def _convolution(p: Mapping[str, Any]) -> _Attrs:
    numbers = p["dimension_numbers"]
    return {
        "lhs": _numbers(numbers.lhs_spec),
        "rhs": _numbers(numbers.rhs_spec),
        "out": _numbers(numbers.out_spec),
        "groups": int(p["feature_group_count"]),
        "batch_groups": int(p["batch_group_count"]),
        "lhs_dilation": _numbers(p["lhs_dilation"]),
    }


def _dot(p: Mapping[str, Any]) -> _Attrs:
    contract, batch = p["dimension_numbers"]
    return {"contract": tuple(map(_numbers, contract)), "batch": tuple(map(_numbers, batch))}


def _slice(p: Mapping[str, Any]) -> _Attrs:
    starts = _numbers(p["start_indices"])
    strides = p["strides"] or [1] * len(starts)
    return {
        "starts": starts,
        "limits": _numbers(p["limit_indices"]),
        "strides": _numbers(strides),
    }


def _fft(p: Mapping[str, Any]) -> _Attrs:
    kind = p["fft_type"]
    return {"type": getattr(kind, "name", str(kind)), "lengths": _numbers(p["fft_lengths"])}


#: Primitive → operation, how its attributes are read.
_READ: Final[dict[str, tuple[str, Callable[[Mapping[str, Any]], _Attrs]]]] = {
    "dot_general": ("dot_general", _dot),
    "conv_general_dilated": ("convolution", _convolution),
    "slice": ("slice", _slice),
    "fft": ("fft", _fft),
}


def operation_of(name: str, params: Mapping[str, Any]) -> tuple[str, _Attrs]:
    """The operation that a primitive is, and its attributes.

    A primitive that nobody knows keeps its name, and shows as unmodelled.
    """
    if name in _READ:
        op, read = _READ[name]
        return op, read(params)
    if name in _NAMED:
        op, names, said = _NAMED[name]
        return op, {**said, **{attr: _number(params[key]) for attr, key in names.items()}}
    return _PLAIN.get(name, f"primitive {name}"), {}


def _number(value: Any) -> int | list[int]:
    return _numbers(value) if hasattr(value, "__len__") else int(value)
