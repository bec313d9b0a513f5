"""How long attention takes beyond its roofline: of a prompt, and of single queries over a cache.

As the formulas of `forms`: plain arithmetic on floats or arrays, constants dimensionless or cycles.
"""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.forms import (
    IN_FLIGHT_BYTE_PER_S,
    Chip,
    Constants,
    ceil,
    overlap,
    sustained,
)
from gambrel.ops.base import Size, minimum, where
from gambrel.roofline import maximum

#: Rows and columns of an attention tile.
_BLOCK: Final = 128
#: Query rows that a decode tile takes.
_DECODE_ROWS: Final = 64
#: Keys of a latent cache that a piece holds at least.
_LATENT_KEYS: Final = 128
#: Values of keys in a block of decoding: 256 keys of 64, 128 of 128, 64 of 256.
_BLOCK_VALUES: Final = 16384
#: Values of the queries of 16 heads of 128.
_QUERY_VALUES: Final = 2048
#: Rate at which one unit streams alone, byte/s: most of what it can have in flight.
_UNIT_BYTE_PER_S: Final = 0.7 * IN_FLIGHT_BYTE_PER_S
#: How suddenly a cache that is passed over again and again stops to help once it is too small.
_KEPT: Final = 6
#: Width of a head for which tiles are made.
_USUAL_HEAD: Final = 128


def attention(
    c: Constants,
    machine: Chip,
    peak: float,
    *,
    pairs: Size,
    queries: Size,
    longest: Size,
    heads: Size,
    kv_heads: Size,
    batch: Size,
    head_dim: Size,
    traffic_bytes: Size,
    kv_bytes: Size,
) -> Size:
    """Attention of many queries (a prompt, an image).

    A query-key pair costs its two products (``wide`` more for each 128 of the head beyond the
    first, whose tiles are smaller, some of which are padded to ``padded_head``; ``narrow`` more
    for a head of 64, which fills an engine less) and a softmax that takes as long as ``softmax``
    FLOP of them; a query row meets ``padding`` keys more than it sees (blocks on the diagonal),
    with a window 1 + ``edge`` times as many. A tile of 128 rows (of ``wide_rows`` with heads
    wider than 128, where on-chip memory is small) costs ``tile`` cycles to start; ``packed`` is 1
    where the query heads of a key/value head share tiles. No run is shorter than its longest
    tile, whose keys are split over idle units, down to ``keys_split``. A kernel of its own passes
    over keys and values ``append`` times, to write them to the cache. Of what overlaps the
    longest shows (the ``join``-norm).

    Args:
        c: Constants.
        machine: The device.
        peak: Of the matrix engine in this format, FLOP/s.
        pairs: Visible query-key pairs, all heads and sequences.
        queries: Per sequence.
        longest: Keys that the last query sees.
        heads: Query heads.
        kv_heads: Key/value heads.
        batch: Sequences.
        head_dim: Width of a head.
        traffic_bytes: Compulsory bytes.
        kv_bytes: Of them, keys and values that go to a cache; 0 where none is kept.
    """
    per_pair = roofline.seconds(_pair_flops(c, head_dim) * machine.units, peak * c["compute"])
    share = where(c["packed"] > 0, heads / kv_heads, 1.0)
    group = queries * share
    block = where(head_dim > _USUAL_HEAD, c.get("wide_rows", _BLOCK), _BLOCK)
    tiles = batch * heads / share * ceil(group / block)
    start = c["tile"] / machine.clock_hz
    padding = c["padding"] * (1 + c["edge"] * where(longest < queries, 1.0, 0.0))
    padded = pairs + batch * heads * queries * padding
    balanced = (padded * per_pair + tiles * start) / machine.units
    idle = maximum(1.0, minimum(machine.units / tiles, longest / c["keys_split"]))
    tail = minimum(block, group) * (longest + padding) * per_pair / idle + start
    rate = machine.streaming(c["memory"])
    streamed = roofline.seconds(traffic_bytes, rate * _warmed(c, machine, traffic_bytes))
    body = _longer(_longer(balanced, tail, c["join"]), streamed, c["join"])
    return sustained(c, machine, body) + roofline.seconds(c["append"] * kv_bytes, rate)


