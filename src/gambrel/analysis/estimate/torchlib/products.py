"""Matrix multiplications as cuBLAS and rocBLAS run them for PyTorch in fp32.

The output is cut into tiles that units work on in waves; a product with few tiles is split along k.
Libraries take about the fastest tile for a single product, and before Hopper one and the same for
batches of them. Every tile pays for its start and end as for some more steps along k. Operands that
the last cache does not hold are read again by every wave of tiles that needs them. Cards with
little power run at a lower clock than the data sheet's: energy per FLOP limits the rate as well.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gambrel import roofline
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip, Constants, ceil, floor
from gambrel.analysis.estimate.torchlib.streams import streamed
from gambrel.dtypes import width_bytes
from gambrel.ops.base import Size, minimum, where
from gambrel.roofline import maximum

#: Share of the TDP that memory and idle parts take.
_NOT_CORES: Final = 0.22
#: Hopper's library takes the first of these tiles (rows, columns) with enough blocks; small tiles
#: read their operands more often and reach only a share of the rate.
_LADDER: Final = ((256, 128, 1.0), (128, 128, 0.97), (128, 64, 0.93), (64, 64, 0.85), (32, 64, 0.7))
#: What it takes for a batch of products, however small: as Ampere's does (by the kernels' names).
_OF_BATCHES: Final = _LADDER[1]
#: Outputs of the tile to which ``compute``, ``splits`` and ``occupancy`` refer: 64 x 128.
_TILE: Final = 8192
#: Outputs of it for each of the rows and columns that it reads at a step.
_REUSE: Final = 8192 / 192
#: Outputs that the accumulators of a unit hold: so many are computed at the same time.
_RESIDENT: Final = 32_768
#: Share of the last cache that keeps an operand from one wave to the next.
_KEPT: Final = 0.5
#: Last cache of a device that publishes none, byte.
_USUAL_CACHE: Final = 4e6
#: Rows of an operand that blocks which run at the same time reach, at most.
_NEAR: Final = 2000
#: Blocks of 256 threads that a unit of Maxwell and Pascal holds: those of a wave.
_HELD: Final = 4
#: What their library takes a tile of 64 x 64 to cost, relative to 128 x 32, on units of 64 lanes
#: and on those of 128: by the kernels' names in the rows of P100 and P4, which they tell right in
#: four of five products that are not split.
_SQUARE: Final = (1.03, 1.001)
#: fp32 lanes of a unit between those.
_LANES: Final = 96
#: Blocks per unit below which the next smaller tile is taken.
_ENOUGH: Final = 0.9


class _Tile(NamedTuple):
    """Rows and columns of a tile.

    Attributes:
        rows: Of the result.
        columns: Of the result.
        slow: How often ``edge`` counts: operands read for an output, relative to 64 x 128, less 1.
        weight: What the library takes a tile to cost.
        held: Blocks of it that a unit runs at the same time; 0 where the library takes the fastest.
    """

    rows: float
    columns: float
    slow: float
    weight: Size = 1.0
    held: float = 0.0


def _tile(rows: float, columns: float) -> _Tile:
    reads = (rows + columns) / (rows * columns) * _REUSE
    return _Tile(rows=rows, columns=columns, slow=reads - 1)


#: Tiles of cuBLAS's fp32 kernels from Volta to Ampere, by their names: columns of the result come
#: first there.
_TILES: Final = tuple(
    _tile(*sides) for sides in ((128, 128), (64, 128), (32, 128), (128, 32), (32, 64), (32, 32))
)


def _maxwell(machine: Chip) -> tuple[_Tile, ...]:
    """Tiles of Maxwell and Pascal, all of 4,096 outputs.

    The first and the last have 256 threads, 64 x 64 has 64, so that a unit holds twice as many of
    it. The library takes the tile that gives a unit the fewest blocks, with weights, though the
    first runs faster than the others.
    """
    lanes = roofline.ratio(machine.vector_flop_per_s, 2 * machine.clock_hz * machine.units)
    square = where(lanes > _LANES, _SQUARE[1], _SQUARE[0])
    return (
        _Tile(rows=128, columns=32, slow=0.0, weight=1.0, held=_HELD),
        _Tile(rows=64, columns=64, slow=1.0, weight=square, held=2 * _HELD),
        _Tile(rows=32, columns=128, slow=1.0, weight=1.3, held=_HELD),
    )


def sustained(c: Constants, machine: Chip, peak: Size) -> Size:
    """FLOP/s that the cooling sustains, at most the peak."""
    joule = c["energy_j"]
    if not machine.tdp_w or not joule:
        return peak
    return minimum(peak, roofline.rate((1 - _NOT_CORES) * machine.tdp_w, joule))


def matmul(c: Constants, machine: Chip, task: Task) -> Size:
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
    c: Constants, machine: Chip, task: Task, rate: float, b: Size, m: Size, n: Size, k: Size
) -> Size:
    """The first tile with enough blocks; for a batch the one tile that the library takes."""
    unit = roofline.ratio(rate, machine.units)
    one: Size = None
    for rows, columns, share in reversed(_LADDER):
        blocks = b * ceil(m / rows) * ceil(n / columns)
        # Where there are few blocks, the product is split along k until every unit has one.
        pieces = maximum(1.0, minimum(machine.units / blocks, k / c["k_split"]))
        waves = maximum(ceil(blocks * pieces / machine.units), 1.0)
        steps = k / pieces + c["k_fill"]
        seconds = waves * roofline.seconds(2 * rows * columns * steps, unit * c["compute"] * share)
        enough = (blocks >= _ENOUGH * machine.units) & (2 * m > rows) & (2 * n > columns)
        one = seconds if one is None else where(enough, seconds, minimum(one, seconds))
    rows, columns, share = _OF_BATCHES
    blocks = b * ceil(m / rows) * ceil(n / columns)
    area = rows * columns * maximum(ceil(blocks / machine.units), 1.0)
    many = roofline.seconds(2 * area * (k + c["k_fill"]), unit * c["compute"] * share)
    memory = streamed(machine, task.traffic_bytes, c["memory"])
    cap = roofline.seconds(task.matrix_flops, c["cap"] * rate)
    return c["start_s"] + maximum(maximum(where(b > 1, many, one), cap), memory)


def _tiled(
    c: Constants, machine: Chip, task: Task, peak: float, b: Size, m: Size, n: Size, k: Size
) -> Size:
    """The tile that the library takes, at the clock that a kernel of that length runs at."""
    unit = roofline.ratio(peak * c["compute"], machine.units)
    best: Size = None
    least: Size = None
    for tile in _choices(c, machine):
        area = tile.rows * tile.columns
        blocks = b * ceil(m / tile.rows) * ceil(n / tile.columns)
        pieces = _pieces(c, machine, tile, blocks, k)
        filled = blocks * pieces / machine.units
        waves = (1 - c["wave"]) * filled + c["wave"] * ceil(filled)
        # At least one block, and where blocks are small so many as hide their latency.
        waves = maximum(waves, maximum(1.0, c["occupancy"] * _TILE / area))
        steps = k / pieces + c["k_fill"]
        seconds = waves * roofline.seconds(2 * area * steps, unit)
        seconds = seconds * (1 + c["edge"] * tile.slow)
        seconds = seconds * _strided(c, machine, task, filled, m, n, k)
        seconds = seconds * throttled(c, machine, peak * c["compute"], seconds)
        memory = _moving(c, machine, task, tile, pieces, b, m, n, k)
        seconds = (seconds**3 + memory**3) ** (1 / 3)
        cost = ceil(filled) / pieces * tile.weight if tile.held else seconds
        best = seconds if best is None else where(cost < least, seconds, best)
        least = cost if least is None else minimum(cost, least)
    return c["start_s"] + best


def _pieces(c: Constants, machine: Chip, tile: _Tile, blocks: Size, k: Size) -> Size:
    """Into how many pieces the library cuts the sums of a product with few blocks."""
    if not c["splits"]:
        return 1.0
    if tile.held:  # so many as units hold, and two at least where that leaves room
        wave = tile.held * machine.units
        wanted = maximum(floor(wave / blocks + 0.5), where(blocks < wave, 2.0, 1.0))
    else:
        wanted = floor(c["splits"] * machine.units * _TILE / (tile.rows * tile.columns) / blocks)
    return maximum(1.0, minimum(wanted, floor(k / c["k_split"])))


def _choices(c: Constants, machine: Chip) -> tuple[_Tile, ...]:
    """The tiles that the library has."""
    if c["rows"] and c["columns"]:
        return (_tile(c["rows"], c["columns"]),)
    return _maxwell(machine) if c["maxwell"] else _TILES


def _moving(
    c: Constants, machine: Chip, task: Task, tile: _Tile, pieces: Size,
    b: Size, m: Size, n: Size, k: Size,
) -> Size:  # fmt: skip
    """Operands and results through memory.

    Blocks start along a row of tiles, then along the next. So many as units hold run together and
    read an operand once; the next ones read it again, unless the cache kept it.
    """
    width = width_bytes(task.view.operand_dtype(2))
    down, across = ceil(m / tile.rows), ceil(n / tile.columns)
    together = machine.units * _RESIDENT / (tile.rows * tile.columns) / pieces
    together = maximum(together, 1.0)
    kept = _KEPT * (machine.cache_bytes or _USUAL_CACHE)
    left = where(width * m * k <= kept, 1.0, maximum(across / together, 1.0))
    down = down / maximum(together / across, 1.0)
    right = where(width * n * k <= kept, 1.0, maximum(down, 1.0))
    written = width * b * m * n
    again = width * b * k * (m * (left - 1) + n * (right - 1))
    operands = maximum(task.traffic_bytes - written, 0.0) + again
    # Partial sums are written and read.
    written = written + where(pieces > 1, 8 * pieces * b * m * n, 0.0)
    return streamed(machine, operands, c["memory"]) + streamed(machine, written, c["store"])


def _strided(
    c: Constants, machine: Chip, task: Task, filled: Size, m: Size, n: Size, k: Size
) -> Size:
    """How much longer the operands take where their rows lie far apart in memory.

    Blocks that start together read the same rows at the same time. Those of later waves start one
    by one and drift apart along k, and the further the longer it is: where the rows that they share
    are larger than the last cache (by the factor ``reach``), each reads its own. ``drift`` is how
    many waves it takes until half of that shows. Rows at a distance that is a multiple of all
    memory channels together wait for one channel.

    Args:
        c: Constants.
        machine: The device.
        task: The product.
        filled: Blocks of a unit.
        m: Rows of the result.
        n: Columns of the result.
        k: Length of the sums.
    """
    stride = k * width_bytes(task.view.operand_dtype(2))
    slower: Size = 1.0
    if c["reach"]:
        near = (minimum(m, _NEAR) + minimum(n, _NEAR)) / 2
        cache = c["reach"] * (machine.cache_bytes or _USUAL_CACHE)
        apart = maximum(1.0, stride * near / cache) ** c["reach_power"] - 1
        waves = (filled / (_HELD * c["drift"])) ** 2
        slower = 1 + apart * waves / (1 + waves)
    if c["channels_bytes"]:
        slower = where(stride % c["channels_bytes"] == 0, c["one_channel"], slower)
    return slower


def throttled(c: Constants, machine: Chip, rate: float, seconds: Size) -> Size:
    """How much longer a kernel takes at the clock that the cooling sustains when it is long.

    Args:
        c: Constants.
        machine: The device.
        rate: FLOP/s at the full clock.
        seconds: Of the kernel at that clock; after ``settle_s`` it has fallen halfway.
    """
    excess = roofline.ratio(rate, sustained(c, machine, rate)) - 1
    return 1 + excess * seconds / (seconds + c["settle_s"])
