"""Reductions, running sums, sorting, suppression of boxes."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten import Described
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Sizes

#: ONNX operator → function of the neutral reduction.
FUNCTIONS: Final[dict[str, str]] = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "amax",
    "ReduceMin": "amin",
    "ReduceProd": "prod",
    "ReduceL1": "norm_1",
    "ReduceL2": "norm",
    "ReduceSumSquare": "sum_of_squares",
    "ReduceLogSumExp": "logsumexp",
    "ArgMax": "argmax",
    "ArgMin": "argmin",
    "GlobalAveragePool": "mean",
    "GlobalMaxPool": "max",
    "GlobalLpPool": "norm",
    "com.microsoft::QLinearGlobalAveragePool": "mean",
}


def reduction(op: NodeOperands) -> Lowered:
    """As many elements as the input has, as many results as the output has."""
    x, out = op.x(), op.out
    if x.numel == out.numel and op.step.op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"):
        return op.described("view")
    sizes: Sizes = {"elements": x.numel, "outputs": out.numel}
    return op.described("reduction", sizes, {"function": FUNCTIONS[op.step.op]}, inputs=(x,))


@lowers("ReduceLogSum")
def logarithm_of_sum(op: NodeOperands) -> Lowered:
    """A sum, its logarithm."""
    x, out = op.x(), op.out
    between = op.temporary(out.shape, out.dtype)
    sizes: Sizes = {"elements": x.numel, "outputs": out.numel}
    return [
        op.described("reduction", sizes, {"function": "sum"}, inputs=(x,), outputs=(between,)),
        op.described(
            "elementwise", {"elements": out.numel}, {"function": "log"}, inputs=(between,)
        ),
    ]


@lowers("CumSum", "CumProd")
def cumulative(op: NodeOperands) -> Lowered:
    """A running result along every line."""
    x = op.x()
    axis = op.step.x(1).scalar
    if axis is None:
        raise ValueError("an axis that depends on data")
    rows = x.numel // max(x.shape[int(axis)], 1)
    function = "cumsum" if op.step.op == "CumSum" else "cumprod"
    sizes: Sizes = {"elements": x.numel, "rows": rows}
    return op.described("cumulative", sizes, {"function": function}, inputs=(x,))


@lowers("TopK")
def topk(op: NodeOperands) -> Lowered:
    """x, k: the k largest of every line."""
    x = op.x()
    axis = int(op.attr("axis", -1))
    sizes: Sizes = {
        "elements": x.numel,
        "rows": x.numel // max(x.shape[axis], 1),
        "k": op.out.shape[axis],
    }
    return op.described("sort", sizes, {"function": "topk"}, inputs=(x,))


@lowers("Unique")
def unique(op: NodeOperands) -> Lowered:
    """All elements sorted, neighbours compared."""
    return op.described("sort", {"elements": op.x().numel, "rows": 1}, {"function": "unique"})


@lowers("NonMaxSuppression")
def suppression(op: NodeOperands) -> Lowered:
    """Boxes (batch, n, 4), scores (batch, classes, n): each class of each image by itself."""
    boxes, scores = op.x(0), op.x(1)
    op.times = scores.shape[0] * scores.shape[1]
    inputs = (boxes, scores)
    return op.described("nms", {"boxes": boxes.shape[1]}, inputs=inputs)


@lowers("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def loss(op: NodeOperands) -> Lowered:
    """scores, labels, weights."""
    x, labels = op.x(0), op.x(1)
    function = "cross_entropy" if op.step.op.startswith("Softmax") else "nll"
    sizes: Sizes = {"elements": x.numel, "rows": labels.numel}
    return op.described("loss", sizes, {"function": function})


def reduced(op: NodeOperands, function: str) -> Described:
    """A reduction of the first input by another function."""
    sizes: Sizes = {"elements": op.x().numel, "outputs": op.out.numel}
    return op.described("reduction", sizes, {"function": function}, inputs=(op.x(),))


for _op in FUNCTIONS:
    lowers(_op)(reduction)
