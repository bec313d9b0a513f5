"""Normalizations and softmax."""

from __future__ import annotations

from math import prod

from gambrel.capture.aten import Described, TensorArg
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes

#: A normalization, as patterns find it: x, then its parameters.
NORMALIZATION = "xla::normalization"


@lowers(NORMALIZATION)
def written_out(op: NodeOperands) -> Lowered:
    """As many groups as statistics."""
    x = op.x()
    affine, statistics = bool(op.attr("affine")), bool(op.attr("statistics"))
    attrs = _attrs(str(op.attr("function")), affine=affine, statistics=statistics)
    sizes: Sizes = {"elements": x.numel, "groups": int(op.attr("groups"))}
    return op.described("normalization", sizes, attrs)


@lowers("BatchNormalization")
def batch_norm(op: NodeOperands) -> Lowered:
    """x, scale, bias, mean, var: stored statistics unless it trains."""
    training = bool(op.attr("training_mode", 0)) or op.attr("is_test") == 0
    inputs = (op.x(), *(op.optional(i) for i in range(1, 5)))
    attrs = _attrs("batch_norm", affine=True, statistics=training)
    sizes: Sizes = {"elements": op.x().numel, "groups": op.x(1).numel}
    outputs = op.results if training else op.results[:1]
    return op.described("normalization", sizes, attrs, inputs=inputs, outputs=outputs)


@lowers("LayerNormalization", "RMSNormalization")
def last_dimensions(op: NodeOperands) -> Lowered:
    """x, scale, bias: over the dimensions from an axis on."""
    x = op.x()
    axis = int(op.attr("axis", -1)) % len(x.shape)
    function = "layer_norm" if op.step.op.startswith("Layer") else "rms_norm"
    sizes: Sizes = {"elements": x.numel, "groups": prod(x.shape[:axis])}
    affine = op.optional(1) is not None
    return op.described("normalization", sizes, _attrs(function, affine=affine))


@lowers("SimplifiedLayerNormalization", "com.microsoft::SimplifiedLayerNormalization")
def simplified(op: NodeOperands) -> Lowered:
    """RMS norm under the name that onnxruntime gave it."""
    x = op.x()
    axis = int(op.attr("axis", -1)) % len(x.shape)
    sizes: Sizes = {"elements": x.numel, "groups": prod(x.shape[:axis])}
    return op.described("normalization", sizes, _attrs("rms_norm", affine=True))


