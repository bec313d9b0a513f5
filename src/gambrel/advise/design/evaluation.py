"""The layers of a model held against any number of designs at once.

What depends on the array alone (cycles, work over peak) is computed for each distinct array, what
depends on the memories alone (traffic of the best tiling over bandwidth) for each distinct pair of
memories; a design then takes the larger of its two figures, layer by layer. So a layer costs a few
array operations for all designs together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gambrel import roofline
from gambrel.advise.design.layers import ArrayLayer, ModelLayers
from gambrel.advise.design.points import DesignPoints, MemorySide
from gambrel.advise.design.systolic import cycles, streamed_words
from gambrel.advise.design.tiles import tile_curve

Floats = NDArray[np.float64]
#: Resources in the order in which a tie is decided.
RESOURCES: Final = ("array", "vector", "sram", "dram", "link")
#: Shares of the on-chip memory that are tried for tiles; intermediates get the rest.
_SPLITS: Final = tuple(i / 8 for i in range(9))


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignTimes:
    """Times of a model on each design, s and bytes; one number per design.

    Attributes:
        sol_s: No run of the same work on that design is faster.
        roofline_s: Sum over kernels of the slowest of peak, vector unit and DRAM.
        array_s: The same with the cycles of the array and the traffic of the best tiling.
        traffic_bytes: Across the DRAM interface.
        sram_bytes: Between buffers and arrays.
        busy: Resource → seconds that it is busy.
        layers: Figures of each layer; empty unless asked for.
    """

    sol_s: Floats
    roofline_s: Floats
    array_s: Floats
    traffic_bytes: Floats
    sram_bytes: Floats
    busy: Mapping[str, Floats]
    layers: tuple[LayerTimes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTimes:
    """One layer on each design.

    Attributes:
        layer: Which.
        array_s: Seconds of one execution.
        traffic_bytes: Of one execution.
        busy: Resource → seconds of one execution.
    """

    layer: ArrayLayer
    array_s: Floats
    traffic_bytes: Floats
    busy: Mapping[str, Floats]


@dataclass(slots=True)
class _Sums:
    """Of all layers: on each design, on each distinct array, and on each pair of memories."""

    roofline_s: Floats
    array_s: Floats
    busy: dict[str, Floats]
    sram_bytes: Floats
    traffic: Floats
    layers: list[LayerTimes] = field(default_factory=list)


def evaluated(model: ModelLayers, points: DesignPoints, *, each: bool = False) -> DesignTimes:
    """Times of a model on designs.

    Args:
        model: Its layers.
        points: The designs.
        each: Keep the figures of every layer.
    """
    arrays, memories = len(points.array.s_per_cycle), len(points.memory.on_chip)
    sums = _Sums(
        roofline_s=np.zeros(points.count),
        array_s=np.zeros(points.count),
        busy={name: np.zeros(arrays) for name in ("array", "vector", "sram")},
        sram_bytes=np.zeros(arrays),
        traffic=np.zeros(memories),
    )
    room, other = np.empty(points.count), np.empty(points.count)
    for layer in model.layers:
        _add(sums, layer, points, (room, other), each=each)
    link = np.zeros(points.count) + points.s_per_link_byte * model.io_bytes
    sol = sol_seconds(model, points)
    traffic = sums.traffic[points.memory_place]
    compute = points.array_place
    busy = {name: seconds[compute] for name, seconds in sums.busy.items()}
    return DesignTimes(
        sol_s=sol,
        roofline_s=np.maximum(sums.roofline_s, sol),
        array_s=np.maximum(np.maximum(sums.array_s, link), sol),
        traffic_bytes=traffic,
        sram_bytes=sums.sram_bytes[compute],
        busy={
            **busy,
            "dram": traffic * points.memory.s_per_byte[points.memory_place],
            "link": link,
        },
        layers=tuple(sums.layers),
    )


def added(several: Sequence[DesignTimes]) -> DesignTimes:
    """One run of each model, one after another."""
    busy = {name: _total(one.busy[name] for one in several) for name in several[0].busy}
    return DesignTimes(
        sol_s=_total(one.sol_s for one in several),
        roofline_s=_total(one.roofline_s for one in several),
        array_s=_total(one.array_s for one in several),
        traffic_bytes=_total(one.traffic_bytes for one in several),
        sram_bytes=_total(one.sram_bytes for one in several),
        busy=busy,
    )


def _total(arrays: Iterable[Floats]) -> Floats:
    first, *others = arrays
    found = first.copy()
    for one in others:
        found += one
    return found


def _add(
    sums: _Sums,
    layer: ArrayLayer,
    points: DesignPoints,
    rooms: tuple[Floats, Floats],
    *,
    each: bool,
) -> None:
    """Adds a layer to the sums, all of its executions."""
    side, times = points.array, layer.count
    turns, words = _array_figures(layer, points)
    vector_s = sum(layer.vector_flops.values()) * side.s_per_vector_flop
    busy = {
        "array": np.maximum(turns * side.s_per_cycle, layer.matrix_flops * side.s_per_flop),
        "vector": vector_s,
        "sram": words * side.s_per_sram_byte,
    }
    least_s = np.maximum(layer.matrix_flops * side.s_per_flop, vector_s)
    tiled, kept = _known_traffic(layer, points.memory)
    slowest = np.maximum(np.maximum(busy["array"], vector_s), busy["sram"])
    _add_larger(
        sums.array_s, slowest * times, tiled * points.memory.s_per_byte * times, points, rooms
    )
    _add_larger(
        sums.roofline_s, least_s * times, kept * points.memory.s_per_byte * times, points, rooms
    )
    for name, seconds in busy.items():
        sums.busy[name] += seconds * times
    sums.traffic += tiled * times
    sums.sram_bytes += words * times
    if each:
        sums.layers.append(_layer_times(layer, points, busy, tiled))


def _add_larger(
    sums: Floats, a: Floats, b: Floats, points: DesignPoints, rooms: tuple[Floats, Floats]
) -> None:
    """Adds, for each design, the larger of the figures of its array and of its memories."""
    one, other = rooms
    np.take(a, points.array_place, out=one, mode="clip")
    np.take(b, points.memory_place, out=other, mode="clip")
    np.maximum(one, other, out=one)
    np.add(sums, one, out=sums)


def _layer_times(
    layer: ArrayLayer, points: DesignPoints, busy: Mapping[str, Floats], tiled: Floats
) -> LayerTimes:
    own = {name: s[points.array_place] for name, s in busy.items()}
    traffic = tiled[points.memory_place]
    own["dram"] = traffic * points.memory.s_per_byte[points.memory_place]
    return LayerTimes(
        layer=layer,
        array_s=np.max(np.broadcast_arrays(*own.values()), axis=0),
        traffic_bytes=traffic,
        busy=own,
    )


def _array_figures(layer: ArrayLayer, points: DesignPoints) -> tuple[Floats, Floats]:
    """Cycles, and bytes between buffers and arrays, for each distinct array.

    Matrix work of a form that is not modelled takes the cycles of a full array.
    """
    arrays = points.array.arrays
    units = 2 * arrays.rows * arrays.cols * arrays.count
    turns = layer.unshaped_flops / units
    words = np.zeros_like(arrays.rows)
    for op in layer.ops:
        for gemm in op.gemms:
            turns = turns + cycles(gemm, arrays)
            reads, results = streamed_words(gemm, arrays)
            words = words + reads * max(op.widths.inputs, op.widths.weights)
            words = words + results * op.widths.sums
    return turns, words


def _known_traffic(layer: ArrayLayer, side: MemorySide) -> tuple[Floats, Floats]:
    """`_traffic`, once for each layer and set of memories."""
    if id(layer) not in side.known:
        side.known[id(layer)] = _traffic(layer, side)
    return side.known[id(layer)]


def _traffic(layer: ArrayLayer, side: MemorySide) -> tuple[Floats, Floats]:
    """Bytes across the DRAM interface for each pair of memories: tiled, and as the roofline has it.

    Tiles and intermediates share the memory; the best of nine splits counts.
    """
    whole = side.on_chip
    kept = layer.traffic_bytes - np.minimum(layer.inner_bytes, whole)
    curves = [(tile_curve(op.shape, op.widths), op.groups) for op in layer.ops if op.shape]
    if not curves:
        return kept, kept
    shares = np.array(_SPLITS)[:, None]
    room = np.floor(whole * shares / side.buffers)
    excess: Any = sum(groups * (curve.at(room) - curve.least) for curve, groups in curves)
    rest = whole * (1 - shares)
    tiled = layer.traffic_bytes - np.minimum(layer.inner_bytes, rest) + excess
    return tiled.min(axis=0), kept


def sol_seconds(model: ModelLayers, points: DesignPoints) -> Floats:
    """What no run of the work can beat: resources overlap, on-chip memory keeps what it holds."""
    found: Any = np.zeros(points.count)
    compute, memory = points.array, points.memory
    for part in model.sol_parts:
        matrix = sum(n for (kind, *_), n in part.work.items() if kind == "matrix")
        others = sum(n for (kind, *_), n in part.work.items() if kind != "matrix")
        left = np.maximum(part.traffic_bytes - memory.on_chip, 0.0) * part.passes
        busy = np.maximum(matrix * compute.s_per_flop, others * compute.s_per_vector_flop)
        dram_s = (left * memory.s_per_byte)[points.memory_place]
        found = found + roofline.maximum(busy[points.array_place], dram_s)
    return np.asarray(found)
