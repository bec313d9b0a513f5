"""Reductions, running sums, sorting, pooling, pairwise distances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gambrel.ops.base import Cost, OpView, Size, formula, log2, rounded, work
from gambrel.roofline import maximum

#: n values reduced to r results → (vector FLOP, function evaluations).
_Counter = Callable[[Size, Size], tuple[Size, Size]]


def _combine(n: Size, r: Size) -> tuple[Size, Size]:
    """To combine s values takes s - 1 operations, in r groups of n values together n - r."""
    return n - r, 0


#: What each reduction does, two passes for the variance, no one-pass shortcut.
REDUCTIONS: Final[Mapping[str, _Counter]] = {
    **dict.fromkeys(("sum", "prod", "any", "all"), _combine),
    **dict.fromkeys(("max", "min", "amax", "amin", "argmax", "argmin"), _combine),
    "mean": lambda n, _r: (n, 0),  # n - r additions, r divisions
    "aminmax": lambda n, r: (2 * (n - r), 0),
    # n comparisons with zero, n - r additions.
    "count_nonzero": lambda n, r: (2 * n - r, 0),
    # Mean n; subtraction n; square n; n - r additions and r divisions.
    **dict.fromkeys(("var", "var_mean"), lambda n, _r: (4 * n, 0)),
    **dict.fromkeys(("std", "std_mean"), lambda n, r: (4 * n, r)),  # and a root
    "norm": lambda n, r: (2 * n - r, r),  # squares, additions, a root
    "sum_of_squares": lambda n, r: (2 * n - r, 0),
    "norm_1": lambda n, r: (2 * n - r, 0),  # absolute values, additions
    "norm_inf": lambda n, r: (2 * n - r, 0),  # absolute values, maximum
    # abs(x) ** p = exp2(p * log2(abs(x))): two operations, two evaluations; the root likewise.
    "norm_p": lambda n, r: (3 * n, 2 * n + 2 * r),
    # Maximum n - r, subtraction n, exp n evaluations, sum n - r, log, plus the maximum r.
    "logsumexp": lambda n, r: (3 * n - r, n + r),
}

#: A step of a running reduction → (vector FLOP, function evaluations).
_STEPS: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), (1, 0)),
    "logcumsumexp": (5, 2),  # max(a, b) + log1p(exp(-abs(a - b)))
}


@formula("reduction")
def reduction(op: OpView) -> Cost | None:
    """To add n values we do n - 1 additions: elements - outputs for a sum; others from a table.

    Sizes: elements (of the input), outputs (number of results). Attrs: function.
    """
    counter = REDUCTIONS.get(str(op.attrs.get("function")))
    if counter is None:
        return None
    vector, special = counter(op.size("elements"), op.size("outputs"))
    return Cost(work=work(op.dtype, vector=vector, special=special))


@formula("cumulative")
def cumulative(op: OpView) -> Cost | None:
    """A row of n running sums takes n - 1 additions: elements - rows steps in all.

    That is the work of the definition; a parallel scan does more of it to be faster.

    Sizes: elements, rows. Attrs: function (cumsum, cumprod, cummax, cummin, logcumsumexp).
    """
    step = _STEPS.get(str(op.attrs.get("function")))
    if step is None:
        return None
    steps = op.size("elements") - op.size("rows")
    vector, special = step
    return Cost(
        work=work(op.dtype, vector=vector * steps, special=special * steps if special else 0)
    )


@formula("sort")
def sort(op: OpView) -> Cost | None:
    """Comparisons: n·log2(n) a row to sort n values; n + k·log2(k) to find the k largest in order.

    No sort by comparison needs fewer than log2(n!) of about n·log2(n); selecting takes at least one
    a value (Knuth, "The Art of Computer Programming", volume 3, sections 5.3.1 and 5.3.3). A radix
    sort does none and moves more. unique: a sort, then n - 1 comparisons of neighbours.

    Sizes: elements, rows, k (topk). Attrs: function.
    """
    name = op.attrs.get("function", "sort")
    n, rows = op.size("elements"), op.size("rows")
    in_order = n * log2(n / maximum(rows, 1))
    comparisons: Mapping[str, Callable[[], Size]] = {
        **dict.fromkeys(("sort", "argsort", "msort"), lambda: in_order),
        "unique": lambda: in_order + n - rows,
        "topk": lambda: n + rows * op.size("k") * log2(op.size("k")),
        **dict.fromkeys(("kthvalue", "median", "mode"), lambda: n),
    }
    if name not in comparisons:
        return None
    return Cost(work=work(op.dtype, vector=rounded(comparisons[name]())))


@formula("pooling")
def pooling(op: OpView) -> Cost | None:
    """outputs·(window - 1) comparisons or additions; an average divides once a result.

    lp (p = 2): window squares, window - 1 additions, one root. Windows over padding count whole;
    where windows differ in size (adaptive pooling), ``covered`` says what all together hold. No
    more than that is read: a window of one and a stride of 2 skip three pixels of four.

    Sizes: outputs, window, covered (outputs·window). Attrs: function. Inputs: the image.
    """
    outputs = op.size("outputs")
    covered = _covered(op)
    counts: Mapping[str, tuple[Size, Size]] = {
        **dict.fromkeys(("max", "adaptive_max"), (covered - outputs, 0)),
        **dict.fromkeys(("avg", "adaptive_avg"), (covered, 0)),
        "lp": (2 * covered - outputs, outputs),
    }
    found = counts.get(str(op.attrs.get("function")))
    if found is None:
        return None
    return Cost(
        work=work(op.dtype, vector=found[0], special=found[1]),
        touched={0: covered},
    )


@formula("pooling_backward")
def pooling_backward(op: OpView) -> Cost | None:
    """Maximum: one addition a result, at the place of the maximum. Average: one division a result.

    The average's quotient is then added to every place of its window: outputs·window additions.
    lp (p = 2): dx += dy/y·x: a division a result, a product and an addition a place. The image is
    kept, but not read: an average needs no values, a maximum knows its places if they were saved.

    Sizes and attrs: as pooling; outputs are the results of the forward op. Inputs: grad_output, the
    image, places.
    """
    outputs = op.size("outputs")
    covered = _covered(op)
    counts: Mapping[str, Size] = {
        **dict.fromkeys(("max", "adaptive_max"), outputs),
        **dict.fromkeys(("avg", "adaptive_avg"), outputs + covered),
        "lp": outputs + 2 * covered,
    }
    function = str(op.attrs.get("function"))
    if function not in counts:
        return None
    unread = function.endswith("avg") or (function.endswith("max") and len(op.inputs) > 2)
    return Cost(
        work=work(op.operand_dtype(1), vector=counts[function]),
        touched={1: 0} if unread else {},
    )


def _covered(op: OpView) -> Size:
    """Elements in all windows together."""
    if "covered" in op.sizes:
        return op.size("covered")
    return op.size("outputs") * op.size("window")


@formula("cdist")
def cdist(op: OpView) -> Cost:
    """batch·m·n·(3k - 1) and a root each: k differences, k squares, k - 1 additions a distance.

    p = 1 and p = ∞ take absolute values instead of squares, and no root; other p take, for the
    power of a value, two evaluations and a product (exp2(p·log2)), and the same for the root.
    ``matmul``: |x|² + |y|² - 2x·y by one GEMM, 2·batch·m·n·k on the matrix engine, the
    squared norms 2k - 1 a point, and a distance takes a product with -2, two additions, a clamp at
    zero and a root.

    Sizes: batch (1), m, n, k. Attrs: p (2), matmul.
    """
    b, m, n, k = op.size("batch", 1), op.size("m"), op.size("n"), op.size("k")
    pairs = b * m * n
    p = float(op.attrs.get("p", 2))
    if op.attrs.get("matmul"):
        norms = b * (m + n) * (2 * k - 1)
        done = work(op.dtype, matrix=2 * pairs * k, vector=norms + 4 * pairs, special=pairs)
    elif p == 2:
        done = work(op.dtype, vector=pairs * (3 * k - 1), special=pairs)
    elif p in (1.0, float("inf")):
        done = work(op.dtype, vector=pairs * (3 * k - 1))
    else:
        # Difference, absolute value, product, addition; the root's product.
        done = work(op.dtype, vector=pairs * 4 * k, special=pairs * 2 * (k + 1))
    return Cost(work=done)
