"""GEMMs in a memory of limited size: which tile, and how often each operand is read.

An m·n·k product in a memory of S words moves at least 2·m·n·k/√S words (Hong and Kung, "I/O
complexity: the red-blue pebble game", STOC 1981; with the constant 2: Kwasniewski et al.,
"Red-blue pebbling revisited: near optimal parallel matrix-matrix multiplication", SC 2019). The
schedule that attains it keeps a square tile of results in the memory and streams a column of the
first and a row of the second operand past it, k times. That is what libraries do at every level,
so its tile is what is counted here; or an operand that fits stays, and the rest streams past.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from gambrel.analysis.levels.window import Window


class Product(Struct, frozen=True, kw_only=True):
    """``batches`` products of an m×k by a k×n matrix, as an op stores them.

    Attributes:
        batches: Independent products.
        m: Rows of the result.
        n: Columns of the result.
        k: Length of the sums.
        a_bytes: Of the first operand, all batches, as stored.
        b_bytes: Of the second.
        accumulator_bytes: Width of a partial sum.
        window: How rows of ``a`` overlap in memory (a convolution); None where they do not.
    """

    batches: int
    m: int
    n: int
    k: int
    a_bytes: int
    b_bytes: int
    accumulator_bytes: int = 4
    window: Window | None = None

    def reread_bytes(self, capacity_bytes: int, instances: int) -> int:
        """Bytes read beyond each operand once, by the best schedule; see `choose_tile`."""
        return choose_tile(self, capacity_bytes, instances).reread_bytes


class Tile(Struct, frozen=True, kw_only=True):
    """A tile of results and what it costs.

    Attributes:
        rows: Of the result, up to m.
        columns: Of the result, up to n.
        a_passes: How often the first operand is read.
        b_passes: How often the second is.
        reread_bytes: Bytes read beyond reading each operand once.
    """

    rows: int
    columns: int
    a_passes: int
    b_passes: int
    reread_bytes: int


@lru_cache(maxsize=4096)
def choose_tile(product: Product, capacity_bytes: int, instances: int = 1) -> Tile:
    """The schedule with the least traffic into memories of a given size.

    Args:
        product: What is multiplied.
        capacity_bytes: Of one memory: it must hold the tile's partial sums, one column of the
            tile's rows of ``a`` and one row of its columns of ``b``.
        instances: Memories that work side by side; an operand that stays in one is loaded by each.

    Returns:
        Never less than reading each operand once, never more than reading both for every
        multiplication.
    """
    return min(_schedules(product, capacity_bytes, instances), key=_order)


def _order(tile: Tile) -> tuple[int, int]:
    return tile.reread_bytes, -tile.rows


def _schedules(p: Product, capacity: int, instances: int) -> Iterator[Tile]:
    a, b = p.a_bytes / (p.batches * p.m * p.k), p.b_bytes / (p.batches * p.n * p.k)
    acc = p.accumulator_bytes
    # Least a·n/columns + b·m/rows under acc·rows·columns + a·rows + b·columns = capacity: rows are
    # to columns as b to a; with side = sqrt(rows·columns), acc·side² + 2·sqrt(a·b)·side = capacity.
    ratio = math.sqrt(b / a if a and b else 1.0)
    side = (math.sqrt(a * b + acc * capacity) - math.sqrt(a * b)) / acc
    for rows in _near(p.m, side * ratio):
        columns = _fitting(capacity, acc * rows + b, a * rows, p.n)
        yield _tile(p, _fitting(capacity, acc * columns + a, b * columns, p.m), columns)
    for columns in _near(p.n, side / ratio):
        rows = _fitting(capacity, acc * columns + a, b * columns, p.m)
        yield _tile(p, rows, _fitting(capacity, acc * rows + b, a * rows, p.n))
    shared = max(1, min(instances // p.batches, instances))
    if p.b_bytes / p.batches + a * p.k + acc * p.n <= capacity:
        yield _tile(p, 1, p.n, b_passes=min(shared, p.m), whole_window=True)
    if p.a_bytes / p.batches + b * p.k + acc * p.m <= capacity:
        yield _tile(p, p.m, 1, a_passes=min(shared, p.n), whole_window=True)


def _near(size: int, best: float) -> Iterator[int]:
    """Heights that cut ``size`` into equal tiles, about as high as ``best``."""
    count = size / max(1.0, best)
    for parts in {max(1, math.floor(count)), max(1, math.ceil(count))}:
        yield -(-size // parts)


def _fitting(capacity: int, each: float, fixed: float, most: int) -> int:
    return max(1, min(most, int((capacity - fixed) / each)))


def _tile(
    p: Product,
    rows: int,
    columns: int,
    a_passes: int | None = None,
    b_passes: int | None = None,
    whole_window: bool = False,
) -> Tile:
    over_a = -(-p.n // columns) if a_passes is None else a_passes
    over_b = -(-p.m // rows) if b_passes is None else b_passes
    one_pass = float(p.a_bytes)
    if p.window is not None and not whole_window:
        one_pass = p.window.read_bytes(rows, p.a_bytes)
    if b_passes is not None:
        over_a = 1
    if a_passes is not None:
        over_b = 1
    extra = one_pass * over_a - p.a_bytes + p.b_bytes * (over_b - 1)
    return Tile(
        rows=rows, columns=columns, a_passes=over_a, b_passes=over_b, reread_bytes=round(extra)
    )
