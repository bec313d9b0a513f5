"""Numbers of several devices side by side, which a formula reads like those of one.

A formula may branch on a constant or on a number of the device. It does the same for all devices
that stand side by side, or they are taken apart: see `MixedError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.formula_input import FormulaInput
from gambrel.analysis.estimate.kinship import Chosen
from gambrel.ops.base import MixedError

Row = TypeVar("Row", bound=msgspec.Struct)


class DeviceColumn(np.ndarray[Any, np.dtype[np.float64]]):
    """A number for each device; figures that follow from it are again columns."""

    def __bool__(self) -> bool:
        wanted = np.asarray(self) != 0
        number = np.count_nonzero(wanted)
        if 0 < number < wanted.size:
            raise MixedError(wanted)
        return bool(number)

    def __float__(self) -> float:
        values = np.asarray(self)
        alike = values == values.flat[0]
        if not alike.all():
            raise MixedError(alike)
        return float(values.flat[0])

    def __int__(self) -> int:
        return int(float(self))


def side_by_side(
    inputs: Sequence[FormulaInput], known: dict[tuple[int, ...], Chip] | None = None
) -> FormulaInput:
    """What devices that take constants for the same formula ask it with, in columns.

    Args:
        inputs: Of each device.
        known: Columns of machines that were asked for, by their ids; added to.
    """
    if len(inputs) == 1:
        return inputs[0]
    known = {} if known is None else known
    key = tuple(id(one.machine) for one in inputs)  # of machines that estimators keep
    if key not in known:
        known[key] = _columns([one.machine for one in inputs])
    return replace(
        inputs[0],
        chosen=_constants([one.chosen for one in inputs]),
        machine=known[key],
        task=_columns([one.task for one in inputs]),
    )


def _columns(rows: Sequence[Row]) -> Row:
    """Records as one whose numbers are columns; what is alike in all stays as it is."""
    columns: dict[str, Any] = {}
    for name in rows[0].__struct_fields__:
        first, *others = values = [getattr(row, name) for row in rows]
        if isinstance(first, (int, float)) and any(value != first for value in others):
            columns[name] = column(values)
    return replace(rows[0], **columns)


def _constants(chosen: Sequence[Chosen]) -> Chosen:
    different = {id(one): one.constants for one in chosen}
    if len(different) == 1:
        return chosen[0]
    first, *others = different.values()
    columns: dict[str, Any] = {
        name: value
        if all(other[name] == value for other in others)
        else column([one.constants[name] for one in chosen])
        for name, value in first.items()
    }
    return replace(chosen[0], constants=columns)


def column(values: Sequence[float]) -> DeviceColumn:
    """A number of each of several devices."""
    return np.array(values, dtype=float)[:, None].view(DeviceColumn)
