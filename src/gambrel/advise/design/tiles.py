"""The best tiling of a layer for any on-chip memory, by exact search.

A layer is computed tile by tile: one operand stays on chip (the inputs, the weights or the
partial results) while the others stream past it. For a GEMM, whose every operand lacks exactly one
loop, the six orders of the three loops fall into these three classes, and within a class the loop
that the resident operand lacks needs no tile. Only tile sizes ceil(size / trips) can be best: any
other has as many trips and takes more room. So the search over orders and tile sizes is exact and
small, and its result is not one tiling but a curve: on-chip bytes against DRAM bytes, as
Huang et al. draw it ("Mind the gap: attainable data movement and operational intensity bounds for
tensor algorithms", ISCA 2024, the Orojenesis methodology).

A convolution keeps the halo of its tiles: neighbours read it twice, unless rows slide through.
Attention is computed without its matrix of scores ever leaving the chip.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
#: What stays on chip.
RESIDENT: Final = ("outputs", "inputs", "weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """Bytes of an element.

    Attributes:
        inputs: Of the first operand.
        weights: Of the second.
        outputs: Of a result.
        sums: Of a partial result.
    """

    inputs: float
    weights: float
    outputs: float
    sums: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmShape:
    """A product of M x K by K x N."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvShape:
    """A convolution of one group.

    Attributes:
        batch: Images.
        out_channels: Of the group.
        in_channels: Of the group.
        out: Rows and columns of the output.
        kernel: Rows and columns of the filter.
        stride: Along rows and columns.
        dilation: The same.
    """

    batch: int
    out_channels: int
    in_channels: int
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """Queries that share keys and values, as one kernel without stored scores.

    Attributes:
        rows: Queries, of all heads that share them.
        keys: Keys.
        width: Of a query and a key.
        value_width: Of a value.
        causal: Whether about half of the keys are seen.
    """

    rows: int
    keys: int
    width: int
    value_width: int
    causal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """One way to compute a layer.

    Attributes:
        resident: Which operand stays on chip.
        tile: Loop → size of its tile; loops that stream have 1.
        on_chip_bytes: That one set of tiles takes.
        traffic_bytes: That cross the DRAM interface.
    """

    resident: str
    tile: dict[str, int]
    on_chip_bytes: int
    traffic_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class TileCurve:
    """The best tilings, from the smallest on-chip memory to the one that leaves the least traffic.

    Attributes:
        room: Bytes on chip, rising.
        traffic: Bytes across the DRAM interface, falling.
        resident: Of each, the place in `RESIDENT`.
        tiles: Of each, the tile sizes in the order of `loops`.
        loops: Names of the loops.
    """

    room: Numbers
    traffic: Numbers
    resident: Numbers
    tiles: Numbers
    loops: tuple[str, ...]

    @property
    def least(self) -> float:
        """Traffic where memory on chip is plenty: every operand once."""
        return float(self.traffic[-1])

    def at(self, on_chip_bytes: Any) -> Numbers:
        """Least traffic with so much memory on chip, bytes; infinite where no tile fits."""
        place = np.searchsorted(self.room, on_chip_bytes, side="right")
        found: Numbers = np.concatenate([[np.inf], self.traffic])[place]
        return found

    def tiling(self, on_chip_bytes: float) -> Tiling | None:
        """The tiling behind that; None where no tile fits."""
        place = int(np.searchsorted(self.room, on_chip_bytes, side="right")) - 1
        if place < 0:
            return None
        return Tiling(
            resident=RESIDENT[int(self.resident[place])],
            tile={n: int(t) for n, t in zip(self.loops, self.tiles[place], strict=True)},
            on_chip_bytes=round(float(self.room[place])),
            traffic_bytes=round(float(self.traffic[place])),
        )


Shape = GemmShape | ConvShape | AttentionShape


@lru_cache(maxsize=4096)
def tile_curve(shape: Shape, widths: Widths) -> TileCurve:
    """The best tilings of a layer for any memory on chip."""
    if isinstance(shape, GemmShape):
        return _curve(_gemm(shape, widths), ("m", "n", "k"))
    if isinstance(shape, ConvShape):
        return _curve(_convolution(shape, widths), ("n", "p", "q", "k", "c"))
    return _curve(_attention(shape, widths), ("queries", "keys"))


