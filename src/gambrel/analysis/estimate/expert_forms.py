"""How long a product of mixture-of-experts layers takes beyond its roofline.

As the formulas of `forms`: plain arithmetic on floats or arrays, constants dimensionless or cycles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.forms import Chip, Constants, ceil, floor, overlap, sustained
from gambrel.ops.base import Size, minimum, where
from gambrel.roofline import maximum

#: Rows and columns of the output tiles that a tuned library chooses from.
_TUNED: Final = ((16, 64), (32, 64), (64, 128), (128, 128))
#: Tiles of a library that looks at the number of tokens alone: of few, of many.
_FEW: Final = (16, 32)
_MANY: Final = (64, 64)
#: Bytes of an access at full width.
_ACCESS_BYTES: Final = 16


def grouped_matmul(
    c: Constants,
    machine: Chip,
    peak: float,
    *,
    rows: Size,
    touched: Size,
    n: Size,
    k: Size,
    width: Size,
    few: Size,
    top_k: Size = 8,
    row_bytes: Size | None = None,
    spread_bytes: Size = 0.0,
    warm: Size = 0.0,
    row_tiles: Callable[[int], Size] | None = None,
) -> Size:
    """A product whose rows meet the weights of one of ``touched`` experts each, in seconds of work.

    The rows of each expert are cut into tiles of their own, the last of which is partly empty.
    Tiles of few rows pay ``operand`` steps to read the weights again, and every tile ``k_fill``
    steps along k to fill and drain its pipeline. Units work in waves as in `forms.matmul`. A tuned
    library takes the best of several tiles; with ``by_tokens`` = 1 it takes the lowest while tokens
    are ``few``, and a fixed one beyond, which is ``align`` slower where rows of the weights are no
    multiple of 16 bytes. With fewer tiles than units only a part of the bandwidth is reached
    (``fill``).

    Up to ``lone_top_k`` experts a token some libraries run another kernel, with ``lone_compute``
    and ``lone_memory`` times the rates and ``lone_launch`` more cycles.

    Permuting and gathering rows moves the activations ``permute`` times. Some libraries keep a
    place for every row of every device that shares the experts, and pass over it (activation, sum):
    ``spread`` times ``spread_bytes``. What the last cache holds, weights that are ``warm`` or
    activations between kernels, comes ``cached`` + 1 times as fast.

    Args:
        c: Constants.
        machine: The device.
        peak: FLOP/s of the engine.
        rows: Rows of all experts together.
        touched: Experts with a row at least.
        n: Columns of the result.
        k: Length of the sums.
        width: Bytes of a weight.
        few: Whether there are no more tokens than experts on the device.
        top_k: Experts that each token is sent to.
        row_bytes: Of a row of the weights, without scales stored beside it; None: k · width.
        spread_bytes: Of the rows that other devices compute.
        warm: Share of the weights that the last cache holds from a run before.
        row_tiles: Tiles of so many rows; None for `expected_row_tiles`.
    """
    lone = where(top_k <= c["lone_top_k"], 1.0, 0.0) if "lone_top_k" in c else 0.0
    attained = c["compute"] * _scaled(c, "lone_compute", lone)
    tiles_of = row_tiles or (lambda height: expected_row_tiles(rows, touched, height))

    def tiled(height: int, columns: int) -> tuple[Size, Size]:
        tiles = tiles_of(height) * ceil(n / columns)
        filled = tiles / machine.units
        waves = maximum(1.0, filled + c["wave"] * (ceil(filled) - filled))
        flops = 2 * height * columns * (k + c["k_fill"]) * (1 + c["operand"] / height)
        return roofline.seconds(waves * flops * machine.units, peak * attained), tiles

    if c["by_tokens"]:
        low, high = tiled(*_FEW), tiled(*_MANY)
        narrow = (k * width if row_bytes is None else row_bytes) / _ACCESS_BYTES
        slow = 1 + c["align"] * minimum(ceil(narrow) - floor(narrow), 1)
        computed = where(few, low[0], high[0] * slow)
        tiles = where(few, low[1], high[1])
    else:
        computed, tiles = _best([tiled(*shape) for shape in _TUNED])
    rate = machine.streaming(c["memory"]) * _scaled(c, "lone_memory", lone)
    cached = c["cached"] / (1 + c["cached"])
    weights = touched * n * k * width * (1 - cached * warm)
    streamed = roofline.seconds(weights, rate) * overlap(1.0, c["fill"] * machine.units / tiles)
    moved = c["permute"] * rows * (n + k) * 2 + c["spread"] * spread_bytes
    moved = roofline.seconds(moved * (1 - cached * _kept(machine, moved)), rate)
    begun = c.get("lone_launch", 0.0) * lone / machine.clock_hz
    return sustained(c, machine, overlap(computed, streamed) + moved) + begun


def _scaled(c: Constants, name: str, share: Size) -> Size:
    """A factor that applies to a share of 1 and not at all to one of 0."""
    return 1 + share * (c.get(name, 1.0) - 1)


def expected_row_tiles(rows: Size, touched: Size, height: int) -> Size:
    """Tiles of ``height`` rows when each expert has more or less of the ``rows`` than another.

    One for an expert of few rows; half a tile more than filled for one of many.
    """
    filled = rows / touched / height
    return touched * (filled + 0.5 + 0.5 * _exp(-2 * filled))


def _best(candidates: list[tuple[Size, Size]]) -> tuple[Size, Size]:
    """The shortest time, and the number of tiles that has it."""
    seconds, tiles = candidates[0]
    for other, count in candidates[1:]:
        shorter = other < seconds
        tiles = where(shorter, count, tiles)
        seconds = minimum(other, seconds)
    return seconds, tiles


def _kept(machine: Chip, moved: Size) -> Size:
    """Share of the bytes between kernels that the last cache keeps."""
    return _exp(-moved / machine.cache_bytes) if machine.cache_bytes else 0.0


def _exp(value: Size) -> Size:
    if isinstance(value, (int, float)):
        return math.exp(value)
    import numpy as np

    return np.exp(value)
