"""How long a kernel takes beyond its roofline: one formula per class of op.

Plain arithmetic on floats or on numpy arrays alike. All constants are dimensionless or in clock
cycles, so that they can be carried to another device of the same kind:

* ``launch``: cycles from the start of an empty kernel to its end;
* ``compute``: share of the peak that the inner loop sustains on large tiles;
* ``memory``: share of the bandwidth that streaming reaches where the bandwidth per unit is small.
  A unit keeps only so many bytes in flight (Little's law), so that the share falls as the bandwidth
  behind each unit rises: ``memory / (1 + byte_per_s / units / 120 GB/s)``. The 120 GB/s make
  A100 (19 GB/s per unit), H100 (25), H200 (36) and B200 (52) consistent.

Every function returns the seconds of work, without the launch, unless it says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from gambrel import roofline
from gambrel.ops.base import Size, log2, minimum, root, where
from gambrel.roofline import maximum

Constants: TypeAlias = Mapping[str, float]

#: Output tiles (rows, columns) that a matmul library chooses from: a large one, a small one.
TILES: Final = ((128, 192), (64, 64))
#: A tile for few rows, of libraries with the constant ``thin``.
THIN: Final = (16, 64)
#: Rows and columns of the tiles that are chosen by the number of rows alone.
_TILE_ROWS: Final = (64, 128)
#: How suddenly a cache that is passed over again and again stops to help once it is too small.
_KEPT: Final = 6
#: The constant ``by_rows`` of CUTLASS on Ada.
_ADA: Final = 2
#: That of 4-bit products on Blackwell.
_BLACKWELL: Final = 3
#: Bandwidth per unit at which the bytes in flight of a unit halve the share, byte/s.
IN_FLIGHT_BYTE_PER_S: Final = 120e9


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """What the formulas know of a device.

    Attributes:
        units: Multiprocessors (or cores) that share the work.
        clock_hz: Boost clock.
        byte_per_s: Bandwidth of the main memory.
        cache_bytes: Capacity of the last cache level; 0 where unknown.
        power: Demand for power at full clock over what the cooling allows, in units of H100 SXM
            (peak · clock² / TDP); 0 where unknown.
        vector_flop_per_s: Peak of the vector units in fp32; 0 where unknown.
        tdp_w: Power that the cooling is made for; 0 where unknown.
    """

    units: float
    clock_hz: float
    byte_per_s: float
    cache_bytes: float = 0.0
    power: float = 0.0
    vector_flop_per_s: float = 0.0
    tdp_w: float = 0.0

    @property
    def most(self) -> float:
        """The share (constant ``memory``) that would attain the whole bandwidth."""
        return 1 + self.byte_per_s / self.units / IN_FLIGHT_BYTE_PER_S

    def streaming(self, share: Size) -> Size:
        """Attained bandwidth, byte/s, for the constant ``memory``."""
        return share * self.byte_per_s / self.most


def launch(c: Constants, machine: Chip) -> float:
    """Seconds of an empty kernel."""
    return c["launch"] / machine.clock_hz


def sustained(c: Constants, machine: Chip, seconds: Size) -> Size:
    """The time when long kernels run at the clock that the power limit sustains.

    The demand for power grows with peak · clock² (voltage follows the clock). Beyond ``headroom``
    the clock must fall in proportion; in kernels of ``settle`` seconds it has fallen halfway.
    """
    excess = maximum(machine.power / c["headroom"] - 1, 0.0) if machine.power else 0.0
    return seconds * (1 + excess * seconds / (seconds + c["settle"]))


def overlap(a: Size, b: Size) -> Size:
    """Two resources that overlap imperfectly: the 2-norm, between their maximum and their sum."""
    return root(a * a + b * b)


def matmul(
    c: Constants,
    machine: Chip,
    peak: float,
    *,
    m: Size,
    n: Size,
    k: Size,
    traffic_bytes: Size,
    b: Size = 1,
    quantized_bytes: Size = 0.0,
    pace: float = 1.0,
    padded: bool = False,
) -> Size:
    """A GEMM, in seconds of work.

    The output is cut into tiles. Units work in waves; a last, partly filled wave costs only the
    share ``wave`` of what naive quantisation says, as libraries balance it (stream-K). Fewer tiles
    than units are split along k, down to pieces of ``k_split``. A tile pays ``k_fill`` more steps
    along k to fill and drain its pipeline, and ``operand`` for reading operands of a small tile.
    Activations that are quantised on the way (fp8, int8) are first passed over ``quantize`` times;
    a row, whose scale one unit looks for, costs that unit ``row`` cycles. Row counts that are no
    multiple of 16 cost the share ``unaligned`` more (masked, narrower accesses); where rows may be
    ``padded`` to the next one no more is paid than that takes, and time never falls as rows are
    added. A library with
    ``by_rows`` = 1 to 3 looks at the number of rows alone when it chooses its tile
    (`tile_by_rows`), and may read rows again that the cache has lost (``reread``); one with
    ``thin`` has a tile for few rows, which matters where a unit computes little per byte.
    ``k_fill`` and ``k_split`` stand for latencies, in steps of the 16-bit engine that they were
    measured on; an engine of ``pace`` times its peak (fp32 on vector units) takes longer over a
    step, so that fewer of them fill its pipeline.
    """
    aligned = 16 * ceil(m / 16)
    computed = _tiled(c, machine, peak, m=m, n=n, k=k, b=b, pace=pace)
    computed = computed * (1 + c["unaligned"] * minimum(aligned - m, 1))
    if padded:
        whole = _tiled(c, machine, peak, m=aligned, n=n, k=k, b=b, pace=pace)
        computed = minimum(computed, whole)
    rate = machine.streaming(c["memory"])
    if c.get("reread"):
        traffic_bytes = traffic_bytes + b * _read_again(c, machine, m=m, n=n, k=k)
    rows_of_unit = ceil(m * b / machine.units) * minimum(quantized_bytes, 1.0)
    quantized = roofline.seconds(c["quantize"] * quantized_bytes, rate)
    quantized = quantized + c["row"] * rows_of_unit / machine.clock_hz
    return (
        sustained(c, machine, overlap(computed, roofline.seconds(traffic_bytes, rate))) + quantized
    )


def _tiled(
    c: Constants, machine: Chip, peak: float, *, m: Size, n: Size, k: Size, b: Size, pace: float
) -> Size:
    """Seconds of the output tiles of a product, with the tile that takes least."""
    best: Size = None
    for rows, columns in _tiles(c, m):
        tiles = b * ceil(m / rows) * ceil(n / columns)
        pieces = maximum(1.0, minimum(machine.units / tiles, k / (c["k_split"] * pace)))
        filled = tiles * pieces / machine.units
        waves = maximum(1.0, filled + minimum(c["wave"], 1.0) * (ceil(filled) - filled))
        slow = 1 + c["operand"] * (1 / rows + 1 / columns)
        flops = 2 * rows * columns * (k / pieces + c["k_fill"] * pace)
        work = waves * flops * slow * machine.units
        seconds = roofline.seconds(work, peak * c["compute"])
        best = seconds if best is None else minimum(best, seconds)
    return best


def _tiles(c: Constants, m: Size) -> tuple[tuple[Size, Size], ...]:
    """The tiles that a library has, or the one that it takes for so many rows."""
    if c["by_rows"]:
        return (tile_by_rows(m, c["by_rows"]),)
    return (*TILES, THIN) if c.get("thin") else TILES


def _read_again(c: Constants, machine: Chip, *, m: Size, n: Size, k: Size) -> Size:
    """Bytes of the left operand that come from memory more than once.

    Units walk down the rows of the result first, over as many columns as one wave covers. Rows that
    the last cache does not hold until then are read again with each further band of columns,
    ``reread`` bytes of each value.
    """
    rows, columns = tile_by_rows(m, c["by_rows"])
    bands = ceil(n / columns) / maximum(1.0, machine.units / ceil(m / rows))
    kept = 1 / (1 + (m * k / machine.cache_bytes) ** _KEPT) if machine.cache_bytes else 0.0
    return c["reread"] * m * k * maximum(bands - 1, 0.0) * (1 - kept)


def tile_by_rows(m: Size, library: float = 1) -> tuple[Size, Size]:
    """The tile of a library that dispatches on the number of rows.

    CUTLASS on Hopper (1): 64×64, 64×128, 128×128. On Ada (2) also 16×64 and 32×64, for fewer rows.
    TensorRT-LLM's 4-bit products on Blackwell (3): 128×128 always.
    """
    if library == _BLACKWELL:
        return _TILE_ROWS[1], _TILE_ROWS[1]
    if library == _ADA:
        rows = where(m <= 16, 16, where(m <= 64, 32, where(m <= 256, 64, 128)))
        return rows, where(m <= 128, 64, 128)
    rows = where(m <= _TILE_ROWS[1], _TILE_ROWS[0], _TILE_ROWS[1])
    return rows, where(m <= _TILE_ROWS[0], _TILE_ROWS[0], _TILE_ROWS[1])


def stream(
    c: Constants, machine: Chip, vector_peak: float, *, traffic_bytes: Size, flops: Size
) -> Size:
    """Anything that reads, computes little, and writes."""
    computed = flops / (vector_peak * c["vector"]) if vector_peak else 0.0
    return overlap(traffic_bytes / machine.streaming(c["memory"]), computed)


def collective(c: Constants, link_byte_per_s: float, *, link_bytes: Size, devices: Size) -> Size:
    """A collective over ``devices``, in seconds, its start included.

    A start of ``base_s`` and of ``step_s`` for every further device; then the bytes over the
    attained share of the link; between both regimes protocols change, which the geometric mean of
    the two, ``middle`` times, describes.
    """
    start = c["base_s"] + c["step_s"] * (devices - 2)
    moved = roofline.seconds(link_bytes, c["share"] * link_byte_per_s)
    return start + moved + c["middle"] * root(start * moved)


def custom_all_reduce(
    c: Constants, link_byte_per_s: float, *, payload: Size, devices: Size, share: float
) -> Size:
    """The all-reduce that serving engines bring for short messages, in seconds, start included.

    Every device reads the whole message of every other and adds (one step), or reads its part of
    each, adds, and hands the sum out (two steps, with a second meeting of all devices): whichever
    is shorter. ``share`` of the library's rate is attained.
    """
    floor, rate = c["short_s"], share * c["share"] * link_byte_per_s
    one = floor + roofline.seconds(payload * (devices - 1), rate)
    two = 1.5 * floor + roofline.seconds(2 * payload * (devices - 1) / devices, rate)
    return minimum(one, two)


#: The largest share of a link that rings attain: all-reduces of four H100, all-gathers of eight.
RING_SHARE: Final = 0.83


def over_network(
    c: Constants, byte_per_s: float, *, network_bytes: Size, nodes: Size, latency_s: float
) -> Size:
    """The part of a collective between nodes, in seconds.

    The bytes at the share of the link that was attained within a node, but no more than rings reach
    there (switches that add help only within it), and a message's latency for each level of a tree
    over the nodes, there and back.
    """
    moved = roofline.seconds(network_bytes, min(c["share"], RING_SHARE) * byte_per_s)
    return moved + 2 * log2(nodes) * latency_s


def ceil(value: Size) -> Size:
    """The next whole number, of a number or of each in an array."""
    if isinstance(value, (int, float)):
        return math.ceil(value)
    import numpy as np

    return np.ceil(value)


def floor(value: Size) -> Size:
    """The whole part, of a number or of each in an array."""
    if isinstance(value, (int, float)):
        return math.floor(value)
    import numpy as np

    return np.floor(value)
