"""One design looked at closely: its layers, what binds each, what more of a parameter is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gambrel import roofline
from gambrel.advise.design.evaluation import RESOURCES, DesignTimes, evaluated
from gambrel.advise.design.layers import ArrayLayer, LayerOp, ModelLayers
from gambrel.advise.design.points import DesignPoints, design_points
from gambrel.advise.design.record import DesignLayer, Sensitivity
from gambrel.advise.design.spec import DesignSpec
from gambrel.advise.design.systolic import DATAFLOWS
from gambrel.advise.design.tiles import Tiling, tile_curve
from gambrel.advise.design.work import energy_j, figures
from gambrel.advise.judge.io_bounds import io_bound
from gambrel.engine.tables import Words, plain

#: How much more of a parameter is tried.
STEP: Final = 1.1
#: Gains and losses below this are rounding.
_LEAST_GAIN: Final = 1e-4


def totals(
    spec: DesignSpec, chosen: Mapping[str, Any], models: Sequence[ModelLayers]
) -> dict[str, Any]:
    """The figures of one design under all models together, by column."""
    table = figures(models, design_points(spec, chosen, 1))[-1]
    return {name: plain(values)[0] for name, values in table.items()}


def device_values(spec: DesignSpec, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What the formulas of a specification give for one design; an unknown energy is 0."""
    points = design_points(spec, chosen, 1)
    side, memory, known = points.array, points.memory, points.energy
    joules = known.get("dram_pj_per_byte", float(points.dram_j_per_byte[0]))
    energies = {
        "mac_j": known.get("mac_pj", 0.0),
        "sram_j_per_byte": known.get("sram_pj_per_byte", 0.0),
        "dram_j_per_byte": 0.0 if np.isnan(joules) else joules,
    }
    return {
        "rows": float(side.arrays.rows[0]),
        "cols": float(side.arrays.cols[0]),
        "arrays": float(side.arrays.count[0]),
        "dataflow": DATAFLOWS[int(side.arrays.dataflow[0])],
        "s_per_cycle": float(side.s_per_cycle[0]),
        "sram": float(memory.on_chip[0]),
        "dram_byte_per_s": float(roofline.seconds(1.0, memory.s_per_byte)[0]),
        "precision": spec.names["precision"],
        "accumulate": spec.names["accumulate"],
        "node": spec.node,
        **{name: float(np.ravel(value)[0]) for name, value in energies.items()},
    }


