"""Multi-head latent attention: expanded for many new tokens, absorbed for a few."""

from __future__ import annotations

from gambrel.llm.blocks import code
from gambrel.llm.blocks.attention import kernel
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.indexer import choose, chooses
from gambrel.llm.blocks.linear import linear, product_attrs
from gambrel.llm.blocks.norms import norm
from gambrel.llm.dims import is_number, times
from gambrel.llm.spec import Attention, LatentAttention
from gambrel.llm.step import SequenceGroup
from gambrel.workload import Dim, Role


def latent_attention(e: Emitter, a: LatentAttention, x: Index, rows: Dim, hidden: int) -> Index:
    """Attention over a compressed cache of one latent and one rotated key a position.

    Expanded: keys and values of all positions are projected from the latent, then ordinary
    attention with ``heads`` key heads. Absorbed: queries are multiplied into the latent space, all
    heads attend to the one latent, and its weighted sums are projected to values. The first does
    less work for many new tokens, the second does not touch old positions but once. Where an
    indexer chooses positions, each query has its own, and kernels gather latents: absorbed. A query
    then sees as many pairs as with a window of that length, which is how it is written.
    """
    low, q = _queries(e, a, x, rows, hidden)
    if a.indexer is not None and a.chosen is not None:
        choose(e, a.indexer, x, low, rows, (hidden, a.q_lora_rank or hidden), a.chosen)
    caches = tuple(
        e.cache("latent_cache", times(g.count, g.context), a.kv_elements) for g in e.groups
    )
    latent = _compress(e, a, x, rows, hidden, caches)
    if e.as_code:
        q = _turned(e, a, (q, latent), rows, caches)
    out = e.activation(rows, a.heads * a.v_head_dim)
    for (group, start), cache in zip(e.split(), caches, strict=True):
        run = _absorbed if is_absorbed(e, group) or chooses(e, a.chosen, group) else _expanded
        run(e, a, group, q, cache, out, start)
    return linear(e, out, "o_proj", rows, a.heads * a.v_head_dim, hidden)


def is_absorbed(e: Emitter, group: SequenceGroup) -> bool:
    """Whether a group runs absorbed: as asked, else where it has one new token a sequence."""
    if e.as_code:  # the code expands every position at every step
        return False
    if e.absorbed is not None:
        return e.absorbed
    return is_number(group.new_tokens) and group.new_tokens <= 1


def _queries(
    e: Emitter, a: LatentAttention, x: Index, rows: Dim, hidden: int
) -> tuple[Index, Index]:
    """What queries are projected from, and the queries."""
    width = a.heads * a.head_dim
    if a.q_lora_rank is None:
        return x, linear(e, x, "q_proj", rows, hidden, width)
    low = linear(e, x, "q_a_proj", rows, hidden, a.q_lora_rank, bias=a.qkv_bias)
    low = norm(e, low, "q_a_norm", rows, a.q_lora_rank, "rms_norm")
    return low, linear(e, low, "q_b_proj", rows, a.q_lora_rank, width)


def _compress(
    e: Emitter, a: LatentAttention, x: Index, rows: Dim, hidden: int, caches: tuple[Index, ...]
) -> Index:
    """The latent and the rotated key of new tokens, where the caches keep them."""
    low = linear(e, x, "kv_a_proj", rows, hidden, a.kv_elements, bias=a.qkv_bias)
    latent = e.view(low, (rows, a.kv_lora_rank))
    if e.as_code:
        return norm(e, latent, "kv_a_norm", rows, a.kv_lora_rank, "rms_norm")
    with e.inside("kv_a_norm"):
        weight = e.weight("weight", (a.kv_lora_rank,))
        written = tuple(
            e.view(cache, (group.tokens, a.kv_elements))
            for cache, group in zip(caches, e.groups, strict=True)
        )
        e.op(
            "normalization",
            (latent, weight),
            written,
            name="rms_norm",
            elements=times(rows, a.kv_lora_rank),
            groups=rows,
            attrs={"function": "rms_norm", "statistics": True, "affine": True},
        )
    return latent


