"""Matrix multiplications as cuBLAS and rocBLAS run them for PyTorch in fp32.

The output is cut into tiles that units work on in waves; a product with few tiles is split along k.
Libraries take about the fastest tile for a single product, and before Hopper one and the same for
batches of them. Every tile pays for its start and end as for some more steps along k. Cards with
little power run at a lower clock than the data sheet's: energy per FLOP limits the rate as well.
"""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Constants, Machine, ceil, floor
from gambrel.analysis.estimate.torchlib.streams import streamed
from gambrel.dtypes import width_bytes
from gambrel.ops.base import Size, minimum, where
from gambrel.roofline import maximum

#: Share of the TDP that memory and idle parts take.
_NOT_CORES: Final = 0.22
#: Hopper's library takes the first of these tiles (rows, columns) with enough blocks; small tiles
#: read their operands more often and reach only a share of the rate.
_LADDER: Final = ((256, 128, 1.0), (128, 128, 0.97), (128, 64, 0.93), (64, 64, 0.85), (32, 64, 0.7))
#: Tiles (rows, columns) of cuBLAS's fp32 kernels before Hopper, by their names: columns of the
#: result come first there.
_TILES: Final = ((128, 128), (64, 128), (32, 128), (128, 32), (32, 64), (32, 32))
#: Outputs of the tile to which ``compute``, ``splits`` and ``occupancy`` refer: 64 x 128.
_TILE: Final = 8192
#: Outputs of it for each of the rows and columns that it reads at a step.
_REUSE: Final = 8192 / 192
#: Rows of an operand that blocks which run at the same time reach, at most.
_NEAR: Final = 2000
#: Blocks per unit below which the next smaller tile is taken.
_ENOUGH: Final = 0.9


def sustained(c: Constants, machine: Machine, peak: Size) -> Size:
    """FLOP/s that the cooling sustains, at most the peak."""
    joule = c["energy_j"]
    if not machine.tdp_w or not joule:
        return peak
    return minimum(peak, roofline.rate((1 - _NOT_CORES) * machine.tdp_w, joule))


def matmul(c: Constants, machine: Machine, task: Task) -> Size:
    """By the form that the constants are for; a product with one row or column is a stream."""
    view = task.view
    b, m, n, k = view.size("b", 1), view.size("m"), view.size("n"), view.size("k")
    if not task.matrix_peak:  # a compiler made a loop over elements of it
        return streamed(machine, task.traffic_bytes, c["vector"])
    rate = sustained(c, machine, task.matrix_peak)
    if c["ladder"]:
        seconds = _laddered(c, machine, task, rate, b, m, n, k)
    else:
        seconds = _tiled(c, machine, task, task.matrix_peak, b, m, n, k)
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


def _tiled(
    c: Constants, machine: Machine, task: Task, peak: float, b: Size, m: Size, n: Size, k: Size
) -> Size:
    """The fastest of a few tiles, at the clock that a kernel of that length runs at."""
    own = int(c["rows"]), int(c["columns"])
    unit = roofline.ratio(peak * c["compute"], machine.units)
    slower = _strided(c, task, m, n, k)
    best: Size = None
    for rows, columns in (own,) if all(own) else _TILES:
        area = rows * columns
        blocks = b * ceil(m / rows) * ceil(n / columns)
        pieces: Size = 1.0
        if c["splits"]:
            wanted = floor(c["splits"] * machine.units * _TILE / area / blocks)
            pieces = maximum(1.0, minimum(wanted, floor(k / c["k_split"])))
        filled = blocks * pieces / machine.units
        waves = (1 - c["wave"]) * filled + c["wave"] * ceil(filled)
        # At least one block, and where blocks are small so many as hide their latency.
        waves = maximum(waves, maximum(1.0, c["occupancy"] * _TILE / area))
        # Operands read per output, relative to the tile whose share ``compute`` is.
        reads = (rows + columns) / area * _REUSE
        steps = k / pieces + c["k_fill"]
        share = 1 + c["edge"] * (reads - 1)
        seconds = waves * roofline.seconds(2 * area * steps, unit) * share * slower
        # Partial sums are written and read.
        partial = where(pieces > 1, 8 * pieces * b * m * n, 0.0)
        memory = streamed(machine, task.traffic_bytes + partial, c["memory"])
        seconds = (seconds**3 + memory**3) ** (1 / 3)
        best = seconds if best is None else minimum(best, seconds)
    return c["start_s"] + best * throttled(c, machine, peak * c["compute"], best)


def _strided(c: Constants, task: Task, m: Size, n: Size, k: Size) -> Size:
    """How much longer the operands take where their rows lie far apart in memory.

    Every step reads a piece of all rows of a tile. Rows of many kilobytes lie in as many pages, and
    older devices translate addresses for few of these at a time; rows at a distance that is a
    multiple of all memory channels together wait for one channel.
    """
    stride = k * width_bytes(task.view.operand_dtype(2))
    slower: Size = 1.0
    if c["reach_bytes"]:
        near = (minimum(m, _NEAR) * minimum(n, _NEAR)) ** 0.5
        slower = maximum(1.0, stride * near / c["reach_bytes"]) ** c["reach_power"]
    if c["channels_bytes"]:
        slower = where(stride % c["channels_bytes"] == 0, c["one_channel"], slower)
    return slower


def throttled(c: Constants, machine: Machine, rate: float, seconds: Size) -> Size:
    """How much longer a kernel takes at the clock that the cooling sustains when it is long.

    Args:
        c: Constants.
        machine: The device.
        rate: FLOP/s at the full clock.
        seconds: Of the kernel at that clock; after ``settle_s`` it has fallen halfway.
    """
    excess = roofline.ratio(rate, sustained(c, machine, rate)) - 1
    return 1 + excess * seconds / (seconds + c["settle_s"])
