"""Mixers with a state instead of a cache: Mamba 1 and 2, gated delta rule, short convolutions."""

from __future__ import annotations

from gambrel.llm.blocks import code
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.linear import linear
from gambrel.llm.blocks.norms import fused_norm, norm
from gambrel.llm.dims import is_number, times
from gambrel.llm.spec import LinearAttention, SelectiveScan, ShortConvolution, StateSpaceDual
from gambrel.llm.step import SequenceGroup
from gambrel.workload import Dim


def selective_scan(e: Emitter, m: SelectiveScan, x: Index, rows: Dim, hidden: int) -> Index:
    """Mamba 1: in, convolution, step sizes and B, C from the token, scan, out."""
    wide = linear(e, x, "in_proj", rows, hidden, 2 * m.channels, bias=m.bias)
    inner = e.view(wide, (rows, m.channels))
    gate = e.view(wide, (rows, m.channels), times(rows, m.channels))
    inner = _convolution(e, inner, rows, m.channels, m.conv_kernel, m.conv_bias)
    chosen = linear(e, inner, "x_proj", rows, m.channels, m.dt_rank + 2 * m.state)
    if m.inner_norms:
        for name, width in (("dt_norm", m.dt_rank), ("b_norm", m.state), ("c_norm", m.state)):
            fused_norm(e, chosen, name, rows, width, groups=1, parameters=width)
    dt = linear(
        e,
        e.view(chosen, (rows, m.dt_rank)),
        "dt_proj",
        rows,
        m.dt_rank,
        m.channels,
        part="activations",
    )
    bias = e.weight("dt_proj.bias", (m.channels,))
    decay = e.weight("a_log", (m.channels, m.state), "fp32")
    skip = e.weight("d", (m.channels,), "fp32")
    out = e.activation(rows, m.channels)
    for group, start in e.split():
        state = e.state("state", (group.count, m.channels, m.state))
        parts = [
            e.view(t, (group.tokens, n), times(start, n))
            for t, n in ((inner, m.channels), (dt, m.channels), (gate, m.channels))
        ]
        bc = e.view(chosen, (group.tokens, 2 * m.state), m.dt_rank)
        result = e.view(out, (group.tokens, m.channels), times(start, m.channels))
        e.op(
            "selective_scan",
            (parts[0], parts[1], decay, bc, skip, parts[2], bias, *_read(group, state)),
            (result, state),
            batch=group.count,
            seq=group.new_tokens,
            channels=m.channels,
            state=m.state,
            attrs={"skip": True, "gate": True, "softplus": True},
        )
    return linear(e, out, "out_proj", rows, m.channels, hidden, bias=m.bias)


def state_space_dual(e: Emitter, m: StateSpaceDual, x: Index, rows: Dim, hidden: int) -> Index:
    """Mamba 2: one projection in, convolution over x, B and C, scan in chunks, norm, out."""
    width = m.channels + m.conv_channels + m.heads
    wide = linear(e, x, "in_proj", rows, hidden, width, bias=m.bias)
    gate = e.view(wide, (rows, m.channels))
    mixed = e.view(wide, (rows, m.conv_channels), times(rows, m.channels))
    mixed = _convolution(e, mixed, rows, m.conv_channels, m.conv_kernel, m.conv_bias)
    small = [e.weight(name, (m.heads,), "fp32") for name in ("a_log", "d", "dt_bias")]
    out = e.activation(rows, m.channels)
    for group, start in e.split():
        state = e.state("state", (group.count, m.heads, m.head_dim, m.state))
        tokens = group.tokens
        part = e.view(mixed, (tokens, m.conv_channels), times(start, m.conv_channels))
        dt = e.view(wide, (tokens, m.heads), times(rows, m.channels + m.conv_channels))
        result = e.view(out, (tokens, m.channels), times(start, m.channels))
        e.op(
            "ssd_scan",
            (part, dt, *small, *_read(group, state)),
            (result, state),
            batch=group.count,
            seq=group.new_tokens,
            heads=m.heads,
            head_dim=m.head_dim,
            state=m.state,
            groups=m.groups,
            chunk=m.chunk,
            attrs={"skip": True},
        )
    out = e.elementwise("glu", (out, gate), rows, m.channels)
    if m.gated_norm:
        out = norm(e, out, "norm", rows, m.channels, "rms_norm", groups=1)
    return linear(e, out, "out_proj", rows, m.channels, hidden, bias=m.bias)