def on_other_engine(c: Constants, pace: float) -> dict[str, float]:
    """Constants of `attention` where a unit multiplies ``pace`` times as much per cycle.

    A pair takes its two products, F FLOP, at the rate of the matrix engine. What it takes beyond
    them (exponentials, maxima, sums, rescaling, waiting, tiles that a head does not fill) are
    cycles of the unit, which another engine does not change. Of P FLOP per cycle where it was
    measured, with x for ``narrow`` and ``wide``,

        (F · (1 + x) + softmax) / (P · compute) = F / P + [F · ((1 + x) / compute - 1)
                                                           + softmax / compute] / P

    cycles: the bracket over P stays as it is, and F / P becomes F / (``pace`` · P).
    """
    compute = 1 / (1 + pace * (1 / c["compute"] - 1))
    beside = pace * compute / c["compute"]
    scaled = {name: beside * c[name] for name in ("softmax", "narrow", "wide")}
    return {**c, **scaled, "compute": compute}


def decode_attention(
    c: Constants,
    machine: Chip,
    *,
    batch: Size,
    heads: Size,
    kv_heads: Size,
    head_dim: Size,
    keys: Size,
    kv_bytes: Size,
    windowed: bool | Size = False,
    cut: bool | Size = False,
) -> Size:
    """Attention of one query (or a few) per sequence over a cache.

    A tile serves one key/value head of one sequence (of 64 query heads at most; with a window one
    query head where ``pack_window`` is 0). Tiles that are fewer than the units split their keys,
    down to ``keys_split``, where that is shorter although a second kernel of ``combine`` cycles
    then adds the parts. Two times meet, of which the longer shows (the ``join``-norm: smooth,
    without steps at full waves):

    * that of one piece alone: its stream at the rate of a single unit beside its keys;
    * that of all of them: the cache at the bandwidth beside the keys of each unit, and the starts
      of tiles, which hide behind nothing.

    A key takes ``key`` cycles (in proportion to the head, ``wide`` more for each 128 beyond the
    first), and so does the block that a piece is padded to; where a window cuts keys off, another
    ``edge`` of a block and ``late`` cycles before. A tile starts in ``tile`` cycles; where query
    heads share it in ``grouped`` times as many, and ``query`` times for 2,048 values of queries.
    Some libraries have another kernel where heads have keys of their own: ``lone_launch`` more
    cycles, ``lone_memory`` times the bandwidth. Where ``split_lone`` or ``split_shared`` is 0, the
    keys of such heads, or of shared ones, are never split.

    Args:
        c: Constants.
        machine: The device.
        batch: Sequences.
        heads: Query heads.
        kv_heads: Key/value heads.
        head_dim: Width of a head.
        keys: Cached keys that are read.
        kv_bytes: Bytes of one key and one value.
        windowed: Whether the layer has a window.
        cut: Whether it hides part of the keys.
    """
    group = heads / kv_heads
    lone = where(group > 1, 0.0, 1.0)
    packed = where(windowed, c["pack_window"], 1.0)
    sharing = packed * minimum(group, _DECODE_ROWS) + (1 - packed)
    tiles = batch * kv_heads * (packed * ceil(group / _DECODE_ROWS) + (1 - packed) * group)
    may_split = lone * c["split_lone"] + (1 - lone) * c["split_shared"]
    room = minimum(machine.units / tiles, maximum(1.0, keys / c["keys_split"]))
    total_bytes = batch * kv_heads * keys * kv_bytes
    share = minimum(c["memory"] * (lone * c["lone_memory"] + 1 - lone), machine.most)
    rate = machine.streaming(share) * _warmed(c, machine, total_bytes)
    block = c["block"] * minimum(maximum(_BLOCK_VALUES / head_dim, 64.0), 256.0)
    shared = c["grouped"] + c["query"] * sharing * head_dim / _QUERY_VALUES
    start = c["tile"] / machine.clock_hz * (lone + (1 - lone) * shared)

    def cut_into(pieces: Size) -> Size:
        part = keys / pieces
        padded = overlap(part, block) + c["edge"] * block * where(cut, 1.0, 0.0)
        per_key = c["key"] * head_dim / _USUAL_HEAD * _wider(c, head_dim) / machine.clock_hz
        computed = padded * per_key
        alone = overlap(part * kv_bytes / _UNIT_BYTE_PER_S, computed)
        alone = alone + c["late"] / machine.clock_hz * where(cut, 1.0, 0.0)
        filled = tiles * pieces / machine.units
        together = overlap(roofline.seconds(total_bytes, rate), filled * computed) + filled * start
        return _longer(alone, together, c["join"])

    split = cut_into(maximum(1.0, room * may_split)) + c["combine"] / machine.clock_hz
    return minimum(cut_into(1.0), split) + c["lone_launch"] * lone / machine.clock_hz


