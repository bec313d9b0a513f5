"""The layers of a model held against any number of designs at once.

What depends on the array alone (cycles, operand reads) is computed for each distinct array, what
depends on the on-chip memory alone (traffic of the best tiling) for each distinct capacity; a
design then picks its two figures for each layer. So a million designs cost about as much as a
few array operations for each distinct layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gambrel import roofline
from gambrel.advise.design.layers import ArrayLayer, ModelLayers
from gambrel.advise.design.points import DesignPoints
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
        layers: Seconds of each layer, all executions; empty unless asked for.
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
    roofline_s: Any = 0.0
    array_s: Any = 0.0
    traffic: Any = 0.0
    sram: Any = 0.0
    busy: dict[str, Any] = field(default_factory=dict)
    layers: list[LayerTimes] = field(default_factory=list)


def evaluated(model: ModelLayers, points: DesignPoints, *, each: bool = False) -> DesignTimes:
    """Times of a model on designs.

    Args:
        model: Its layers.
        points: The designs.
        each: Keep the figures of every layer.
    """
    sums = _Sums()
    for layer in model.layers:
        _add(sums, layer, points, each=each)
    link = points.s_per_link_byte * model.io_bytes
    sums.busy["link"] = link
    full = np.zeros(points.count)
    sol = sol_seconds(model, points)
    return DesignTimes(
        sol_s=sol,
        roofline_s=full + np.maximum(sums.roofline_s, sol),
        array_s=full + np.maximum(np.maximum(sums.array_s, link), sol),
        traffic_bytes=full + sums.traffic[points.memory],
        sram_bytes=full + sums.sram[points.shape],
        busy={name: full + seconds for name, seconds in sums.busy.items()},
        layers=tuple(sums.layers),
    )


def _add(sums: _Sums, layer: ArrayLayer, points: DesignPoints, *, each: bool) -> None:
    """Adds a layer to the sums, all of its executions."""
    turns, words = _array_figures(layer, points)
    tiled, kept = _traffic(layer, points)
    peak_s = layer.matrix_flops * points.s_per_flop
    vector_s = sum(layer.vector_flops.values()) * points.s_per_vector_flop
    array_s = turns[points.shape] * points.s_per_cycle
    sram_s = words[points.shape] * points.s_per_sram_byte
    dram_s = tiled[points.memory] * points.s_per_byte
    least_s = roofline.maximum(
        roofline.maximum(peak_s, vector_s), kept[points.memory] * points.s_per_byte
    )
    time_s = np.maximum(np.maximum(array_s, peak_s), dram_s)
    time_s = np.maximum(np.maximum(time_s, vector_s), sram_s)
    sums.roofline_s = sums.roofline_s + least_s * layer.count
    sums.array_s = sums.array_s + time_s * layer.count
    sums.traffic = sums.traffic + tiled * layer.count
    sums.sram = sums.sram + words * layer.count
    busy = {"array": array_s, "vector": vector_s, "sram": sram_s, "dram": dram_s}
    for name, seconds in busy.items():
        sums.busy[name] = sums.busy.get(name, 0.0) + seconds * layer.count
    if each:
        full = np.zeros(points.count)
        sums.layers.append(
            LayerTimes(
                layer=layer,
                array_s=full + time_s,
                traffic_bytes=full + tiled[points.memory],
                busy={name: full + seconds for name, seconds in busy.items()},
            )
        )


def _array_figures(layer: ArrayLayer, points: DesignPoints) -> tuple[Floats, Floats]:
    """Cycles, and bytes between buffers and arrays, for each distinct array.

    Matrix work of a form that is not modelled takes the cycles of a full array.
    """
    arrays = points.arrays
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


def _traffic(layer: ArrayLayer, points: DesignPoints) -> tuple[Floats, Floats]:
    """Bytes across the DRAM interface for each distinct memory: tiled, and as the roofline has it.

    Tiles and intermediates share the memory; the best of nine splits counts.
    """
    whole = points.memories
    kept = layer.traffic_bytes - np.minimum(layer.inner_bytes, whole)
    curves = [(tile_curve(op.shape, op.widths), op.groups) for op in layer.ops if op.shape]
    if not curves:
        return kept, kept
    best = np.full_like(whole, np.inf)
    for share in _SPLITS:
        room = np.floor(whole * share / points.buffers)
        excess = sum(groups * (curve.at(room) - curve.least) for curve, groups in curves)
        rest = whole * (1 - share)
        best = np.minimum(best, layer.traffic_bytes - np.minimum(layer.inner_bytes, rest) + excess)
    return best, kept


def sol_seconds(model: ModelLayers, points: DesignPoints) -> Floats:
    """What no run of the work can beat: resources overlap, on-chip memory keeps what it holds."""
    found: Any = np.zeros(points.count)
    for part in model.sol_parts:
        matrix = sum(n for (kind, *_), n in part.work.items() if kind == "matrix")
        others = sum(n for (kind, *_), n in part.work.items() if kind != "matrix")
        left = np.maximum(part.traffic_bytes - points.memories, 0.0)[points.memory]
        busy = {
            "array": matrix * points.s_per_flop,
            "vector": others * points.s_per_vector_flop,
            "dram": left * points.s_per_byte * part.passes,
        }
        found = found + roofline.slowest(busy)
    return np.asarray(found)