def linear_attention(e: Emitter, m: LinearAttention, x: Index, rows: Dim, hidden: int) -> Index:
    """Gated delta rule: projections, convolution, a state of keys times values, norm, out."""
    values = m.value_heads * m.value_dim
    wide = linear(e, x, "in_proj_qkvz", rows, hidden, m.conv_channels + values)
    rates = linear(e, x, "in_proj_ba", rows, hidden, 2 * m.value_heads)
    gate = e.view(wide, (rows, values), times(rows, m.conv_channels))
    if e.as_code:
        code.before_delta_rule(e, m, rows, (wide, rates))
    mixed = _convolution(
        e, e.view(wide, (rows, m.conv_channels)), rows, m.conv_channels, m.conv_kernel, False
    )
    if e.as_code:
        mixed = e.elementwise("silu", (mixed,), rows, m.conv_channels)
    small = [e.weight(name, (m.value_heads,)) for name in ("a_log", "dt_bias")]
    out = e.activation(rows, values)
    for group, start in e.split():
        shape = (group.count, m.value_heads, m.key_dim, m.value_dim)
        state = e.state("state", shape, m.state_format)
        part = e.view(mixed, (group.tokens, m.conv_channels), times(start, m.conv_channels))
        result = e.view(out, (group.tokens, values), times(start, values))
        e.op(
            "delta_scan",
            (part, rates, *small, *_read(group, state)),
            (result, state),
            batch=group.count,
            seq=group.new_tokens,
            heads=m.value_heads,
            key_dim=m.key_dim,
            value_dim=m.value_dim,
            attrs={"correct": True},
        )
        if e.as_code:
            code.copied(e, state, state)
    if not e.as_code:
        out = e.elementwise("glu", (out, gate), rows, values)
    out = norm(
        e, out, "norm", rows, values, "rms_norm", groups=m.value_heads, parameters=m.value_dim
    )
    if e.as_code:
        wide = code.cast(e, gate, rows, values, "fp32")
        out = code.gate(e, "silu", (wide, out), rows, values)
        out = code.cast(e, out, rows, values, e.precisions.activations)
    return linear(e, out, "out_proj", rows, values, hidden)


def short_convolution(e: Emitter, m: ShortConvolution, x: Index, rows: Dim, hidden: int) -> Index:
    """LFM2: B, C, x from one projection; C * conv(B * x); out."""
    wide = linear(e, x, "in_proj", rows, hidden, 3 * m.channels, bias=m.bias)
    inner = e.elementwise("mul", (wide,), rows, m.channels)
    inner = _convolution(e, inner, rows, m.channels, m.conv_kernel, m.bias)
    inner = e.elementwise("mul", (inner, wide), rows, m.channels)
    return linear(e, inner, "out_proj", rows, m.channels, hidden, bias=m.bias)


def _convolution(e: Emitter, x: Index, rows: Dim, channels: int, kernel: int, bias: bool) -> Index:
    """A causal depthwise convolution over time; its last inputs are kept for the next step."""
    if not kernel:
        return x
    with e.inside("conv"):
        weights = [e.weight("weight", (channels, 1, kernel))]
        if bias:
            weights.append(e.weight("bias", (channels,)))
        out = e.activation(rows, channels)
        for group, start in e.split():
            state = e.state("state", (group.count, channels, kernel - 1))
            part = e.view(x, (group.tokens, channels), times(start, channels))
            result = e.view(out, (group.tokens, channels), times(start, channels))
            if e.as_code:
                code.kept(e, part, state)
            e.op(
                "convolution",
                (part, *weights, *_read(group, state)),
                (result, state),
                batch=group.count,
                out_channels=channels,
                in_channels=channels,
                groups=channels,
                kernel=(kernel,),
                spatial=(group.new_tokens,),
                attrs={"bias": bias},
            )
    return out


def _read(group: SequenceGroup, state: Index) -> tuple[Index, ...]:
    """The state is read where there is something before the new tokens."""
    fresh = is_number(group.cached_tokens) and group.cached_tokens == 0
    return () if fresh else (state,)
