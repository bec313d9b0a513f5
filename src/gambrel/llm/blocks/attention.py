"""Softmax attention: projections, the fused kernel over each group of sequences, output."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec.structs import replace

from gambrel.llm.blocks import code
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.linear import keep_weights, linear
from gambrel.llm.blocks.norms import fused_norm, norm
from gambrel.llm.blocks.scores import written_out
from gambrel.llm.dims import at_most, is_number, plus, times
from gambrel.llm.spec import Attention
from gambrel.llm.step import SequenceGroup
from gambrel.workload import Dim

Cache: TypeAlias = tuple[Index, Index]
Memory: TypeAlias = tuple[Index | None, Dim]


def attention(e: Emitter, a: Attention, x: Index, rows: Dim, hidden: int) -> Index:
    """Attention of new tokens to themselves and to what is cached.

    Keys and values are written where the cache keeps them, by their projections; the rotation of
    queries and keys, their norms, caps and gates run inside the attention kernel.
    """
    width = a.input_hidden or hidden
    if e.as_code:
        q, caches = _project_as_code(e, a, x, rows, width)
    else:
        q, caches = _project(e, a, x, rows, width)
        if a.qk_norm:
            _qk_norms(e, a, x, rows)
    out = e.activation(rows, a.heads * a.value_dim)
    run = written_out if e.as_code and a.scores else kernel
    for (group, start), (key, value) in zip(e.split(), caches, strict=True):
        run(e, a, group, (q, key, value, out), start)
    if a.gated and e.as_code:
        width = a.heads * a.value_dim
        shares = e.elementwise("sigmoid", (e.view(q, (rows, width)),), rows, width)
        out = e.elementwise("mul", (out, shares), rows, width)
    elif a.gated:
        e.op(
            "elementwise",
            (),
            (),
            name="gate",
            elements=times(rows, a.heads * a.value_dim),
            attrs={"function": "glu", "fused": True},
        )
    return linear(e, out, "o_proj", rows, a.heads * a.value_dim, hidden, bias=a.out_bias)


def cross_attention(
    e: Emitter, a: Attention, x: Index, rows: Dim, hidden: int, memory: Memory
) -> Index:
    """Attention to an encoder's output.

    Args:
        e: Where to write.
        a: The attention; ``memory_hidden`` is the encoder's width.
        x: The decoder's side.
        rows: Its tokens.
        hidden: Its width.
        memory: The encoder's output, None when its keys and values are cached already; and its
            tokens a sequence.
    """
    width = a.memory_hidden or hidden
    q = linear(e, x, "q_proj", rows, hidden, a.heads * a.head_dim, bias="q" in a.qkv_bias)
    out = e.activation(rows, a.heads * a.value_dim)
    source, tokens = memory
    total = times(plus(*(group.count for group in e.groups)), tokens)
    key = e.cache("cross_key_cache", total, a.kv_heads * a.head_dim)
    value = e.cache("cross_value_cache", total, a.kv_heads * a.value_dim)
    for name, letter, cached, dim in (
        ("k_proj", "k", key, a.head_dim),
        ("v_proj", "v", value, a.value_dim),
    ):
        if source is not None:
            n = a.kv_heads * dim
            linear(e, source, name, total, width, n, bias=letter in a.qkv_bias, out=(cached,))
        else:
            keep_weights(e, name, width, a.kv_heads * dim, bias=letter in a.qkv_bias)
    seen = replace(a, causal=False, rope=False, window=None, chunk=None)
    for group, start in e.split():
        kernel(e, seen, group, (q, key, value, out), start, tokens)
    return linear(e, out, "o_proj", rows, a.heads * a.value_dim, hidden, bias=a.out_bias)


def _project(
    e: Emitter, a: Attention, x: Index, rows: Dim, width: int
) -> tuple[Index, tuple[Cache, ...]]:
    """Queries, and for each group its cached keys and values."""
    q_width = a.heads * a.head_dim * (2 if a.gated else 1)
    k_width, v_width = a.kv_heads * a.head_dim, a.kv_heads * a.value_dim
    caches = tuple(_caches(e, a, group) for group in e.groups)
    if a.fused:
        total = q_width + k_width + v_width
        q = linear(e, x, "qkv_proj", rows, width, total, bias=bool(a.qkv_bias))
        q = e.view(q, (rows, a.heads * a.head_dim))
    else:
        q = linear(e, x, "q_proj", rows, width, q_width, bias="q" in a.qkv_bias)
        keys = _written(e, [c[0] for c in caches], k_width)
        values = _written(e, [c[1] for c in caches], v_width)
        linear(e, x, "k_proj", rows, width, k_width, bias="k" in a.qkv_bias, out=keys)
        linear(e, x, "v_proj", rows, width, v_width, bias="v" in a.qkv_bias, out=values)
        if a.gated:
            q = e.view(q, (rows, a.heads * a.head_dim))
    return q, caches


def _project_as_code(
    e: Emitter, a: Attention, x: Index, rows: Dim, width: int
) -> tuple[Index, tuple[Cache, ...]]:
    """The same with norms and rotations as ops; new keys and values are copied to a full cache."""
    q_width = a.heads * a.head_dim * (2 if a.gated else 1)
    k_width, v_width = a.kv_heads * a.head_dim, a.kv_heads * a.value_dim
    caches = tuple(_caches(e, a, group) for group in e.groups)
    keys = _written(e, [c[0] for c in caches], k_width)
    values = _written(e, [c[1] for c in caches], v_width)
    fresh = all(group.cached_tokens == 0 for group in e.groups) and not a.fused
    changed = bool(a.rope or a.qk_norm)
    if a.fused:
        all_of = q_width + k_width + v_width
        q = linear(e, x, "qkv_proj", rows, width, all_of, bias=bool(a.qkv_bias))
        k, v = e.view(q, (rows, k_width)), e.view(q, (rows, v_width))
        q = e.view(q, (rows, a.heads * a.head_dim))
    else:
        into = keys if fresh and not changed else None
        q = linear(e, x, "q_proj", rows, width, q_width, bias="q" in a.qkv_bias)
        k = linear(e, x, "k_proj", rows, width, k_width, bias="k" in a.qkv_bias, out=into)
        into = values if fresh else None
        v = linear(e, x, "v_proj", rows, width, v_width, bias="v" in a.qkv_bias, out=into)
    if a.gated:
        code.moved(e, (q,), rows, a.heads * a.head_dim, "clone")
        q = e.view(q, (rows, a.heads * a.head_dim))
    if a.qk_norm:
        q, k = _normed_heads(e, a, q, "q_norm", rows), _normed_heads(e, a, k, "k_norm", rows)
    if a.rope:
        dims = (a.head_dim, a.rotary_dim)
        turn = code.rotated_halves if a.halves else code.rotated
        q, k = turn(e, q, rows, a.heads, dims), turn(e, k, rows, a.kv_heads, dims)
    for source, places, done in ((k, keys, fresh and not changed), (v, values, fresh)):
        for place in () if done else places:
            code.copied(e, source, place)
    return q, caches


def _normed_heads(e: Emitter, a: Attention, x: Index, name: str, rows: Dim) -> Index:
    heads = a.heads if name == "q_norm" else a.kv_heads
    parameters = {"full": heads * a.head_dim, "head": a.head_dim, "free": 0}[a.qk_norm]
    groups = 1 if a.qk_norm == "full" else heads
    width = heads * a.head_dim
    return norm(e, x, name, rows, width, "rms_norm", groups=groups, parameters=parameters)


def _caches(e: Emitter, a: Attention, group: SequenceGroup) -> Cache:
    # The windows of q consecutive queries cover q + window - 1 positions.
    reach = a.reach
    limit = None
    if reach is not None and is_number(group.new_tokens):
        limit = group.new_tokens + reach - 1
    held = times(group.count, at_most(group.context, limit, e.symbols))
    if not a.causal:  # nothing is kept for a later step
        return (
            e.activation(held, a.kv_heads * a.head_dim),
            e.activation(held, a.kv_heads * a.value_dim),
        )
    return (
        e.cache("key_cache", held, a.kv_heads * a.head_dim),
        e.cache("value_cache", held, a.kv_heads * a.value_dim),
    )


def _written(e: Emitter, caches: list[Index], width: int) -> tuple[Index, ...]:
    """The places of the new tokens in the caches of all groups."""
    return tuple(
        e.view(cache, (group.tokens, width)) for cache, group in zip(caches, e.groups, strict=True)
    )


def _qk_norms(e: Emitter, a: Attention, x: Index, rows: Dim) -> None:
    for name, heads in (("q_norm", a.heads), ("k_norm", a.kv_heads)):
        whole = a.qk_norm == "full"
        parameters = {"full": heads * a.head_dim, "head": a.head_dim, "free": 0}[a.qk_norm]
        fused_norm(
            e,
            x,
            name,
            rows,
            heads * a.head_dim,
            groups=1 if whole else heads,
            parameters=parameters,
        )


def kernel(
    e: Emitter,
    a: Attention,
    group: SequenceGroup,
    tensors: tuple[Index, Index, Index, Index],
    start: Dim,
    memory: Dim | None = None,
) -> None:
    """The op itself; ``memory`` are the positions of cross attention."""
    q, key, value, out = tensors
    pieces = _pieces(a, group) if memory is None else [(group.count, group.new_tokens, memory)]
    for count, new, context in pieces:
        rows = times(count, new)
        query = e.view(q, (rows, a.heads * a.head_dim), times(start, a.heads * a.head_dim))
        result = e.view(out, (rows, a.heads * a.value_dim), times(start, a.heads * a.value_dim))
        sizes: dict[str, Any] = {
            "batch": count,
            "heads": a.heads,
            "kv_heads": a.kv_heads,
            "q_len": new,
            "kv_len": context,
            "head_dim": a.head_dim,
            "v_head_dim": a.value_dim,
        }
        # Where sizes are open, a chunk is taken as a window.
        reach = a.window if is_number(group.context) else a.reach
        if reach is not None:
            sizes["window"] = reach
        attrs: dict[str, bool | int | float | str] = {"causal": a.causal and new != 1}
        inputs: tuple[Index, ...] = (query, key, value)
        if a.sinks:
            inputs += (e.weight("sinks", (a.heads,)),)
        if a.rope and not e.as_code:
            attrs["rotary_dim"] = a.rotary_dim or a.head_dim
        e.op("attention", inputs, (result,), attrs=attrs, **sizes)
        start = plus(start, rows)


def _pieces(a: Attention, group: SequenceGroup) -> list[tuple[Dim, Dim, Dim]]:
    """(sequences, new tokens, positions) of attention calls: one, or one a chunk.

    In chunked attention a query sees the positions of its own chunk up to itself.
    """
    new, cached = group.new_tokens, group.cached_tokens
    if a.chunk is None or not is_number(new) or not is_number(cached):
        return [(group.count, new, group.context)]
    pieces: dict[tuple[int, int], int] = {}
    position, end = cached, cached + new
    while position < end:
        begin = position - position % a.chunk
        stop = min(end, begin + a.chunk)
        key = (stop - position, stop - begin)
        pieces[key] = pieces.get(key, 0) + 1
        position = stop
    return [(times(group.count, n), q, kv) for (q, kv), n in pieces.items()]
