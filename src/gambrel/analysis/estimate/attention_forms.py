"""How long attention takes beyond its roofline: of a prompt, and of single queries over a cache.

As the formulas of `forms`: plain arithmetic on floats or arrays, constants dimensionless or cycles.
"""

from __future__ import annotations

from typing import Final

from gambrel.analysis.estimate.forms import Constants, Machine, ceil, overlap, sustained
from gambrel.ops.base import Size, maximum, minimum, where

#: Rows and columns of an attention tile.
_BLOCK: Final = 128
#: Query rows that a decode tile is padded to.
_DECODE_ROWS: Final = 64
#: Width of a head for which tiles are made.
_USUAL_HEAD: Final = 128


def attention(
    c: Constants,
    machine: Machine,
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
    first, whose tiles are smaller) and a softmax that takes as long as ``softmax`` FLOP of them; a
    query row meets ``padding`` keys more than it sees (blocks on the diagonal), with a window
    1 + ``edge`` times as many. A tile of 128 rows costs ``tile`` cycles to start; ``packed`` is 1
    where the query heads of a key/value head share tiles. No run is shorter than its longest tile.
    A kernel of its own passes over keys and values ``append`` times, to write them to the cache.

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
        kv_bytes: Of them, keys and values.
    """
    flops = 4 * head_dim * _wider(c, head_dim) + c["softmax"]
    per_pair = flops * machine.units / (peak * c["compute"])
    share = where(c["packed"] > 0, heads / kv_heads, 1.0)
    group = queries * share
    tiles = batch * heads / share * ceil(group / _BLOCK)
    start = c["tile"] / machine.clock_hz
    padding = c["padding"] * (1 + c["edge"] * where(longest < queries, 1.0, 0.0))
    padded = pairs + batch * heads * queries * padding
    balanced = (padded * per_pair + tiles * start) / machine.units
    tail = minimum(_BLOCK, group) * (longest + padding) * per_pair + start
    rate = machine.streaming(c["memory"])
    streamed = traffic_bytes / (rate * _warmed(c, machine, traffic_bytes))
    body = overlap(overlap(balanced, tail), streamed)
    return sustained(c, machine, body) + c["append"] * kv_bytes / rate


def decode_attention(
    c: Constants,
    machine: Machine,
    peak: float,
    *,
    batch: Size,
    heads: Size,
    kv_heads: Size,
    head_dim: Size,
    keys: Size,
    kv_bytes: Size,
    windowed: bool | Size = False,
) -> Size:
    """Attention of one query (or a few) per sequence over a cache.

    A tile serves one key/value head of one sequence: a start of ``tile`` cycles (more for wide
    heads; ``grouped`` more where query heads share it, ``group`` more for each 16 of them), then
    the stream of its keys and values, at most ``single`` times the bandwidth share of one unit.
    Fewer tiles than units split the keys, down to ``keys_split`` (where a head has keys of its own,
    only if ``split_lone`` is 1); a second kernel of ``combine`` cycles then adds the parts. With a
    window query heads share a tile only if ``pack_window`` is 1. Efficiency rises with the bytes
    of the cache: the start is paid once a tile.

    Args:
        c: Constants.
        machine: The device.
        peak: Of the matrix engine in this format, FLOP/s.
        batch: Sequences.
        heads: Query heads.
        kv_heads: Key/value heads.
        head_dim: Width of a head.
        keys: Cached keys that are read.
        kv_bytes: Bytes of one key and one value.
        windowed: Whether a window hides part of the keys.
    """
    group = heads / kv_heads
    packed = where(windowed, c["pack_window"], 1.0)
    may_split = where(group > 1, 1.0, c["split_lone"])
    tiles = batch * kv_heads * (packed * ceil(group / _DECODE_ROWS) + (1 - packed) * group)
    room = minimum(machine.units / tiles, maximum(1.0, keys / c["keys_split"]))
    pieces = maximum(1.0, room * may_split)
    filled = tiles * pieces / machine.units
    waves = maximum(1.0, filled + c["wave"] * (ceil(filled) - filled))
    total_bytes = batch * kv_heads * keys * kv_bytes
    share = machine.streaming(c["memory"]) / machine.units * _warmed(c, machine, total_bytes)
    single = minimum(c["single"], 1 / minimum(1.0, filled))
    streamed = keys / pieces * kv_bytes / (share * single)
    padded = 4 * head_dim * _wider(c, head_dim) * _DECODE_ROWS * machine.units
    padded = padded / (peak * c["compute"])
    start = c["tile"] / machine.clock_hz * (head_dim / 128) ** 0.5
    shared = c["grouped"] * where(group > 1, 1.0, 0.0)
    start = start * (1 + c["group"] * minimum(group, _DECODE_ROWS) / 16 + shared)
    body = overlap(streamed, keys / pieces * padded)
    combine = c["combine"] / machine.clock_hz * minimum(pieces - 1, 1.0)
    return (
        waves * (c["serial"] * (start + body) + (1 - c["serial"]) * overlap(start, body)) + combine
    )


def _wider(c: Constants, head_dim: Size) -> Size:
    """How much longer a product takes because of a wide head."""
    return 1 + c["wide"] * maximum(0.0, head_dim / _USUAL_HEAD - 1)


def _warmed(c: Constants, machine: Machine, traffic_bytes: Size) -> Size:
    """How much faster bytes come that stayed in the last cache level since they were written."""
    if not machine.cache_bytes:
        return 1.0
    return 1 + c["warm"] / (1 + (traffic_bytes / machine.cache_bytes) ** 2)
