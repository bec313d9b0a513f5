"""Designs x models as work of the engine; see `gambrel.engine.work.PointWork`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from gambrel import roofline
from gambrel._version import __version__
from gambrel.advise.design.evaluation import RESOURCES, DesignTimes, evaluated
from gambrel.advise.design.layers import ModelLayers
from gambrel.advise.design.points import DesignPoints, design_points
from gambrel.advise.design.spec import DesignSpec
from gambrel.engine.grid import PointGrid
from gambrel.engine.tables import (
    FLAG,
    NUMBER,
    TEXT,
    DataField,
    PointTable,
    Words,
    joined,
    repeated,
)

_COLUMNS: Final = (
    DataField(name="peak_flop_per_s", kind=NUMBER, unit="FLOP/s"),
    DataField(name="traffic_bytes", kind=NUMBER, unit="byte"),
    DataField(name="sol_time_s", kind=NUMBER, unit="s"),
    DataField(name="roofline_time_s", kind=NUMBER, unit="s"),
    DataField(name="array_time_s", kind=NUMBER, unit="s"),
    DataField(name="items_per_s", kind=NUMBER, unit="1/s"),
    DataField(name="array_utilization", kind=NUMBER, unit="1"),
    DataField(name="energy_per_item_j", kind=NUMBER, unit="J"),
    DataField(name="area_mm2", kind=NUMBER, unit="mm2"),
    DataField(name="power_w", kind=NUMBER, unit="W"),
    DataField(name="within", kind=FLAG),
    DataField(name="limited_by", kind=TEXT),
)
#: What every row says besides the model and the parameters.
FIGURES: Final = tuple(column.name for column in _COLUMNS)
#: Points of a partition of a few seconds.
_PARTITION: Final = 1 << 17


@dataclass(frozen=True, kw_only=True)
class DesignWork:
    """All designs under all models, one model after another.

    Attributes:
        spec: The device.
        models: What runs on it.
        grid: Values of the parameters that vary.
        content: What the figures depend on besides.
    """

    spec: DesignSpec
    models: tuple[ModelLayers, ...]
    grid: PointGrid
    content: bytes = b""
    _last: dict[tuple[int, int], DesignPoints] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": {}}

    @property
    def points(self) -> int:
        """Designs times models."""
        return len(self.models) * len(self.grid)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns."""
        own = (
            DataField(name=axis.name, kind=TEXT if isinstance(axis.values[0], str) else NUMBER)
            for axis in self.grid.axes
        )
        return (DataField(name="model", kind=TEXT), *own, *_COLUMNS)

    @property
    def identity(self) -> bytes:
        """Version, axes, and what the figures depend on."""
        axes = [(axis.name, axis.values) for axis in self.grid.axes]
        names = [model.name for model in self.models]
        return msgspec.json.encode([__version__, axes, names]) + self.content

    @property
    def partition_points(self) -> int:
        """Points of a partition."""
        return _PARTITION

    def evaluate(self, start: int, stop: int) -> PointTable:
        """The columns of a range of points."""
        designs, parts = len(self.grid), []
        at = start
        while at < stop:
            model, first = divmod(at, designs)
            last = min(designs, first + stop - at)
            parts.append(self._rows(self.models[model], first, last))
            at += last - first
        return joined(parts)

    def _rows(self, model: ModelLayers, first: int, last: int) -> PointTable:
        values = self.values(first, last)
        key = first, last
        if key not in self._last:
            self._last.clear()
            self._last[key] = design_points(self.spec, values, last - first)
        points = self._last[key]
        own = {axis.name: values[axis.name] for axis in self.grid.axes}
        return {"model": repeated(model.name, points.count), **own, **figures(model, points)}

    def values(self, first: int, last: int) -> dict[str, Any]:
        """Every parameter at the designs from ``first`` to ``last``."""
        found: dict[str, Any] = dict(self.spec.parameters)
        places = self.grid.places(first, last)
        for axis in self.grid.axes:
            if isinstance(axis.values[0], str):
                found[axis.name] = Words(places[axis.name].astype(np.int32), axis.values)
            else:
                found[axis.name] = np.asarray(axis.values, dtype=float)[places[axis.name]]
        return found


def figures(model: ModelLayers, points: DesignPoints) -> PointTable:
    """What every row says of a model on designs."""
    times = evaluated(model, points)
    busy = np.stack([times.busy.get(name, np.zeros(points.count)) for name in RESOURCES])
    full = np.zeros(points.count)
    energy = energy_j(model, points, times)
    return {
        "peak_flop_per_s": points.peak_flop_per_s,
        "traffic_bytes": times.traffic_bytes,
        "sol_time_s": times.sol_s,
        "roofline_time_s": times.roofline_s,
        "array_time_s": times.array_s,
        "items_per_s": model.items * roofline.seconds(1.0, times.array_s),
        "array_utilization": model.matrix_flops
        * points.s_per_flop
        * roofline.seconds(1.0, times.array_s),
        "energy_per_item_j": full + energy / model.items,
        "area_mm2": points.area_mm2,
        "power_w": points.power_w,
        "within": points.within,
        "limited_by": Words(np.argmax(busy, axis=0).astype(np.int32), RESOURCES),
    }


def energy_j(model: ModelLayers, points: DesignPoints, times: DesignTimes) -> Any:
    """Energy of a run; NaN where that of a multiply-add, of SRAM or of DRAM is unknown.

    Vector work and static power count where they are stated.
    """
    known: Mapping[str, Any] = points.energy
    own = points.energy.get("dram_pj_per_byte", points.dram_j_per_byte)
    vector = sum(sum(layer.vector_flops.values()) * layer.count for layer in model.layers)
    return (
        model.matrix_flops / 2 * known.get("mac_pj", np.nan)
        + times.sram_bytes * known.get("sram_pj_per_byte", np.nan)
        + times.traffic_bytes * own
        + vector * known.get("vector_pj", 0.0)
        + times.array_s * known.get("static_w", 0.0)
    )