def latent_decode(
    c: Constants,
    machine: Chip,
    peak: float,
    *,
    batch: Size,
    heads: Size,
    keys: Size,
    widths: Size,
    token_bytes: Size,
) -> Size:
    """Attention of one query per sequence over a latent cache that all heads share.

    A token of the cache is read once for all heads, as keys and as values. The heads fill the
    rows of a tile, ``rows`` at least; that many rows are multiplied for every key. Sequences that
    are fewer than the units split their keys, down to 128 of them; some libraries cut them into
    ``splits`` pieces always (1: never), or start a tile for ``tile_heads`` heads each. Products
    meet the stream imperfectly; a piece alone takes ``key`` cycles per key, and its start
    ``tile`` cycles.

    Args:
        c: Constants.
        machine: The device.
        peak: FLOP/s of the products.
        batch: Sequences.
        heads: Query heads.
        keys: Cached tokens of a sequence.
        widths: Width of a key and of a value together.
        token_bytes: Bytes of a cached token.
    """
    rows = maximum(heads, c["rows"])
    flops = 2 * batch * keys * widths * rows
    computed = roofline.seconds(flops, peak * minimum(c["compute"], 1.0))
    share = minimum(c["memory"], machine.most)
    streamed = batch * keys * token_bytes / machine.streaming(share)
    tiles = batch * ceil(heads / c.get("tile_heads", _DECODE_ROWS))
    pieces = c.get("splits") or maximum(1.0, minimum(machine.units / tiles, keys / _LATENT_KEYS))
    alone = keys / pieces * c["key"] / machine.clock_hz
    starts = c["tile"] / machine.clock_hz * maximum(1.0, tiles * pieces / machine.units)
    return starts + _longer(overlap(computed, streamed), alone, c["join"])


def _longer(a: Size, b: Size, power: float) -> Size:
    """A smooth maximum, the ``power``-norm."""
    most = maximum(maximum(a, b), 1e-30)
    return most * (1 + (minimum(a, b) / most) ** power) ** (1 / power)


def _pair_flops(c: Constants, head_dim: Size) -> Size:
    """The arithmetic of a query-key pair in a prompt, in FLOP of its products."""
    narrow = c["narrow"] * maximum(0.0, _USUAL_HEAD / head_dim - 1)
    widest = maximum(head_dim, c.get("padded_head", 0.0))
    width = where(head_dim > _USUAL_HEAD, widest, head_dim)
    return 4 * width * (_wider(c, head_dim) + narrow) + c["softmax"]


def _wider(c: Constants, head_dim: Size) -> Size:
    """How much longer a product takes because of a wide head."""
    return 1 + c["wide"] * maximum(0.0, head_dim / _USUAL_HEAD - 1)


def _warmed(c: Constants, machine: Chip, traffic_bytes: Size) -> Size:
    """How much faster bytes come that stayed in the last cache level since they were written."""
    if not machine.cache_bytes:
        return 1.0
    return 1 + c["warm"] / (1 + (traffic_bytes / machine.cache_bytes) ** _KEPT)
