"""What a sweep gives: a table with one row per point, or where it was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gambrel.engine.tables import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    DataField,
    PointTable,
    Words,
    joined,
    length,
)
from gambrel.views import Viewed, view

_DATA_COLUMNS: Final = (
    DataField(name="flops", kind=NUMBER, unit="FLOP"),
    DataField(name="traffic_bytes", kind=NUMBER, unit="byte"),
    DataField(name="sol_time_s", kind=NUMBER, unit="s"),
    DataField(name="roofline_time_s", kind=NUMBER, unit="s"),
    DataField(name="bound", kind=TEXT),
    DataField(name="expected_time_s", kind=NUMBER, unit="s"),
    DataField(name="items_per_s", kind=NUMBER, unit="1/s"),
    DataField(name="memory_bytes", kind=NUMBER, unit="byte"),
    DataField(name="fits", kind=FLAG),
    DataField(name="energy_per_item_j", kind=NUMBER, unit="J"),
    DataField(name="refused", kind=TEXT),
)
#: What every sweep says of a point besides what was asked.
FIGURES: Final = tuple(f.name for f in _DATA_COLUMNS)


def fields_for(named: Sequence[str], sizes: Sequence[str]) -> tuple[DataField, ...]:
    """The columns of a sweep.

    Args:
        named: Of what is named: model, device, precision, runtime, ...
        sizes: Of sizes.
    """
    return (
        *(DataField(name=name, kind=TEXT) for name in named),
        *(DataField(name=name, kind=WHOLE) for name in sizes),
        *_DATA_COLUMNS,
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, weakref_slot=True)
class Sweep(Viewed):
    """Points and their figures; each column is an attribute as well.

    Attributes:
        models: Names of the models.
        fields: Columns with their units.
        table: The rows that are kept: all, or the front where nothing else is. Empty where they
            were written to `path`.
        points: That were asked for.
        rows: That were kept.
        pareto: Objectives of `front`.
        front: Points that no other beats in every objective; None where none was asked for.
        path: The folder or file that holds the rows; None where they are here.
        resumed: Points that an earlier run had written.
        seconds: That the run took.
        warnings: What the reader should know.
    """

    models: tuple[str, ...]
    fields: tuple[DataField, ...]
    table: PointTable
    points: int
    rows: int
    pareto: tuple[str, ...] = ()
    front: PointTable | None = None
    path: Path | None = None
    resumed: int = 0
    seconds: float | None = None
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return length(self.table)

    def __repr__(self) -> str:
        """Without a look at the points, of which there may be millions."""
        where = "" if self.path is None else f" in {self.path}"
        return (
            f"<Sweep: {', '.join(self.models)}: {self.points:,} points, {self.rows:,} kept{where}>"
        )

    def __getattr__(self, name: str) -> Any:
        """A column by its name, as an array."""
        if name.startswith("__") or name not in (f.name for f in self.fields):
            raise AttributeError(f"a sweep has no {name!r}")
        return self.column(name)

    @property
    def sizes(self) -> dict[str, Any]:
        """Size → its value at each point."""
        return {f.name: self.column(f.name) for f in self.fields if f.kind == WHOLE}

    def column(self, name: str) -> Any:
        """One column as an array; texts as texts."""
        values = self.table[name]
        return values.texts() if isinstance(values, Words) else values

    def to_dict(self) -> dict[str, Any]:
        """Column name → values."""
        return {field.name: self.column(field.name) for field in self.fields}

    def to_dataframe(self) -> Any:
        """One row a point, texts as categories; of a sweep on disk what is there.

        Returns:
            A ``pandas.DataFrame``.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return view("sweep_frame", self)


def join_sweeps(parts: Sequence[Sweep]) -> Sweep:
    """Sweeps over the same columns, one behind the other.

    Args:
        parts: At least one.
    """
    import dataclasses

    table = joined([part.table for part in parts])
    rows = sum(part.rows for part in parts)
    points = sum(part.points for part in parts)
    models = tuple(dict.fromkeys(name for part in parts for name in part.models))
    return dataclasses.replace(parts[0], models=models, table=table, rows=rows, points=points)


def unknown_numbers(count: int) -> Any:
    """A column of numbers that nobody knows."""
    return np.full(count, np.nan)