class DesignProbe:
    """A design, and the same with 10 % more of each parameter, as one batch of points.

    Args:
        spec: The specification.
        chosen: Parameter → value.
    """

    def __init__(self, spec: DesignSpec, chosen: Mapping[str, Any]) -> None:
        self.spec, self.chosen = spec, chosen
        self.names = [name for name, v in chosen.items() if not isinstance(v, str)]
        whole = _whole_numbers(spec)
        self.more = {n: _more(float(chosen[n]), whole=n in whole) for n in self.names}
        self.points = self._batch()

    def _batch(self) -> DesignPoints:
        count = len(self.names) + 1
        values: dict[str, Any] = {}
        for name, value in self.chosen.items():
            if isinstance(value, str):
                values[name] = Words(np.zeros(count, np.int32), (value,))
                continue
            column = np.full(count, float(value))
            column[1 + self.names.index(name)] = self.more[name]
            values[name] = column
        return design_points(self.spec, values, count)

    @property
    def room(self) -> float:
        """Bytes on chip of the design."""
        return float(self.points.memory.on_chip[self.points.memory_place[0]])

    def sensitivities(self, model: ModelLayers) -> tuple[Sensitivity, ...]:
        """Of a model's time, largest gain first."""
        times = evaluated(model, self.points)
        energy = np.zeros(self.points.count) + energy_j(model, times, self.points)
        area = self.points.area_mm2
        found = [
            Sensitivity(
                parameter=name,
                now=float(self.chosen[name]),
                tried_value=self.more[name],
                time_gain=_gain(times.array_s, i),
                per_tenth=_gain(times.array_s, i) * self._tenth(name),
                energy_gain=_known(_gain(energy, i)),
                area_cost=_known(0.0 - _gain(area, i)),
            )
            for i, name in enumerate(self.names, 1)
        ]
        return tuple(sorted(found, key=lambda one: -one.per_tenth))

    def _tenth(self, name: str) -> float:
        """10 % as a share of how much more was tried."""
        value = float(self.chosen[name])
        return (STEP - 1) * value / (self.more[name] - value)

    def layers(self, model: ModelLayers) -> list[DesignLayer]:
        """The layers of a model, in order."""
        times = evaluated(model, self.points, each=True)
        return [self._layer(model, times, i) for i in range(len(times.layers))]

    def _layer(self, model: ModelLayers, times: DesignTimes, index: int) -> DesignLayer:
        one = times.layers[index]
        layer, time_s = one.layer, float(one.array_s[0])
        gains = [_gain(one.array_s, i) * self._tenth(n) for i, n in enumerate(self.names, 1)]
        best = int(np.argmax(gains)) if gains else 0
        saves = bool(gains) and gains[best] > _LEAST_GAIN
        busy = [float(one.busy[name][0]) if name in one.busy else 0.0 for name in RESOURCES]
        peak_s = layer.matrix_flops * float(self.points.s_per_flop[0])
        buffers = float(self.points.memory.buffers[self.points.memory_place[0]])
        tiling = main_tiling(layer, self.room, buffers)
        return DesignLayer(
            model=model.name,
            name=layer.name,
            kind=layer.kind,
            count=layer.count,
            array_time_s=time_s * layer.count,
            share=time_s * layer.count / float(times.array_s[0]),
            array_utilization=peak_s / time_s if time_s else 0.0,
            traffic_bytes=float(one.traffic_bytes[0]) * layer.count,
            tiled_bytes=_tiled(layer, tiling),
            io_bound_bytes=_bound(layer, self.room),
            tiling=tiling_text(tiling),
            limited_by=RESOURCES[int(np.argmax(busy))],
            parameter=self.names[best] if saves else "",
            gain=gains[best] if saves else 0.0,
        )


def _gain(values: Any, place: int) -> float:
    first = float(values[0])
    gain = (first - float(values[place])) / first if first else 0.0
    return 0.0 if abs(gain) < _LEAST_GAIN else gain


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _whole_numbers(spec: DesignSpec) -> set[str]:
    """Parameters that count things: those that are rows, columns, arrays or units themselves."""
    counts = ("rows", "cols", "arrays", "dram_units", "buffering")
    return {spec.formulas[key].text.strip() for key in counts}


def _more(value: float, *, whole: bool) -> float:
    return max(value + 1, float(round(value * STEP))) if whole else value * STEP


def main_op(layer: ArrayLayer) -> LayerOp | None:
    """The op of a layer that does most of its matrix work; None without any."""
    return max(layer.ops, key=lambda op: sum(g.macs for g in op.gemms), default=None)


def main_tiling(layer: ArrayLayer, room: float, buffers: float) -> Tiling | None:
    """The best tiling of its main op where the whole memory is for tiles."""
    op = main_op(layer)
    if op is None or op.shape is None:
        return None
    return tile_curve(op.shape, op.widths).tiling(room // buffers)


def tiling_text(found: Tiling | None) -> str:
    """``weights stay; k 256, c 64``; loops of tile 1 are left out."""
    if found is None:
        return ""
    sizes = ", ".join(f"{name} {size}" for name, size in found.tile.items() if size > 1)
    return f"{found.resident} stay" + (f"; {sizes}" if sizes else "")


def _tiled(layer: ArrayLayer, tiling: Tiling | None) -> float | None:
    """Traffic of its main op alone, all executions."""
    op = main_op(layer)
    if op is None or tiling is None:
        return None
    return float(tiling.traffic_bytes) * op.groups * layer.count


def _bound(layer: ArrayLayer, room: float) -> float | None:
    """Lower bound of its main op, all executions, at least every operand once."""
    op = main_op(layer)
    if op is None or op.shape is None:
        return None
    once = tile_curve(op.shape, op.widths).least * op.groups
    bound = io_bound(op.view, "", int(room))
    least = once if bound is None else max(once, float(bound.traffic_bytes))
    return least * layer.count
