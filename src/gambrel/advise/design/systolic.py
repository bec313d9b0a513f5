"""Cycles and operand traffic of a systolic array of multiply-accumulate units, in closed form.

A product of M x K by K x N is cut into folds, each of the size of the array. Rows of the array
hold one dimension, columns another, and the third streams through:

| dataflow | along the rows | along the columns | streams |
|---|---|---|---|
| output | M | N | K |
| weight | K | N | M |
| input | K | M | N |

A fold takes 2R + C + T - 2 cycles: R to load what stays (or to drain the results), T to stream, and
R + C - 2 until the last operand has crossed the skewed array (Samajdar et al., "A systematic
methodology for characterizing scalability of DNN accelerators using SCALE-Sim", ISPASS 2020,
equation 3). Where a second register holds the operands of the next fold (as in the first TPU),
loading is hidden behind streaming: a fold takes max(T, R), and the array fills and drains once.
Row-stationary arrays (Chen, Emer and Sze, "Eyeriss", ISCA 2016) give each row of a filter a row of
units, and each row of the output a column of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gambrel.ops.base import Size

DATAFLOWS: Final = ("output", "weight", "input", "row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """Equal products that may run in any order, as an array sees them.

    Attributes:
        m: Rows of the result: pixels, tokens.
        n: Columns: output channels.
        k: Length of the sum.
        groups: How many such products.
        filter_rows: Of a convolution, rows of its filter; 0 for anything else.
        out_rows: Of a convolution, rows of its output.
    """

    m: int
    n: int
    k: int
    groups: int = 1
    filter_rows: int = 0
    out_rows: int = 0

    @property
    def macs(self) -> int:
        """Multiply-adds of all products."""
        return self.groups * self.m * self.n * self.k


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """Arrays of some shapes, one shape per point.

    Attributes:
        rows: Units along one side.
        cols: Along the other.
        count: Equal arrays that share the folds.
        dataflow: Place in `DATAFLOWS`.
        hidden: Whether the operands of the next fold load behind the present one.
    """

    rows: NDArray[np.float64]
    cols: NDArray[np.float64]
    count: NDArray[np.float64]
    dataflow: NDArray[np.int64]
    hidden: bool


def cycles(product: Gemm, arrays: Arrays) -> NDArray[np.float64]:
    """Cycles of the products, the arrays side by side."""
    found = np.zeros_like(arrays.rows)
    for code, name in enumerate(DATAFLOWS):
        where = arrays.dataflow == code
        if where.any():
            r, c, n = arrays.rows[where], arrays.cols[where], arrays.count[where]
            if name == "row" and product.filter_rows:
                found[where] = _row_stationary(product, r, c, n)
            else:
                found[where] = _folded(product, name, r, c, n, hidden=arrays.hidden)
    return found


def _folded(product: Gemm, dataflow: str, r: Size, c: Size, count: Size, *, hidden: bool) -> Size:
    along, across, stream = _placed(product, dataflow)
    folds = np.ceil(along / r) * np.ceil(across / c) * product.groups
    turns = np.ceil(folds / count)
    if hidden:
        return turns * np.maximum(stream, r) + r + c - 2
    return turns * (2 * r + c + stream - 2)


def _placed(product: Gemm, dataflow: str) -> tuple[int, int, int]:
    m, n, k = product.m, product.n, product.k
    if dataflow == "output":
        return m, n, k
    # A row-stationary array runs what has no filter with its weights in place.
    return (k, m, n) if dataflow == "input" else (k, n, m)


def _row_stationary(product: Gemm, r: Size, c: Size, count: Size) -> Size:
    """A set of filter rows x output rows makes a row of outputs at a time, row by row.

    A filter taller than the array is cut. Sets stand on each other while rows are left; output rows
    beyond the columns make further sets. Each unit does one multiply-add a cycle.
    """
    height = np.minimum(product.filter_rows, r)
    stacked = np.maximum(np.floor(r / height), 1)
    strips = np.ceil(product.out_rows / c)
    per_unit = product.m / product.out_rows * (product.k / product.filter_rows) * product.n
    sets = strips * product.groups * np.ceil(product.filter_rows / height)
    # Each set is per_unit multiply-adds of every unit; sets of different channels run together.
    return np.ceil(sets * per_unit / (stacked * count))


def streamed_words(product: Gemm, arrays: Arrays) -> tuple[Size, Size]:
    """(operands read, results written and partial sums moved) between buffers and arrays, words.

    An operand that stays is read once; one that streams is read again for every fold across the
    other dimension; partial sums leave and return for every fold along the sum but one.
    """
    reads, sums = np.zeros_like(arrays.rows), np.zeros_like(arrays.rows)
    m, n, k, groups = product.m, product.n, product.k, product.groups
    for code, name in enumerate(DATAFLOWS):
        where = arrays.dataflow == code
        if not where.any():
            continue
        r, c = arrays.rows[where], arrays.cols[where]
        if name == "output":
            reads[where] = groups * (m * k * np.ceil(n / c) + k * n * np.ceil(m / r))
            sums[where] = groups * m * n
            continue
        moving, held = (k * n, m * k) if name == "input" else (m * k, k * n)
        across = m if name == "input" else n
        if name == "row" and product.filter_rows:  # a column sums its filter rows by itself
            r = r * (k / product.filter_rows)
        reads[where] = groups * (held + moving * np.ceil(across / c))
        sums[where] = groups * m * n * (2 * np.ceil(k / r) - 1)
    return reads, sums