def _turned(
    e: Emitter,
    a: LatentAttention,
    made: tuple[Index, Index],
    rows: Dim,
    caches: tuple[Index, ...],
) -> Index:
    """Queries with their part rotated; latents and the rotated key are copied to the caches."""
    q, latent = made
    dims = (a.rope_head_dim, a.rope_head_dim)
    part = e.view(q, (rows, a.heads * a.rope_head_dim))
    part = code.rotated_halves(e, part, rows, a.heads, dims)
    own = e.activation(rows, a.rope_head_dim)
    own = code.rotated_halves(e, own, rows, 1, dims)
    for cache, group in zip(caches, e.groups, strict=True):
        for source, width in ((latent, a.kv_lora_rank), (own, a.rope_head_dim)):
            code.copied(e, source, e.view(cache, (group.tokens, width)))
    return code.moved(e, (q, part), rows, a.heads * a.head_dim, "cat")


def _expansion(e: Emitter, a: LatentAttention) -> Index:
    """The matrix from the latent to keys and values of all heads."""
    with e.inside("kv_b_proj"):
        p = e.precisions
        width = a.heads * (a.nope_head_dim + a.v_head_dim)
        return e.weight("weight", (width, a.kv_lora_rank), p.weights)


def _expanded(
    e: Emitter,
    a: LatentAttention,
    group: SequenceGroup,
    q: Index,
    cache: Index,
    out: Index,
    start: Dim,
) -> None:
    positions = times(group.count, group.context)
    width = a.heads * (a.nope_head_dim + a.v_head_dim)
    latents = e.view(cache, (positions, a.kv_lora_rank))
    expanded = linear(
        e, latents, "kv_b_proj", positions, a.kv_lora_rank, width, weight=_expansion(e, a)
    )
    if e.as_code:
        key = e.activation(positions, a.heads * a.head_dim)
        for source, own, dim in ((expanded, a.heads, a.nope_head_dim), (cache, 1, a.rope_head_dim)):
            given = e.view(source, (positions, own * dim))
            code.copied(e, given, e.view(key, (positions, a.heads * dim)))
    else:  # The rotated key is one for all heads; kernels read it beside each head's own part.
        key = e.tensor(
            (positions, a.heads * a.head_dim),
            e.tensors[expanded].dtype,
            storage=e.tensors[expanded].storage,
        )
    value = e.view(expanded, (positions, a.heads * a.v_head_dim), a.heads * a.nope_head_dim)
    kernel(e, _heads(a, a.heads, a.head_dim, a.v_head_dim), group, (q, key, value, out), start)


def _absorbed(
    e: Emitter,
    a: LatentAttention,
    group: SequenceGroup,
    q: Index,
    cache: Index,
    out: Index,
    start: Dim,
) -> None:
    rows = group.tokens
    matrix = _expansion(e, a)
    query = e.activation(rows, a.heads * a.kv_elements)
    own = e.view(q, (rows, a.heads * a.nope_head_dim), times(start, a.heads * a.head_dim))
    _per_head(e, a, "absorb_key", matrix, own, query, rows, a.nope_head_dim, a.kv_lora_rank, 0)
    mixed = e.activation(rows, a.heads * a.kv_lora_rank)
    one = _heads(a, 1, a.kv_elements, a.kv_lora_rank)
    kernel(e, one, group, (query, cache, cache, mixed), 0)
    result = e.view(out, (rows, a.heads * a.v_head_dim), times(start, a.heads * a.v_head_dim))
    offset = a.heads * a.nope_head_dim * a.kv_lora_rank
    _per_head(
        e, a, "absorb_value", matrix, mixed, result, rows, a.kv_lora_rank, a.v_head_dim, offset
    )


def _per_head(
    e: Emitter,
    a: LatentAttention,
    name: str,
    matrix: Index,
    x: Index,
    out: Index,
    rows: Dim,
    k: int,
    n: int,
    offset: int,
) -> None:
    """One product a head with its part of the expansion."""
    with e.inside(name):
        whole = e.tensors[matrix]
        part = e.tensor(
            (a.heads, k, n),
            whole.dtype,
            storage=whole.storage,
            offset=offset,
            role=Role.WEIGHT,
            name=whole.name,
            copies=whole.copies,
        )
        attrs = product_attrs(e, x, whole.dtype, "weights")
        e.op("matmul", (x, part), (out,), name="bmm", b=a.heads, m=rows, n=n, k=k, attrs=attrs)


def _heads(a: LatentAttention, kv_heads: int, head_dim: int, v_head_dim: int) -> Attention:
    """The attention that runs on what was projected."""
    return Attention(
        heads=a.heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        causal=a.causal,
        rotary_dim=a.rope_head_dim,
        window=a.chosen,
    )
