"""Feed-forward networks: dense, and mixtures of experts."""

from __future__ import annotations

from gambrel.llm.blocks import code, code_experts
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.linear import linear, product_attrs
from gambrel.llm.blocks.norms import add
from gambrel.llm.dims import plus, share, times
from gambrel.llm.spec import Mixture, Mlp
from gambrel.workload import Dim

#: Activations that a gate multiplies, as one kernel: activation(a) * b.
_GATED = {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh"}


def mlp(e: Emitter, m: Mlp, x: Index, rows: Dim, hidden: int) -> Index:
    """Two or three projections; the activation and the gate's product are one kernel."""
    if m.gated and m.fused:
        up = linear(e, x, "gate_up_proj", rows, hidden, 2 * m.width, bias=m.bias)
        up = _adapted(e, m, x, up, rows, hidden)
        inner = _gated(e, m, (up,), rows)
    elif m.gated:
        gate = linear(e, x, "gate_proj", rows, hidden, m.width, bias=m.bias)
        up = linear(e, x, "up_proj", rows, hidden, m.width, bias=m.bias)
        inner = _gated(e, m, (gate, up), rows)
    elif e.as_code:
        up = linear(e, x, "up_proj", rows, hidden, m.width, bias=m.bias)
        inner = code.activated(e, m.activation, m.written, up, rows, m.width)
    else:
        up = linear(e, x, "up_proj", rows, hidden, m.width, bias=m.bias)
        inner = e.elementwise(m.activation, (up,), rows, m.width)
    return linear(e, inner, "down_proj", rows, m.width, hidden, bias=m.bias)


def _gated(e: Emitter, m: Mlp, parts: tuple[Index, ...], rows: Dim) -> Index:
    """The activation of the gate, times the other half; of one matrix or of two."""
    if e.as_code:
        first = parts[0] if len(parts) == 2 else e.view(parts[0], (rows, m.width))
        second = parts[-1] if len(parts) == 2 else e.view(parts[0], (rows, m.width))
        return code.gate(e, m.activation, (first, second), rows, m.width)
    return e.elementwise(_GATED.get(m.activation, "swiglu"), parts, rows, m.width)


def _adapted(e: Emitter, m: Mlp, x: Index, up: Index, rows: Dim, width: int) -> Index:
    """With the low-rank addition, if there is one."""
    if not m.adapter_rank:
        return up
    with e.each_use():
        low = linear(e, x, "adapter_in", rows, width, m.adapter_rank)
        high = linear(e, low, "adapter_out", rows, m.adapter_rank, 2 * m.width)
    return add(e, up, high, rows, 2 * m.width)


def mixture(e: Emitter, m: Mixture, x: Index, rows: Dim, hidden: int) -> Index:
    """Router, the experts' two grouped products, and what every token passes besides.

    Tokens are sorted by expert, activated, weighted and added up inside the grouped kernels.
    Latent experts work at a width of their own, between two projections that every token passes.
    """
    held = m.experts if m.held is None else m.held
    offsets = _route(e, m, x, rows, hidden, held)
    if m.latent:
        linear(e, x, "latent_in_proj", rows, hidden, m.latent, bias=m.latent_bias)
    width = m.latent or hidden
    out = _experts(e, m, x, (rows, width), offsets)
    out = e.view(out, (rows, width))
    if m.latent:
        out = linear(e, out, "latent_out_proj", rows, width, hidden, bias=m.latent_bias)
    if m.shared_width:
        with e.inside("shared_expert"):
            shared = mlp(
                e,
                Mlp(
                    width=m.shared_width,
                    gated=m.gated,
                    activation=m.activation,
                    fused=m.shared_fused,
                ),
                x,
                rows,
                hidden,
            )
        if m.shared_gate:
            gate = linear(e, x, "shared_expert_gate", rows, hidden, 1, part="router")
            if e.as_code:
                gate = e.elementwise("sigmoid", (gate,), rows, 1)
                shared = e.elementwise("mul", (gate, shared), rows, hidden)
        out = add(e, out, shared, rows, hidden)
    return out


def _experts(e: Emitter, m: Mixture, x: Index, sizes: tuple[Dim, int], offsets: Index) -> Index:
    """The two grouped products and what lies around them."""
    rows, width = sizes
    held = m.experts if m.held is None else m.held
    routed = share(times(rows, m.top_k, m.spread), held, m.experts)
    first, inner = ("gate_up_proj", 2 * m.width) if m.gated else ("up_proj", m.width)
    with e.inside("experts"):
        if not e.as_code:
            chosen = e.tensor((routed, width), e.tensors[x].dtype)  # rows sorted by expert
            up = _grouped(e, m, chosen, first, routed, width, inner, offsets)
            down = e.view(up, (routed, m.width))
            return _grouped(e, m, down, "down_proj", routed, m.width, width, offsets)
        chosen = code_experts.before_experts(e, m, x, rows, width)
        up = _grouped(e, m, chosen, first, routed, width, inner, offsets)
        down = e.view(up, (routed, m.width))
        if m.gated and not m.written:
            down = code.gate(e, m.activation, (down, down), routed, m.width)
        else:
            down = code.activated(e, m.activation, m.written, down, routed, m.width)
        out = _grouped(e, m, down, "down_proj", routed, m.width, width, offsets)
        return code_experts.after_experts(e, m, out, rows, width)


def _route(e: Emitter, m: Mixture, x: Index, rows: Dim, hidden: int, held: int) -> Index:
    """Router, scores and choice; returns where each expert's rows begin, which its kernels read."""
    logits = linear(e, x, "router", rows, hidden, m.experts, bias=m.router_bias, part="router")
    if e.as_code:
        scores = code_experts.scored(e, m, logits, rows)
    else:
        scores = e.activation(rows, m.experts)
        e.op(
            "softmax",
            (logits,),
            (scores,),
            elements=times(rows, m.experts),
            rows=rows,
            attrs={"function": "softmax"},
        )
    weights, chosen = e.activation(rows, m.top_k), e.activation(rows, m.top_k, "int32")
    offsets = e.tensor((held,), "int32", name="offsets")
    inputs = [scores]
    if m.correction_bias:
        inputs.append(e.buffer("correction_bias", (m.experts,), "fp32"))
    e.op(
        "sort",
        tuple(inputs),
        (weights, chosen, offsets),
        name="topk",
        elements=times(rows, m.experts),
        rows=rows,
        k=m.top_k,
        attrs={"function": "topk"},
    )
    return offsets


def _grouped(
    e: Emitter, m: Mixture, x: Index, name: str, rows: Dim, k: int, n: int, offsets: Index
) -> Index:
    p = e.precisions
    held = m.experts if m.held is None else m.held
    with e.inside(name):
        inputs = [x, e.weight("weight", (held, k, n), p.of("experts"))]
        if p.scales(k, n) and p.experts is None:
            inputs.append(e.buffer("scales", (held, p.scales(k, n)), p.scale))
        if m.bias:
            inputs.append(e.weight("bias", (held, n)))
        attrs = product_attrs(e, x, p.of("experts"), "experts")
        if not e.as_code:
            attrs |= _epilogue(m, first=name != "down_proj")
        if m.bias:
            attrs["bias"] = True
        if len(inputs) > 2:
            attrs["expert_inputs"] = len(inputs) - 1
        if e.routing_skew:
            attrs["routing_skew"] = e.routing_skew
        inputs.append(offsets)
        out = e.activation(rows, n)
        # Of a device's experts the same share is touched as of all, however many it holds.
        e.op(
            "grouped_matmul",
            tuple(inputs),
            (out,),
            rows=rows,
            n=n,
            k=k,
            experts=m.experts,
            top_k=m.top_k,
            tokens=times(plus(*(group.tokens for group in e.groups)), m.spread),
            attrs=attrs,
        )
        if e.as_code and m.bias:
            out = code_experts.with_bias(e, out, e.weight("bias", (held, n)), rows, n)
    return out


def _epilogue(m: Mixture, *, first: bool) -> dict[str, bool | int | float | str]:
    """What the grouped kernels do to their results before they write them."""
    if not first:
        return {"combine": True}
    function = _GATED.get(m.activation, "swiglu") if m.gated else m.activation
    return {"activation": function, "gated": m.gated}
