"""Attention: the operator of ONNX, those of onnxruntime, and what patterns find."""

from __future__ import annotations

from typing import Any, Final

from gambrel.capture.aten import Described, TensorArg
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes

#: One call as formats write it: query, key, value, mask, tokens before width.
SCALED = "gambrel::ScaledAttention"
#: As patterns and the names of kernels give it: query, key, value, mask, in any memory order.
ATTENTION = "xla::attention"
#: Fused attention writes the heads of a token side by side: to merge them is a view.
TOKENS_FIRST: Final = (0, 2, 1, 3)
_SIZES: Final = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "v_head_dim")


def sizes_of(*sizes: int) -> dict[str, Any]:
    """Sizes by name: batches, heads, heads of keys, queries, keys, widths of keys and values."""
    return dict(zip(_SIZES, sizes, strict=True))


@lowers(SCALED)
def scaled(op: NodeOperands) -> Lowered:
    """query, key, value (batch, heads, tokens, width), mask; rank 3 has no heads of their own."""
    found = op.aten(
        "aten.scaled_dot_product_attention",
        *(op.x(i) for i in range(3)),
        op.optional(3),
        0.0,
        False,
    )
    sizes, attrs = _with_pairs(op, found.sizes, found.attrs)
    return Described(found.kind, sizes, attrs, found.inputs, found.outputs)


@lowers(ATTENTION)
def attention(op: NodeOperands) -> Lowered:
    """Sizes stand in the step: operands lie in any order."""
    mask = op.optional(3) if op.step.input(3) is not None else None
    sizes, attrs = described_sizes(op, mask is not None)
    inputs = (op.x(0), op.x(1), op.x(2), mask)
    return op.described("attention", sizes, attrs, inputs=inputs)


def described_sizes(op: NodeOperands, masked: bool) -> tuple[Sizes, Attributes]:
    """Sizes and attributes that stand in a step by the names that the cost formula has."""
    sizes = sizes_of(*(int(op.attr(name)) for name in _SIZES))
    return _with_pairs(op, sizes, {"mask": masked, "dropout": False})


def _with_pairs(op: NodeOperands, sizes: Sizes, attrs: Attributes) -> tuple[Sizes, Attributes]:
    """Sizes and attributes with what the masks of a step leave."""
    causal = bool(op.attr("causal"))
    attrs = {**attrs, "causal": causal}
    if causal:
        attrs["causal_alignment"] = str(op.attr("alignment", "lower_right"))
    window = op.attr("window")
    return {**sizes, **({"window": int(window)} if window else {})}, attrs


@lowers("Attention", "ai.onnx.preview::FlexAttention")
def standard(op: NodeOperands) -> Lowered:
    """Q, K, V, mask, past_key, past_value, lengths; four dimensions, or three with heads inside."""
    q, k, v = (op.x(i) for i in range(3))
    heads, shared = op.attr("q_num_heads"), op.attr("kv_num_heads")
    past = op.optional(4) if op.step.op == "Attention" else None
    before = past.shape[2] if past is not None else 0
    if len(q.shape) == 4:
        heads, shared = q.shape[1], k.shape[1]
        tokens, keys, width, out = q.shape[2], k.shape[2], q.shape[3], v.shape[3]
    else:
        tokens, keys = q.shape[1], k.shape[1]
        width, out = q.shape[2] // heads, v.shape[2] // shared
    shape = (q.shape[0], heads, shared, tokens, before + keys, width, out)
    if op.step.op != "Attention":
        return op.described("attention", sizes_of(*shape), _attrs(False, False))
    # Without a cache the first query sees the first key, with one it stands behind the cached ones.
    attrs = _attrs(bool(op.attr("is_causal")), op.optional(3) is not None, before > 0)
    sizes = sizes_of(*shape)
    left = int(op.attr("left_window_size", -1))
    if left >= 0 and attrs["causal"]:
        sizes["window"] = left + 1
    cached = _appended(op, (k, v), (past, op.optional(5)), slice(1, 3))
    keys_values = tuple(d.outputs[0] for d in cached) or (k, v)
    inputs = (q, *keys_values, op.optional(3))
    return [*cached, op.described("attention", sizes, attrs, inputs=inputs, outputs=op.results[:1])]


