"""Ops that move data: copies, fills, gathers, scatters, random numbers; and the free ones."""

from __future__ import annotations

from typing import Final

from gambrel.ops.base import (
    Cost,
    OpView,
    distinct_bytes,
    formula,
    free,
    minimum,
    to_bytes,
    total,
    work,
)

free("view", "another way to look at the same memory: reshape, transpose, slice, expand, detach")
free("sync", "the host waits or reads a value: no work and no traffic worth a roof on the device")


@formula("copy")
def copy(_op: OpView) -> Cost:
    """No arithmetic: every distinct input once, every output once.

    Copy, clone, contiguous, cat, stack, pad, repeat, roll, flip, a change of layout or of number
    format. A copy of an expanded view reads its distinct elements and writes all.
    """
    return Cost()


@formula("fill")
def fill(_op: OpView) -> Cost:
    """No arithmetic and nothing to read: zeros, full, arange, eye only write.

    A tensor among the inputs lends its shape (zeros_like), not its values.
    """
    return Cost(read_bytes=0)


#: Per value: (vector FLOP, function evaluations). One evaluation of the counter-based generator a
#: value (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11), then the transform.
_RANDOM: Final[dict[str, tuple[int, int]]] = {
    "uniform": (2, 1),  # low + u * (high - low)
    "integers": (2, 1),  # the same, truncated
    "permutation": (0, 1),
    # Box-Muller, two values a time: r = sqrt(-2 ln u), r cos(2 pi v), r sin(2 pi v): products with
    # -2, 2 pi, r, r; log, sqrt, cos, sin. Then mean + deviation * z.
    "normal": (4, 3),
    "bernoulli": (1, 1),  # u < p
    "exponential": (1, 2),  # -ln(u) / rate, the sign within the rate
    # One comparison a value in the race u ** (1 / p): arg max of p / exponential.
    "multinomial": (2, 2),
}

#: These read probabilities; the others read nothing, whatever tensor lends its shape.
_READS_PROBABILITIES: Final = frozenset({"bernoulli", "multinomial"})


@formula("random")
def random(op: OpView) -> Cost | None:
    """One evaluation of the generator per value, and what the distribution asks for on top.

    Sizes: elements. Attrs: function (uniform, normal, bernoulli, exponential, integers,
    permutation, multinomial).
    """
    name = op.attrs.get("function", "uniform")
    if name not in _RANDOM:
        return None
    vector, special = _RANDOM[name]
    n = op.size("elements")
    read = None if name in _READS_PROBABILITIES else 0
    return Cost(
        work=work(_output_dtype(op), vector=vector * n, special=special * n), read_bytes=read
    )


@formula("gather")
def gather(op: OpView) -> Cost:
    """Reads the gathered elements (at most the whole source) and the indices, writes the output.

    Sizes: elements (gathered). Inputs: source, then indices.
    """
    if not op.inputs:
        return Cost()
    source, *indices = op.inputs
    touched = to_bytes(minimum(op.size("elements"), source.elements), source.dtype)
    return Cost(read_bytes=touched + distinct_bytes(tuple(indices)))


@formula("scatter")
def scatter(op: OpView) -> Cost:
    """Writes the scattered elements; with ``accumulate`` reads them first and adds: one FLOP each.

    In place (the default) the rest of the target is left alone: inputs that share the output's
    memory are its old version and cost only what is accumulated. With ``in_place=False`` the
    result is a new tensor: the target is read and the result written as a whole.

    Sizes: elements (scattered). Attrs: accumulate, in_place (True).
    """
    n = op.size("elements")
    accumulate = bool(op.attrs.get("accumulate"))
    done = work(op.dtype, vector=n * accumulate)
    if not op.attrs.get("in_place", True) or not op.outputs:
        return Cost(work=done)
    target = op.outputs[0]
    touched = to_bytes(minimum(n, target.elements), target.dtype)
    sources = tuple(t for t in op.inputs if t.storage != target.storage)
    rest = total(t.nbytes for t in op.outputs[1:])
    return Cost(
        work=done,
        read_bytes=distinct_bytes(sources) + touched * accumulate,
        write_bytes=touched + rest,
    )


def _output_dtype(op: OpView) -> str:
    """Random numbers are formed in the format of the result, 0/1 and integers in fp32."""
    named = op.outputs[0].dtype if op.outputs else "fp32"
    return named if named.startswith(("fp", "bf")) else "fp32"
