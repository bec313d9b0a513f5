"""Matrix multiplications as cuBLAS and rocBLAS run them for PyTorch in fp32.

The output is cut into tiles that units work on in waves; a product with few tiles is split along k.
Every tile pays for its start and end as for some more steps along k. Cards with little power run at
a lower clock than the data sheet's: the rate is also limited by energy per FLOP.
"""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Constants, Machine, ceil
from gambrel.analysis.estimate.torchlib.streams import streamed
from gambrel.ops.base import Size, cube_root, minimum, where
from gambrel.roofline import maximum

#: Share of the TDP that memory and idle parts take.
_NOT_CORES: Final = 0.22
#: Hopper's library takes the first of these tiles (rows, columns) with enough blocks; small tiles
#: read their operands more often and reach only a share of the rate.
_LADDER: Final = ((256, 128, 1.0), (128, 128, 0.97), (128, 64, 0.93), (64, 64, 0.85), (32, 64, 0.7))
#: Pieces along k that are tried.
_PIECES: Final = (1, 2, 4, 8, 16, 32)
#: Blocks per unit below which the next smaller tile is taken.
_ENOUGH: Final = 0.9


def sustained(c: Constants, machine: Machine, peak: float) -> float:
    """FLOP/s that the cooling sustains, at most the peak."""
    joule = float(c["energy_j"])
    if not machine.tdp_w or not joule:
        return peak
    return float(min(peak, roofline.rate((1 - _NOT_CORES) * machine.tdp_w, joule)))


def matmul(c: Constants, machine: Machine, task: Task) -> Size:
    """By the form that the constants are for; a product with one row or column is a stream."""
    view = task.view
    b, m, n, k = view.size("b", 1), view.size("m"), view.size("n"), view.size("k")
    if not task.matrix_peak:  # a compiler made a loop over elements of it
        return streamed(machine, task.traffic_bytes, c["vector"])
    rate = sustained(c, machine, task.matrix_peak)
    form = _laddered if c["ladder"] else _padded
    seconds = form(c, machine, task, rate, b, m, n, k)
    vector = streamed(machine, task.traffic_bytes, c["vector"])
    return where(
        minimum(m, n) == 1, maximum(vector, roofline.seconds(task.matrix_flops, rate)), seconds
    )


def _laddered(
    c: Constants, machine: Machine, task: Task, rate: float, b: Size, m: Size, n: Size, k: Size
) -> Size:
    """The first tile with enough blocks."""
    unit = roofline.ratio(rate, machine.units)
    found: Size = None
    for rows, columns, share in reversed(_LADDER):
        blocks = b * ceil(m / rows) * ceil(n / columns)
        # Where there are few blocks, the product is split along k until every unit has one.
        pieces = maximum(1.0, minimum(machine.units / blocks, k / c["k_split"]))
        waves = maximum(ceil(blocks * pieces / machine.units), 1.0)
        steps = k / pieces + c["k_fill"]
        seconds = waves * roofline.seconds(2 * rows * columns * steps, unit * c["compute"] * share)
        enough = (blocks >= _ENOUGH * machine.units) & (2 * m > rows) & (2 * n > columns)
        found = seconds if found is None else where(enough, seconds, minimum(found, seconds))
    memory = streamed(machine, task.traffic_bytes, c["memory"])
    cap = roofline.seconds(task.matrix_flops, c["cap"] * rate)
    return maximum(maximum(found, cap), memory)


def _padded(
    c: Constants, machine: Machine, task: Task, rate: float, b: Size, m: Size, n: Size, k: Size
) -> Size:
    """Partly filled tiles and waves cost a share; the best number of pieces along k."""
    unit = roofline.ratio(rate, machine.units)
    rows, columns = c["rows"], c["columns"]
    blocks = b * ceil(m / rows) * ceil(n / columns)
    best: Size = None
    for pieces in _PIECES if c["splits"] else _PIECES[:1]:
        filled = blocks * pieces / machine.units
        waves = (1 - c["wave"]) * filled + c["wave"] * ceil(filled)
        waves = maximum(waves, 1.0) if c["splits"] else waves
        tile = roofline.seconds(
            2 * rows * columns * (k / pieces + c["k_fill"]), unit * c["compute"]
        )
        seconds = waves * tile
        if pieces > 1:  # partial sums are written and read
            seconds = seconds + streamed(machine, 8 * pieces * b * m * n, c["memory"])
        best = seconds if best is None else minimum(best, seconds)
    memory = streamed(machine, task.traffic_bytes, c["memory"])
    return cube_root(best * best * best + memory * memory * memory)