@lowers("com.microsoft::Attention")
def packed(op: NodeOperands) -> Lowered:
    """x, weight, bias, mask, past, bias of scores: one projection, then attention."""
    x, weight, bias = op.x(0), op.x(1), op.optional(2)
    heads = int(op.attr("num_heads"))
    batch, tokens, width = x.shape
    own = op.attr("qkv_hidden_sizes") or [weight.shape[1] // 3] * 3
    projected = op.temporary((batch, tokens, sum(own)), x.dtype)
    product: Sizes = {"b": 1, "m": batch * tokens, "n": sum(own), "k": width}
    first = op.described(
        "matmul",
        product,
        {"bias": bias is not None},
        inputs=(x, weight, bias),
        outputs=(projected,),
    )
    past = op.optional(4)
    before = past.shape[3] if past is not None else 0
    sizes = sizes_of(batch, heads, heads, tokens, before + tokens, own[0] // heads, own[2] // heads)
    causal = bool(op.attr("unidirectional"))
    masks = (op.optional(3), op.optional(5))
    attrs = _attrs(causal, any(m is not None for m in masks), before > 0)
    inputs = (projected, past, *masks)
    return [first, op.described("attention", sizes, attrs, inputs=inputs)]


@lowers("com.microsoft::MultiHeadAttention")
def multi_head(op: NodeOperands) -> Lowered:
    """query, key, value, bias, key padding, bias of scores, past key, past value."""
    q, k, v = op.x(0), op.optional(1), op.optional(2)
    heads = int(op.attr("num_heads"))
    batch, tokens = q.shape[:2]
    past = op.optional(6)
    before = past.shape[2] if past is not None else 0
    width = q.shape[-1] if len(q.shape) == 5 else q.shape[-1] // heads
    keys = tokens if k is None else k.shape[-2] if len(k.shape) < 5 else k.shape[1]
    out = op.out.shape[-1] // heads
    sizes = sizes_of(batch, heads, heads, tokens, before + keys, width, out)
    masks = (op.optional(4), op.optional(5))
    attrs = _attrs(bool(op.attr("unidirectional")), any(m is not None for m in masks), before > 0)
    found: list[Described] = []
    bias = op.optional(3)
    if bias is not None:
        total = q.numel + sum(t.numel for t in (k, v) if t is not None)
        between = op.temporary(q.shape, q.dtype)
        found.append(
            op.described(
                "elementwise",
                {"elements": total},
                {"function": "add"},
                inputs=(q, bias),
                outputs=(between,),
            )
        )
        q = between
    cached = (
        [] if k is None or v is None else _appended(op, (k, v), (past, op.optional(7)), slice(1, 3))
    )
    keys_values = tuple(d.outputs[0] for d in cached) or (k, v)
    inputs = (q, *keys_values, *masks)
    last = op.described("attention", sizes, attrs, inputs=inputs, outputs=op.results[:1])
    return [*found, *cached, last]


@lowers("com.microsoft::GroupQueryAttention")
def grouped_query(op: NodeOperands) -> Lowered:
    """Query (or all three packed), key, value, past key and value, lengths, cos, sin."""
    q, k, v = op.x(0), op.optional(1), op.optional(2)
    heads, shared = int(op.attr("num_heads")), int(op.attr("kv_num_heads"))
    batch, tokens = q.shape[:2]
    width = q.shape[2] // (heads + 2 * shared) if k is None else q.shape[2] // heads
    past = op.optional(3)
    before = past.shape[2] if past is not None else 0
    sizes = sizes_of(batch, heads, shared, tokens, before + tokens, width, width)
    window = int(op.attr("local_window_size", -1))
    if window > 0:
        sizes["window"] = window
    attrs = _attrs(True, False, True)
    if op.attr("do_rotary"):
        cos = op.x(7)
        attrs["rotary_dim"] = 2 * cos.shape[-1]
    cached = (
        [] if k is None or v is None else _appended(op, (k, v), (past, op.optional(4)), slice(1, 3))
    )
    keys_values = tuple(d.outputs[0] for d in cached) or (k, v, past, op.optional(4))
    inputs = (q, *keys_values, op.optional(7), op.optional(8))
    return [*cached, op.described("attention", sizes, attrs, inputs=inputs, outputs=op.results[:1])]


@lowers("LinearAttention")
def linear(op: NodeOperands) -> Lowered:
    """query, key, value, state, decay, beta: a state of width of key by width of value a head."""
    q, k, v = (op.x(i) for i in range(3))
    heads, shared = int(op.attr("q_num_heads")), int(op.attr("kv_num_heads"))
    sizes: Sizes = {
        "batch": q.shape[0],
        "seq": q.shape[1],
        "heads": heads,
        "key_dim": k.shape[2] // shared,
        "value_dim": v.shape[2] // shared,
    }
    rule = op.attr("update_rule", "gated_delta")
    return op.described("delta_scan", sizes, {"correct": "delta" in rule, "rates": False})


def _appended(
    op: NodeOperands,
    new: tuple[TensorArg, TensorArg],
    past: tuple[TensorArg | None, TensorArg | None],
    places: slice,
) -> list[Described]:
    """The copies that put new keys and values behind the cached ones; none without a cache."""
    if any(t is None for t in past):
        return []
    results = list(op.outputs[places])
    found = []
    for part, held, out in zip(new, past, results + [None] * (2 - len(results)), strict=True):
        if held is None:
            continue
        if out is None:
            tokens = part.shape[-2]
            shape = (*held.shape[:2], held.shape[2] + tokens, held.shape[3])
            out = op.temporary(shape, part.dtype)
        copy: Attributes = {"function": "cat"}
        found.append(op.described("copy", {}, copy, inputs=(held, part), outputs=(out,)))
    return found


def _attrs(causal: bool, mask: bool, cached: bool = False) -> Attributes:
    found: Attributes = {"causal": causal, "mask": mask}
    if causal:
        found["causal_alignment"] = "lower_right" if cached else "upper_left"
    return found