#: (operand that stays, bytes on chip, traffic, tile of each loop), all of them arrays.
_Some = tuple[int, Numbers, Numbers, tuple[Any, ...]]


def _curve(several: Iterator[_Some], loops: tuple[str, ...]) -> TileCurve:
    rooms, traffics, residents, tiles = [], [], [], []
    for resident, room, traffic, tile in several:
        shape = np.broadcast_shapes(room.shape, traffic.shape)
        rooms.append(np.broadcast_to(room, shape).ravel())
        traffics.append(np.broadcast_to(traffic, shape).ravel())
        residents.append(np.full(rooms[-1].size, resident, np.int8))
        tiles.append(np.stack([np.broadcast_to(t, shape).ravel() for t in tile], axis=1))
    room, traffic = np.concatenate(rooms), np.concatenate(traffics)
    order = np.lexsort((traffic, room))
    least = np.minimum.accumulate(traffic[order])
    better = np.concatenate([[True], least[1:] < least[:-1]])
    kept = order[better]
    return TileCurve(
        room=room[kept],
        traffic=traffic[kept],
        resident=np.concatenate(residents)[kept],
        tiles=np.concatenate(tiles)[kept],
        loops=loops,
    )


def _sizes(n: int) -> Numbers:
    """All tile sizes that can be best: ceil(n / trips), about 2 sqrt(n) of them."""
    root = int(n**0.5) + 1
    few = -(-n // np.arange(1, root + 1))
    return np.unique(np.concatenate([few, np.arange(1, min(root, n) + 1)]))


def _trips(n: int, tile: Any) -> Any:
    return np.ceil(n / tile)


def _spilled(results: float, trips: Any, w: Widths) -> Any:
    """Bytes of results that wait in DRAM between the trips along their sum."""
    return results * (w.outputs + 2 * w.sums * (trips - 1))


def _gemm(s: GemmShape, w: Widths) -> Iterator[_Some]:
    a, b = s.m * s.k * w.inputs, s.k * s.n * w.weights
    results = float(s.m) * s.n
    m, n, k = _sizes(s.m), _sizes(s.n), _sizes(s.k)
    first, second = m[:, None], n[None, :]
    yield (
        0,
        first * second * w.sums + first * w.inputs + second * w.weights,
        a * _trips(s.n, second) + b * _trips(s.m, first) + results * w.outputs,
        (first, second, 1),
    )
    first, second = m[:, None], k[None, :]
    yield (
        1,
        first * second * w.inputs + second * w.weights + first * w.sums,
        a + b * _trips(s.m, first) + _spilled(results, _trips(s.k, second), w),
        (first, 1, second),
    )
    first, second = n[:, None], k[None, :]
    yield (
        2,
        first * second * w.weights + second * w.inputs + first * w.sums,
        b + a * _trips(s.n, first) + _spilled(results, _trips(s.k, second), w),
        (1, first, second),
    )


@dataclass(frozen=True, slots=True)
class _Pixels:
    """Tiles of the output (images, rows, columns) and what they need of an input channel."""

    images: Numbers
    rows: Numbers
    cols: Numbers
    needed: Numbers
    trips: Numbers
    read: Numbers

    @property
    def count(self) -> Numbers:
        return self.images * self.rows * self.cols


def _pixels(s: ConvShape) -> _Pixels:
    rows, cols = (a.ravel() for a in np.meshgrid(_sizes(s.out[0]), _sizes(s.out[1])))
    images = np.ones_like(rows)
    whole = _sizes(s.batch)[1:]
    images = np.concatenate([images, whole])
    rows = np.concatenate([rows, np.full_like(whole, s.out[0])])
    cols = np.concatenate([cols, np.full_like(whole, s.out[1])])
    return _Pixels(
        images=images,
        rows=rows,
        cols=cols,
        needed=images * _span(s, 0, rows) * _span(s, 1, cols),
        trips=_trips(s.batch, images) * _trips(s.out[0], rows) * _trips(s.out[1], cols),
        read=s.batch * _all_spans(s, 0, rows) * _all_spans(s, 1, cols),
    )


def _span(s: ConvShape, axis: int, results: Any) -> Any:
    """Input rows (or columns) that neighbouring results touch."""
    stride, reach = s.stride[axis], (s.kernel[axis] - 1) * s.dilation[axis] + 1
    return np.where(stride > reach, results * s.kernel[axis], (results - 1) * stride + reach)


def _all_spans(s: ConvShape, axis: int, tile: Any) -> Any:
    """The same summed over the tiles, whose halos overlap; the last tile may be smaller."""
    n = s.out[axis]
    rest = n % tile
    return (n // tile) * _span(s, axis, tile) + np.where(rest > 0, _span(s, axis, rest), 0)


def _convolution(s: ConvShape, w: Widths) -> Iterator[_Some]:
    taps = s.kernel[0] * s.kernel[1]
    weights = float(s.out_channels) * s.in_channels * taps * w.weights
    results = float(s.batch) * s.out_channels * s.out[0] * s.out[1]
    pixels, k, c = _pixels(s), _sizes(s.out_channels), _sizes(s.in_channels)
    tile = pixels.images[:, None], pixels.rows[:, None], pixels.cols[:, None]
    count, needed = pixels.count[:, None], pixels.needed[:, None]
    reload = weights * pixels.trips[:, None]
    image = pixels.read[:, None] * s.in_channels * w.inputs
    some = k[None, :]
    yield (
        0,
        count * some * w.sums + needed * w.inputs + some * taps * w.weights,
        image * _trips(s.out_channels, some) + reload + results * w.outputs,
        (*tile, some, 1),
    )
    some = c[None, :]
    yield (
        1,
        needed * some * w.inputs + some * taps * w.weights + count * w.sums,
        image + reload + _spilled(results, _trips(s.in_channels, some), w),
        (*tile, 1, some),
    )
    yield _sliding(s, w, k[:, None], c[None, :])


def _sliding(s: ConvShape, w: Widths, k: Numbers, c: Numbers) -> _Some:
    """Weights stay, rows of the image slide past: each is read once for a set of weights."""
    taps = s.kernel[0] * s.kernel[1]
    width = float(_span(s, 1, s.out[1]))
    held = min(s.kernel[0] * s.dilation[0], float(_span(s, 0, s.out[0]))) * width
    image = s.batch * float(_span(s, 0, s.out[0])) * width * s.in_channels * w.inputs
    results = float(s.batch) * s.out_channels * s.out[0] * s.out[1]
    weights = float(s.out_channels) * s.in_channels * taps * w.weights
    return (
        2,
        k * c * taps * w.weights + held * c * w.inputs + s.out[1] * k * w.sums,
        weights
        + image * _trips(s.out_channels, k)
        + _spilled(results, _trips(s.in_channels, c), w),
        (1, 1, s.out[1], k, c),
    )


def _attention(s: AttentionShape, w: Widths) -> Iterator[_Some]:
    """Queries stay and keys stream, as FlashAttention-2 does it, or the other way round.

    A block of queries keeps its running sums, and sees on average the part of the keys that a
    causal mask leaves up to its end.
    """
    cache = float(s.keys) * (s.width * w.weights + s.value_width * w.weights)
    queries, results = float(s.rows) * s.width * w.inputs, float(s.rows) * s.value_width
    rows, keys = _sizes(s.rows), _sizes(s.keys)
    trips = _trips(s.rows, rows)
    seen = (1 + 1 / trips) / 2 if s.causal else 1.0
    line = (s.width + s.value_width) * w.weights
    yield (
        0,
        rows * (s.width * w.inputs + s.value_width * w.sums + w.sums) + line,
        queries + results * w.outputs + np.maximum(cache * trips * seen, cache),
        (rows, 1),
    )
    trips = _trips(s.keys, keys)
    seen = (1 + 1 / trips) / 2 if s.causal else 1.0
    yield (
        2,
        keys * line + s.width * w.inputs + s.value_width * w.sums + keys * w.sums,
        cache
        + np.maximum(queries * trips * seen, queries)
        + _spilled(results, (trips - 1) * seen + 1, w),
        (1, keys),
    )
