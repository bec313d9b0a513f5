"""What chooses the positions that attention sees: scores of all of them, and the best ones."""

from __future__ import annotations

from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.linear import keep_weights, linear
from gambrel.llm.blocks.norms import norm
from gambrel.llm.dims import range_of, times
from gambrel.llm.mixers import INDEXER_FORMAT, Indexer
from gambrel.llm.step import SequenceGroup
from gambrel.workload import Dim


def choose(
    e: Emitter,
    a: Indexer,
    x: Index,
    low: Index,
    rows: Dim,
    widths: tuple[int, int],
    chosen: int,
) -> None:
    """Scores every position for each new token and keeps the ``chosen`` best.

    Where there are no more positions than that, nothing is scored: only keys are kept for later.

    Args:
        e: Where to write.
        a: The indexer.
        x: The stream, which its keys and weights come from.
        low: What its queries are projected from.
        rows: New tokens.
        widths: Of the stream, and of ``low``.
        chosen: Positions kept for each token.
    """
    hidden, rank = widths
    width = a.heads * a.head_dim
    with e.inside("indexer"):
        caches = _keys(e, a, x, rows, hidden)
        if not any(chooses(e, chosen, group) for group in e.groups):
            keep_weights(e, "wq_b", rank, width)
            keep_weights(e, "weights_proj", hidden, a.heads)
            return
        q = linear(e, low, "wq_b", rows, rank, width)
        q = e.elementwise("quantize", (q,), rows, width, INDEXER_FORMAT)
        weights = linear(e, x, "weights_proj", rows, hidden, a.heads)
        for (group, start), cache in zip(e.split(), caches, strict=True):
            if chooses(e, chosen, group):
                own = e.view(q, (group.tokens, width), times(start, width))
                weight = e.view(weights, (group.tokens, a.heads), times(start, a.heads))
                _best(e, _scores(e, a, group, (own, cache, weight)), group, chosen)


def chooses(e: Emitter, chosen: int | None, group: SequenceGroup) -> bool:
    """Whether queries may see fewer positions than there are."""
    return chosen is not None and range_of(group.context, e.symbols)[1] > chosen


def _keys(e: Emitter, a: Indexer, x: Index, rows: Dim, hidden: int) -> tuple[Index, ...]:
    """Writes the keys of new tokens behind those of earlier ones; returns all, by group."""
    key = linear(e, x, "wk", rows, hidden, a.head_dim)
    key = norm(e, key, "k_norm", rows, a.head_dim, "layer_norm", bias=True)
    caches = []
    for group, start in e.split():
        cache = e.cache(
            "index_cache", times(group.count, group.context), a.head_dim, INDEXER_FORMAT
        )
        new = e.view(key, (group.tokens, a.head_dim), times(start, a.head_dim))
        written = e.view(cache, (group.tokens, a.head_dim))
        elements = times(group.tokens, a.head_dim)
        attrs = {"function": "quantize"}
        e.op("elementwise", (new,), (written,), name="quantize", elements=elements, attrs=attrs)
        caches.append(cache)
    return tuple(caches)


def _scores(
    e: Emitter, a: Indexer, group: SequenceGroup, inputs: tuple[Index, Index, Index]
) -> Index:
    scores = e.tensor((group.tokens, group.context), "fp32")
    e.op(
        "attention_scores",
        inputs,
        (scores,),
        batch=group.count,
        heads=a.heads,
        q_len=group.new_tokens,
        kv_len=group.context,
        head_dim=a.head_dim,
        attrs={"causal": group.new_tokens != 1},
    )
    return scores


def _best(e: Emitter, scores: Index, group: SequenceGroup, chosen: int) -> None:
    rows = group.tokens
    e.op(
        "sort",
        (scores,),
        (e.activation(rows, chosen, "int32"),),
        name="topk",
        elements=times(rows, group.context),
        rows=rows,
        k=chosen,
        attrs={"function": "topk"},
    )
