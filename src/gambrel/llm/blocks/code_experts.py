"""Routers and experts as the code of transformers dispatches them: every op a kernel of its own."""

from __future__ import annotations

from gambrel.llm.blocks import code
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.dims import times
from gambrel.llm.spec import Mixture
from gambrel.workload import Dim


def scored(e: Emitter, m: Mixture, logits: Index, rows: Dim) -> Index:
    """Chances of all experts, before the choice; the logits where the choice comes first."""
    if m.chosen_first:
        return logits
    logits = code.cast(e, logits, rows, m.experts, "fp32")
    if not m.correction_bias:
        return _softmax(e, logits, rows, m.experts)
    chances = e.elementwise("sigmoid", (logits,), rows, m.experts, "fp32")
    chances = e.elementwise("add", (chances,), rows, m.experts, "fp32")
    if not m.shared_width:
        return chances
    return _of_the_best_groups(e, m, chances, rows)


def _of_the_best_groups(e: Emitter, m: Mixture, chances: Index, rows: Dim) -> Index:
    """The chances of experts in the best groups, the rest masked (DeepSeek V3)."""
    best = _topk(e, chances, rows, m.experts, 2)
    best = _topk(e, _summed(e, best, rows, 2), rows, 1, 1)
    mask = e.activation(rows, 1)
    e.op("fill", (), (mask,), name="zeros_like", elements=rows)
    attrs = {"accumulate": False, "in_place": True}
    e.op("scatter", (best,), (mask,), name="scatter", elements=rows, attrs=attrs)
    code.cast(e, mask, rows, m.experts, "bool")
    e.elementwise("bitwise", (mask,), rows, m.experts, "bool")
    return e.elementwise("masked_fill", (chances,), rows, m.experts, "fp32")


def weighted(e: Emitter, m: Mixture, rows: Dim) -> Index:
    """Weights of the chosen experts of each token."""
    weights = e.activation(rows, m.top_k)
    if m.chosen_first:
        return _softmax(e, weights, rows, m.top_k)
    if m.correction_bias:
        weights = _taken(e, weights, weights, rows, m.top_k)
    weights = e.elementwise("div", (weights, _summed(e, weights, rows, m.top_k)), rows, m.top_k)
    return e.elementwise("mul", (weights,), rows, m.top_k) if m.correction_bias else weights


def before_experts(e: Emitter, m: Mixture, x: Index, rows: Dim, width: int) -> Index:
    """Weights of the chosen experts, where each expert's tokens begin, and the sorted tokens."""
    chosen = times(rows, m.top_k)
    weights = weighted(e, m, rows)
    order, places = e.tensor((chosen,), "int64"), e.tensor((chosen,), "int64")
    attrs = {"function": "sort"}
    e.op("sort", (order,), (order, places), name="sort", elements=chosen, rows=1, attrs=attrs)
    e.elementwise("floor_divide", (places,), chosen, 1, "int64")
    tokens = _taken(e, x, places, chosen, width)
    _taken(e, weights, places, chosen, 1)
    code.cast(e, order, chosen, 1, "int32")
    counts = e.tensor((m.experts,), "int32")
    e.op("scatter", (order,), (counts,), name="histc", elements=chosen, attrs={"accumulate": True})
    attrs = {"function": "cumsum"}
    e.op("cumulative", (counts,), (counts,), name="cumsum", elements=m.experts, rows=1, attrs=attrs)
    return tokens


def after_experts(e: Emitter, m: Mixture, x: Index, rows: Dim, width: int) -> Index:
    """Results weighted, put back into the order of the tokens and added up."""
    chosen = times(rows, m.top_k)
    x = e.elementwise("mul", (x,), chosen, width)
    places = e.tensor((chosen,), "int64")
    e.op("fill", (), (places,), name="arange", elements=chosen)
    e.op(
        "scatter",
        (places, places),
        (places,),
        name="index_put",
        elements=chosen,
        attrs={"accumulate": False, "in_place": True},
    )
    taken = _taken(e, x, places, chosen, width)
    out = e.activation(rows, width)
    n = times(chosen, width)
    attrs = {"function": "sum"}
    e.op(
        "reduction",
        (taken,),
        (out,),
        name="sum",
        elements=n,
        outputs=times(rows, width),
        attrs=attrs,
    )
    return out


def _taken(e: Emitter, x: Index, places: Index, rows: Dim, width: int) -> Index:
    out = e.activation(rows, width)
    e.op("gather", (x, places), (out,), name="index", elements=times(rows, width))
    return out


def with_bias(e: Emitter, x: Index, bias: Index, rows: Dim, width: int) -> Index:
    """The results of experts with the bias of each token's own."""
    return e.elementwise("add", (x, _taken(e, bias, bias, rows, width)), rows, width)


def _softmax(e: Emitter, x: Index, rows: Dim, width: int) -> Index:
    out = e.activation(rows, width)
    attrs = {"function": "softmax"}
    e.op("softmax", (x,), (out,), elements=times(rows, width), rows=rows, attrs=attrs)
    return out


def _topk(e: Emitter, x: Index, rows: Dim, width: int, k: int) -> Index:
    out = e.activation(rows, k)
    attrs = {"function": "topk"}
    e.op(
        "sort", (x,), (out,), name="topk", elements=times(rows, width), rows=rows, k=k, attrs=attrs
    )
    return out


def _summed(e: Emitter, x: Index, rows: Dim, width: int) -> Index:
    out = e.activation(rows, 1)
    attrs = {"function": "sum"}
    n = times(rows, width)
    e.op("reduction", (x,), (out,), name="sum", elements=n, outputs=rows, attrs=attrs)
    return out
