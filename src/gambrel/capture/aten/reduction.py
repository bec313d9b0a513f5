"""Reductions, running reductions, sorting."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described, rows_along
from gambrel.capture.aten.registry import by_op, rule

#: Neutral function → ATen names.
FUNCTIONS: Final[dict[str, str]] = {
    "sum": "sum nansum sum_to_size trace",
    "count_nonzero": "count_nonzero",
    "mean": "mean nanmean",
    "amax": "amax",
    "amin": "amin",
    "argmax": "argmax",
    "argmin": "argmin",
    "prod": "prod",
    "var": "var var_mean",
    "std": "std std_mean",
    "norm": "frobenius_norm",
    "any": "any _is_any_true",
    "all": "all _is_all_true",
    "logsumexp": "logsumexp special_logsumexp",
    "aminmax": "aminmax _aminmax",
}
_FUNCTION_OF: Final = by_op(FUNCTIONS)


@rule(*_FUNCTION_OF)
def reduction(call: Call) -> Described:
    """As many elements as the input has, as many results as the first output has."""
    return _reduce(call, _FUNCTION_OF[call.op])


@rule("aten.max", "aten.min")
def extremum(call: Call) -> Described:
    """Of all, along a dimension, or (two tensors) element by element."""
    name = call.name
    if call.overload in ("other", "out") and call.optional(1, "other") is not None:
        sizes = {"elements": call.out.numel}
        return call.described("elementwise", sizes, {"function": f"{name}imum"})
    return _reduce(call, name)


@rule("aten.norm", "aten.linalg_vector_norm")
def norm(call: Call) -> Described:
    """self, p (or ord), ...: two unless said."""
    order = call.arg(1, "ord" if "linalg" in call.op else "p", 2)
    return _reduce(call, _norm(order))


@rule("aten._foreach_norm", "aten._foreach_max")
def listed(call: Call) -> Described:
    """One result a tensor of the list."""
    sizes = {"elements": sum(t.numel for t in call.inputs), "outputs": len(call.outputs)}
    function = "max" if call.name == "_foreach_max" else _norm(call.arg(1, "ord", 2))
    return call.described("reduction", sizes, {"function": function})


@rule(
    "aten.cumsum",
    "aten.cumprod",
    "aten.cummax",
    "aten.cummin",
    "aten.logcumsumexp",
)
def cumulative(call: Call) -> Described:
    """self, dim: a running result along every line."""
    x = call.tensor(0)
    sizes = {"elements": x.numel, "rows": rows_along(x, call.arg(1, "dim"))}
    return call.described("cumulative", sizes, {"function": call.name})


@rule("aten._cummax_helper", "aten._cummin_helper")
def cumulative_into(call: Call) -> Described:
    """self, values, indices, dim: the results are handed in."""
    x = call.tensor(0)
    sizes = {"elements": x.numel, "rows": rows_along(x, call.arg(3, "dim"))}
    function = call.name.removeprefix("_").removesuffix("_helper")
    outputs = [call.tensor(1, "values"), call.tensor(2, "indices")]
    return call.described("cumulative", sizes, {"function": function}, inputs=[x], outputs=outputs)


@rule("aten.sort", "aten.argsort", "aten.msort")
def sort(call: Call) -> Described:
    """self, dim, descending, or with ``stable`` before them."""
    x = call.tensor(0)
    position = 2 if call.overload in ("stable", "values_stable") else 1
    dim = 0 if call.name == "msort" else call.arg(position, "dim", -1)
    sizes = {"elements": x.numel, "rows": rows_along(x, dim)}
    return call.described("sort", sizes, {"function": call.name})


@rule("aten.topk")
def topk(call: Call) -> Described:
    """self, k, dim, largest, sorted."""
    x = call.tensor(0)
    rows = rows_along(x, call.arg(2, "dim", -1))
    sizes = {"elements": x.numel, "rows": rows, "k": call.arg(1, "k")}
    return call.described("sort", sizes, {"function": "topk"})


@rule("aten.kthvalue", "aten.median", "aten.nanmedian", "aten.mode", "aten.quantile")
def order_statistic(call: Call) -> Described:
    """One element of each line by its rank."""
    x = call.tensor(0)
    position = 2 if call.name in ("kthvalue", "quantile") else 1
    whole = call.name in ("median", "nanmedian") and call.overload in ("", "default", "out")
    sizes = {"elements": x.numel, "rows": 1 if whole else rows_along(x, call.arg(position, "dim"))}
    return call.described("sort", sizes, {"function": "kthvalue"})


@rule("aten._unique2", "aten._unique", "aten.unique_dim", "aten.unique_consecutive")
def unique(call: Call) -> Described:
    """All elements sorted, neighbours compared."""
    sizes = {"elements": call.tensor(0).numel, "rows": 1}
    return call.described("sort", sizes, {"function": "unique"})


def _norm(order: object) -> str:
    order = 2 if order is None else order
    if order in (1, 2):
        return "norm" if order == 2 else "norm_1"
    return "norm_inf" if order in (float("inf"), float("-inf")) else "norm_p"


def _reduce(call: Call, function: str) -> Described:
    sizes = {"elements": call.tensor(0).numel, "outputs": call.out.numel}
    return call.described("reduction", sizes, {"function": function})
