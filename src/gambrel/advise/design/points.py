"""Designs as arrays: every formula of a specification at every point, and what points share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gambrel import roofline
from gambrel.advise.design.drams import dram_kind
from gambrel.advise.design.spec import Budget, DesignSpec
from gambrel.advise.design.systolic import DATAFLOWS, Arrays
from gambrel.analysis.energy_constants import node_energy
from gambrel.engine.tables import Words, repeated
from gambrel.errors import InputError, UnknownNameError
from gambrel.units import format_number

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySide:
    """Distinct arrays with all that sets their speed.

    Attributes:
        arrays: Their shapes.
        s_per_flop: Of the peak.
        s_per_cycle: Of the clock.
        s_per_vector_flop: Of element-wise work; 0 where its rate is unknown.
        s_per_sram_byte: Of the buffers; 0 where unknown.
    """

    arrays: Arrays
    s_per_flop: Floats
    s_per_cycle: Floats
    s_per_vector_flop: Floats
    s_per_sram_byte: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySide:
    """Distinct pairs of on-chip memory and DRAM.

    Attributes:
        on_chip: Bytes on chip.
        buffers: Sets of tiles held at once.
        s_per_byte: Of DRAM.
        known: What was computed for them, by layer.
    """

    on_chip: Floats
    buffers: Floats
    s_per_byte: Floats
    known: dict[int, tuple[Floats, Floats]] = field(default_factory=dict, compare=False)

    def same(self, other: MemorySide) -> bool:
        """Whether another has the same memories."""
        pairs = (self.on_chip, other.on_chip), (self.buffers, other.buffers)
        return all(map(np.array_equal, *zip(*pairs, strict=True))) and np.array_equal(
            self.s_per_byte, other.s_per_byte
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignPoints:
    """Some designs; arrays have one number per design unless said otherwise.

    Attributes:
        count: Designs.
        array: Distinct arrays.
        array_place: Of each design the place among them.
        memory: Distinct memories.
        memory_place: Of each design the place among them.
        peak_flop_per_s: Peak of the matrix units.
        s_per_flop: Its inverse.
        s_per_link_byte: Of the host link; 0 where there is none.
        dram_j_per_byte: Of an access; NaN where unknown.
        energy: Figure of ``[energy]`` → J (or W); absent where unknown.
        area_mm2: NaN where no part is stated.
        power_w: The same.
        within: 1 within all budgets, 0 not, -1 unknown.
    """

    count: int
    array: ArraySide
    array_place: NDArray[np.int64]
    memory: MemorySide
    memory_place: NDArray[np.int64]
    peak_flop_per_s: Floats
    s_per_flop: Floats
    s_per_link_byte: Any
    dram_j_per_byte: Floats
    energy: Mapping[str, Any]
    area_mm2: Floats
    power_w: Floats
    within: NDArray[np.int8]


def design_points(spec: DesignSpec, values: Mapping[str, Any], count: int) -> DesignPoints:
    """The designs of some values of the parameters.

    Args:
        spec: The specification.
        values: Parameter → a number, a name, or an array of one per design.
        count: Designs.

    Raises:
        InputError: A formula gives no usable number somewhere.
    """
    numbers = {name: v for name, v in values.items() if not isinstance(v, (str, Words))}
    at = {key: _full(formula(numbers), count) for key, formula in spec.formulas.items()}
    for key, least in (("rows", 1.0), ("cols", 1.0), ("arrays", 1.0), ("buffering", 1.0)):
        _least(spec, at, key, least)
    for key in at:
        _least(spec, at, key, 0.0)
    units = at["rows"] * at["cols"] * at["arrays"] * at["clock"]
    peak = _peak(spec, at, 2 * units)
    rate, joules = _dram(spec, values, at, count)
    area, power = (_sum(b, numbers, count) for b in (spec.area, spec.power))
    array, array_place = _array_side(spec, at, _codes(spec, values, count), peak)
    memory, memory_place = _memory_side(at, rate)
    return DesignPoints(
        count=count,
        array=array,
        array_place=array_place,
        memory=memory,
        memory_place=memory_place,
        peak_flop_per_s=peak,
        s_per_flop=_inverse(peak),
        s_per_link_byte=_inverse(at.get("link")),
        dram_j_per_byte=joules,
        energy=_energy(spec, numbers),
        area_mm2=area,
        power_w=power,
        within=_within(spec, area, power),
    )


def _array_side(
    spec: DesignSpec, at: Mapping[str, Floats], flow: NDArray[np.int64], peak: Floats
) -> tuple[ArraySide, NDArray[np.int64]]:
    keys = ("rows", "cols", "arrays", "clock", "vector", "sram_bandwidth")
    place, first = _distinct(flow, peak, *(at[key] for key in keys if key in at))
    own = {key: column[first] for key, column in at.items()}
    none = np.zeros(len(first))
    arrays = Arrays(
        rows=own["rows"],
        cols=own["cols"],
        count=own["arrays"],
        dataflow=flow[first],
        hidden=spec.names["preload"] == "hidden",
    )
    side = ArraySide(
        arrays=arrays,
        s_per_flop=_inverse(peak[first]),
        s_per_cycle=_inverse(own["clock"]),
        s_per_vector_flop=none + _inverse(own.get("vector")),
        s_per_sram_byte=none + _inverse(own.get("sram_bandwidth")),
    )
    return side, place


def _memory_side(at: Mapping[str, Floats], rate: Floats) -> tuple[MemorySide, NDArray[np.int64]]:
    place, first = _distinct(at["sram"], at["buffering"], rate)
    side = MemorySide(
        on_chip=at["sram"][first],
        buffers=at["buffering"][first],
        s_per_byte=_inverse(rate[first]),
    )
    return side, place


def _names_at(spec: DesignSpec, field: str, values: Mapping[str, Any], count: int) -> Words:
    """What a field of names is at each design: a name, or the values of a parameter."""
    given = values.get(spec.names[field], spec.names[field])
    return given if isinstance(given, Words) else repeated(str(given), count)


def _full(value: Any, count: int) -> Floats:
    return np.broadcast_to(np.asarray(value, dtype=float), (count,))


def _least(spec: DesignSpec, at: Mapping[str, Floats], key: str, least: float) -> None:
    wrong = at[key] < least if least else at[key] <= 0
    if wrong.any():
        value = format_number(float(at[key][wrong][0]))
        wanted = f"at least {least:g}" if least else "positive"
        raise InputError(
            f"device.{key} = {spec.formulas[key].text} is {value}; it must be {wanted}."
        )


def _peak(spec: DesignSpec, at: Mapping[str, Floats], built: Floats) -> Floats:
    peak = at.get("peak", built)
    below = peak < built * (1 - 1e-9)
    if below.any():
        told = spec.formulas["peak"].text
        raise InputError(
            f"device.peak = {told} is {format_number(float(peak[below][0]))} FLOP/s, less than "
            f"its arrays do: 2 * rows * cols * arrays * clock = "
            f"{format_number(float(built[below][0]))}."
        )
    return peak


def _codes(spec: DesignSpec, values: Mapping[str, Any], count: int) -> NDArray[np.int64]:
    """The dataflow of each design."""
    given = _names_at(spec, "dataflow", values, count)
    for name in given.names:
        if name not in DATAFLOWS:
            raise UnknownNameError("dataflow", name, DATAFLOWS)
    return np.array([DATAFLOWS.index(name) for name in given.names])[given.codes]


def _distinct(*columns: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each row the number of its combination, and of each combination a row that has it."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        if (column == column[0]).all():
            continue
        own, places = np.unique(column, return_inverse=True)
        code = code * len(own) + places
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return inverse, first


def _inverse(rate: Any) -> Any:
    """Seconds for one unit of work; 0, never limiting, where there is no rate."""
    return 0.0 if rate is None else roofline.seconds(1.0, rate)


def _dram(
    spec: DesignSpec, values: Mapping[str, Any], at: Mapping[str, Floats], count: int
) -> tuple[Floats, Floats]:
    """Bandwidth, and energy of a byte."""
    own = at.get("dram_bandwidth")
    if "dram" not in spec.names:
        assert own is not None  # the file has one of them
        return own, np.full(count, np.nan)
    given = _names_at(spec, "dram", values, count)
    kinds = [dram_kind(name) for name in given.names]
    joules = [np.nan if k.j_per_byte is None else k.j_per_byte for k in kinds]
    rate = np.array([k.byte_per_s for k in kinds])[given.codes] * at["dram_units"]
    return rate if own is None else own, np.array(joules)[given.codes]


def _energy(spec: DesignSpec, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Figures in J and W; those of the process node where the file states none."""
    found: dict[str, Any] = {}
    for key, formula in spec.energy.items():
        scale = 1.0 if key == "static_w" else 1e-12
        found[key] = formula(numbers) * scale
    precision = spec.names["precision"]
    for key, kind, times in (("mac_pj", "matrix", 2), ("vector_pj", "vector", 1)):
        own = node_energy(spec.node, kind, precision) if key not in found else None
        if own is not None:
            found[key] = own.value * times
    return found


def _sum(budget: Budget, numbers: Mapping[str, Any], count: int) -> Floats:
    if not budget.parts:
        return np.full(count, np.nan)
    whole: Any = sum(part.amount(numbers) for part in budget.parts)
    return _full(whole, count)


def _within(spec: DesignSpec, area: Floats, power: Floats) -> NDArray[np.int8]:
    limits = [(area, spec.area.limit), (power, spec.power.limit)]
    held = [(amount, limit) for amount, limit in limits if limit is not None]
    known = [np.where(np.isnan(amount), -1, amount <= limit) for amount, limit in held]
    if not known:
        return np.full(len(area), -1, np.int8)
    # A budget that is exceeded decides, then one that is not known.
    exceeded = np.any([one == 0 for one in known], axis=0)
    return np.where(exceeded, 0, np.min(known, axis=0)).astype(np.int8)