@lowers("com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization")
def with_residual(op: NodeOperands) -> Lowered:
    """x, skip, gamma, (beta,) bias: the sum of the first two is normalized, and handed out."""
    x = op.x()
    function = "rms_norm" if "Simplified" in op.step.op else "layer_norm"
    attrs = {**_attrs(function, affine=True), "residual": True}
    sizes: Sizes = {"elements": x.numel, "groups": x.numel // x.shape[-1]}
    outputs = (op.outputs[0], op.outputs[3] if len(op.outputs) > 3 else None)
    return op.described("normalization", sizes, attrs, outputs=outputs)


@lowers("com.microsoft::EmbedLayerNormalization")
def embedded(op: NodeOperands) -> Lowered:
    """ids, segments, words, positions, segment table, gamma, beta: three look-ups, two sums."""
    out = op.results[0]
    rows, width = prod(out.shape[:-1]), out.shape[-1]
    tables = [(op.x(2), op.x(0)), (op.x(3), op.optional(8)), (op.optional(4), op.optional(1))]
    found: list[Described] = []
    parts: list[TensorArg] = []
    for table, indices in tables:
        if table is None:
            continue
        parts.append(op.temporary(out.shape, out.dtype))
        sizes: Sizes = {"rows": rows, "width": width, "table_rows": table.shape[0]}
        found.append(
            op.described(
                "embedding",
                sizes,
                {"mode": "gather"},
                inputs=(table, indices),
                outputs=(parts[-1],),
            )
        )
    total = op.temporary(out.shape, out.dtype)
    count: Sizes = {"elements": out.numel * (len(parts) - 1)}
    add: Attributes = {"function": "add"}
    found.append(op.described("elementwise", count, add, inputs=tuple(parts), outputs=(total,)))
    norm: Sizes = {"elements": out.numel, "groups": rows}
    inputs = (total, op.optional(5), op.optional(6))
    attrs = _attrs("layer_norm", affine=True)
    found.append(op.described("normalization", norm, attrs, inputs=inputs, outputs=(out,)))
    return found


@lowers("GroupNormalization", "com.microsoft::GroupNorm")
def group_norm(op: NodeOperands) -> Lowered:
    """x, scale, bias."""
    x = op.x()
    groups = int(op.attr("num_groups", op.attr("groups", 1)))
    sizes: Sizes = {"elements": x.numel, "groups": x.shape[0] * groups}
    found = op.described("normalization", sizes, _attrs("group_norm", affine=True))
    if not op.attr("activation"):
        return found
    between = op.temporary(x.shape, x.dtype)
    first = Described(found.kind, found.sizes, found.attrs, found.inputs, (between,))
    bend: Attributes = {"function": "silu"}
    return [first, op.described("elementwise", {"elements": x.numel}, bend, inputs=(between,))]


@lowers("InstanceNormalization")
def instance_norm(op: NodeOperands) -> Lowered:
    """x, scale, bias: a statistic for each channel of each sample."""
    x = op.x()
    sizes: Sizes = {"elements": x.numel, "groups": x.shape[0] * x.shape[1]}
    return op.described("normalization", sizes, _attrs("instance_norm", affine=True))


@lowers("LpNormalization", "ai.onnx.ml::Normalizer")
def lp_norm(op: NodeOperands) -> Lowered:
    """Every line divided by its length: squares, sums, a root, a product a value."""
    x = op.x()
    axis = int(op.attr("axis", -1)) % len(x.shape)
    sizes: Sizes = {"elements": x.numel, "groups": x.numel // max(x.shape[axis], 1)}
    return op.described("normalization", sizes, _attrs("rms_norm", affine=False))


@lowers("LRN")
def local_response(op: NodeOperands) -> Lowered:
    """X / (k + a·mean of squares of neighbouring channels)^b, as torch runs it op by op."""
    x = op.x()
    n: Sizes = {"elements": x.numel}
    made = [op.temporary(x.shape, x.dtype) for _ in range(4)]
    window: Sizes = {"outputs": x.numel, "window": int(op.attr("size"))}

    def each(function: str, inputs: tuple[TensorArg, ...], out: TensorArg) -> Described:
        return op.described("elementwise", n, {"function": function}, inputs=inputs, outputs=(out,))

    pooled = op.described(
        "pooling", window, {"function": "avg"}, inputs=(made[0],), outputs=(made[1],)
    )
    return [
        each("square", (x,), made[0]),
        pooled,
        each("add_scaled", (made[1],), made[2]),
        each("pow", (made[2],), made[3]),
        each("div", (x, made[3]), op.out),
    ]


@lowers("Softmax", "LogSoftmax")
def softmax(op: NodeOperands) -> Lowered:
    """Along an axis; before opset 13 over all dimensions from it on."""
    x = op.x()
    function = "log_softmax" if op.step.op.startswith("Log") else "softmax"
    if op.step.version >= 13:
        axis = int(op.attr("axis", -1)) % len(x.shape)
        rows = x.numel // max(x.shape[axis], 1)
    else:
        axis = int(op.attr("axis", 1))
        rows = prod(x.shape[: axis % len(x.shape)] if axis < len(x.shape) else x.shape)
    return op.described("softmax", {"elements": x.numel, "rows": rows}, {"function": function})


@lowers("Hardmax")
def hardmax(op: NodeOperands) -> Lowered:
    """The largest of each line found, a one written there."""
    x = op.x()
    axis = int(op.attr("axis", -1)) % len(x.shape)
    rows = x.numel // max(x.shape[axis], 1)
    return op.described("reduction", {"elements": x.numel, "outputs": rows}, {"function": "argmax"})


def _attrs(function: str, *, affine: bool, statistics: bool = True) -> Attributes:
    return {"function": function, "statistics": statistics, "affine": affine}
