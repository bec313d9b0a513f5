"""A sweep: sizes × devices × precisions, one row a point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gambrel.report.blocks import (
    Column,
    DataTable,
    Document,
    amount,
    count,
    figures,
    ratio,
    seconds,
    section,
    sections,
    words,
)
from gambrel.report.options import Options

if TYPE_CHECKING:
    from gambrel.analysis.sweep import Sweep

#: How columns whose name ends so are shown.
_SHOWN: Final = (("_time_s", seconds), ("_bytes", amount), ("flops", amount))
#: Which columns go first where a terminal is narrow; sizes stay.
_PRIORITIES: Final = {
    "device": 0,
    "expected_time_s": 0,
    "roofline_time_s": 1,
    "precision": 2,
    "bound": 3,
    "sol_time_s": 5,
    "runtime": 6,
}


def document(found: Sweep, _options: Options) -> Document:
    """All points in order."""
    table = rows(found)
    return Document(
        title=f"{found.model}: {table.rows:,} points",
        sections=sections(section(table)),
    )


def rows(found: Sweep) -> DataTable:
    """One column a field of the sweep, and one a size."""
    return DataTable(columns=tuple(_column(n, v, found.sizes) for n, v in found.to_dict().items()))


def _column(name: str, values: Any, sizes: Mapping[str, Any]) -> Column:
    priority = _PRIORITIES.get(name, 0 if name in sizes else 4)
    title = name.removesuffix("_time_s").removesuffix("_bytes")
    show = next((s for end, s in _SHOWN if name.endswith(end)), None)
    if show is not None:
        return figures(title, _known(values), show, name, priority=priority)
    if values.dtype.kind in "iu":
        return figures(title, values.tolist(), count, name, priority=priority)
    if values.dtype.kind == "f":
        return figures(title, _known(values), ratio, name, priority=priority)
    return words(title, values.tolist(), name, priority=priority)


def content(found: Sweep, _options: Options | None = None) -> dict[str, Any]:
    """Columns rather than rows: a sweep may have 1e5 points."""
    columns = {n: _known(v) for n, v in found.to_dict().items() if n not in found.sizes}
    sizes = {name: values.tolist() for name, values in found.sizes.items()}
    return {"model": found.model, "sizes": sizes, "columns": columns}


def _known(values: Any) -> list[Any]:
    """As numbers of Python; NaN is None."""
    return [None if v != v else v for v in values.tolist()]
