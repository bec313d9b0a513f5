"""Designs x models as work of the engine; see `gambrel.engine.work.PointWork`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from gambrel import roofline
from gambrel._version import __version__
from gambrel.advise.design.evaluation import RESOURCES, DesignTimes, added, evaluated
from gambrel.advise.design.layers import ModelLayers
from gambrel.advise.design.points import DesignPoints, MemorySide, design_points
from gambrel.advise.design.spec import DesignSpec
from gambrel.engine.grid import PointGrid
from gambrel.engine.tables import (
    FLAG,
    NUMBER,
    TEXT,
    DataField,
    PointTable,
    Values,
    Words,
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
    DataField(name="area_mm2", kind=NUMBER, unit="mm²"),
    DataField(name="power_w", kind=NUMBER, unit="W"),
    DataField(name="within", kind=FLAG),
    DataField(name="limited_by", kind=TEXT),
)
#: What every row says besides the model and the parameters.
FIGURES: Final = tuple(column.name for column in _COLUMNS)
#: Points of a partition of a few seconds.
_PARTITION: Final = 1 << 18


@dataclass(frozen=True, kw_only=True)
class DesignWork:
    """All designs, each under all models.

    Attributes:
        spec: The device.
        models: What runs on it; the last of several is all of them together.
        grid: Values of the parameters that vary.
        content: What the figures depend on besides.
    """

    spec: DesignSpec
    models: tuple[ModelLayers, ...]
    grid: PointGrid
    content: bytes = b""
    _last: list[MemorySide] = field(default_factory=list, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": []}

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
        """Points of a partition: whole designs."""
        return max(1, _PARTITION // len(self.models)) * len(self.models)

    def evaluate(self, start: int, stop: int) -> PointTable:
        """The columns of a range of points."""
        rows = len(self.models)
        first, last = start // rows, -(-stop // rows)
        values = self.values(first, last)
        points = self._points(values, last - first)
        several = figures(self.models, points)
        kept = slice(start - first * rows, stop - first * rows)
        found: PointTable = {
            "model": Words(
                np.tile(np.arange(rows, dtype=np.int32), points.count)[kept],
                tuple(model.name for model in self.models),
            )
        }
        for axis in self.grid.axes:
            found[axis.name] = _interleaved([values[axis.name]] * rows, kept)
        for name in FIGURES:
            found[name] = _interleaved([table[name] for table in several], kept)
        return found

    def _points(self, values: Mapping[str, Any], count: int) -> DesignPoints:
        """The designs; what was computed for memories is kept while they stay the same."""
        found = design_points(self.spec, values, count)
        if self._last and self._last[0].same(found.memory):
            found = dataclasses.replace(found, memory=self._last[0])
        self._last[:] = [found.memory]
        return found

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


def _interleaved(columns: Sequence[Any], kept: slice) -> Values:
    """One row of each column in turn."""
    first = columns[0]
    if isinstance(first, Words):
        codes = np.stack([column.codes for column in columns], axis=1).ravel()[kept]
        return Words(codes, first.names)
    return np.stack(columns, axis=1).ravel()[kept]


def figures(models: Sequence[ModelLayers], points: DesignPoints) -> list[PointTable]:
    """What every row says of each model on designs; the last of several is all of them together."""
    single = models[:-1] or models
    times = [evaluated(model, points) for model in single]
    energy = [energy_j(*pair, points) for pair in zip(single, times, strict=True)]
    if len(models) > 1:
        times, energy = [*times, added(times)], [*energy, sum(energy)]
    pairs = zip(models, times, energy, strict=True)
    return [_figures(model, points, time, joules) for model, time, joules in pairs]


def _figures(
    model: ModelLayers, points: DesignPoints, times: DesignTimes, energy: Any
) -> PointTable:
    busy = np.stack([times.busy[name] for name in RESOURCES])
    rate = roofline.seconds(1.0, times.array_s)
    return {
        "peak_flop_per_s": points.peak_flop_per_s,
        "traffic_bytes": times.traffic_bytes,
        "sol_time_s": times.sol_s,
        "roofline_time_s": times.roofline_s,
        "array_time_s": times.array_s,
        "items_per_s": model.items * rate,
        "array_utilization": model.matrix_flops * points.s_per_flop * rate,
        "energy_per_item_j": np.zeros(points.count) + energy / model.items,
        "area_mm2": points.area_mm2,
        "power_w": points.power_w,
        "within": points.within,
        "limited_by": Words(np.argmax(busy, axis=0).astype(np.int32), RESOURCES),
    }


def energy_j(model: ModelLayers, times: DesignTimes, points: DesignPoints) -> Any:
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
