"""Attention that the code of transformers writes out: two products and what lies between them.

Caps, sinks and biases of positions are known to no fused kernel of PyTorch, so that the scores of
all pairs are written to memory and read again by every op.
"""

from __future__ import annotations

from gambrel.llm.blocks import code
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.dims import at_most, plus, times
from gambrel.llm.spec import Attention
from gambrel.llm.step import SequenceGroup
from gambrel.workload import Dim


def written_out(
    e: Emitter,
    a: Attention,
    group: SequenceGroup,
    tensors: tuple[Index, Index, Index, Index],
    start: Dim,
) -> None:
    """The ops of one group of sequences.

    Args:
        e: Where to write.
        a: The attention, with the names of its ops.
        group: The sequences.
        tensors: Queries, keys, values and the output.
        start: Row at which the group begins in queries and output.
    """
    q, key, value, out = tensors
    new, b = group.new_tokens, times(group.count, a.heads)
    seen = at_most(group.context, a.reach, e.symbols)
    query = e.view(q, (group.tokens, a.heads * a.head_dim), times(start, a.heads * a.head_dim))
    result = e.view(out, (group.tokens, a.heads * a.value_dim), times(start, a.heads * a.value_dim))
    key, value = (_repeated(e, a, group, x, seen) for x in (key, value))
    scores = e.tensor((b, new, seen), e.precisions.activations)
    e.op("matmul", (query, key), (scores,), name="bmm", b=b, m=new, n=seen, k=a.head_dim)
    scores = _between(e, a, scores, (times(b, new), seen))
    e.op("matmul", (scores, value), (result,), name="bmm", b=b, m=new, n=a.value_dim, k=seen)


def _repeated(e: Emitter, a: Attention, group: SequenceGroup, x: Index, seen: Dim) -> Index:
    """Keys or values, copied for every query head that shares them."""
    if a.kv_heads == a.heads:
        return x
    out = e.activation(times(group.count, seen), a.heads * a.head_dim)
    e.op("copy", (x,), (out,), name="clone", attrs={"function": "clone"})
    return out


def _between(e: Emitter, a: Attention, x: Index, sizes: tuple[Dim, Dim]) -> Index:
    """What happens to the scores, in the order of the code."""
    rows, seen = sizes
    given = e.tensors[x].dtype
    for step in a.scores:
        pairs = times(rows, seen)
        if step == "cat":
            sinks = e.weight("sinks", (a.heads,))
            seen = plus(seen, 1)
            joined = e.activation(times(rows, seen), 1)
            e.op("copy", (x, sinks), (joined,), name="cat", attrs={"function": "cat"})
            x = joined
        elif step == "cast":
            x = code.cast(e, x, pairs, 1, given if e.tensors[x].dtype == "fp32" else "fp32")
        elif step == "max":
            largest = e.activation(rows, 1, e.tensors[x].dtype)
            attrs = {"function": "max"}
            e.op(
                "reduction", (x,), (largest,), name=step, elements=pairs, outputs=rows, attrs=attrs
            )
        elif step == "softmax":
            shares = e.activation(pairs, 1, e.tensors[x].dtype)
            attrs = {"function": "softmax"}
            e.op("softmax", (x,), (shares,), elements=pairs, rows=rows, attrs=attrs)
            x = shares
        else:
            x = e.elementwise(step, (x,), pairs, 1, e.tensors[x].dtype)
    return x
