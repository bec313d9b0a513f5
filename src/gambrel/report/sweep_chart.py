"""A sweep as a picture: time per item over a size, and where the work leaves the memory roof."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gambrel.report.blocks import DataTable
from gambrel.report.builders.sweep import rows
from gambrel.report.options import Options
from gambrel.report.picture import Axis, Chart, Curve, Note, Picture

#: Sizes that become the axis, the first that has several values.
_SIZES: Final = ("batch", "context", "seq", "image", "tokens")
#: Curves drawn: more cannot be told apart.
_MOST: Final = 6
Point = dict[str, Any]


def pictures(record: object, _options: Options) -> tuple[Picture, ...]:
    """Rate over the size that varies, one curve for each device and format; none without one.

    A ring marks where a curve becomes compute-bound: from that size on (of a batch: the critical
    batch size) the ridge point is behind it, and more costs time in proportion.
    """
    table = rows(record)  # type: ignore[arg-type]
    size = next((name for name in _SIZES if _varies(table, name)), "")
    groups = _groups(table, size) if size else {}
    if not groups:
        return ()
    timed = any(p["time"] == "expected_time_s" for points in groups.values() for p in points)
    chosen = list(groups.items())[:_MOST]
    notes = tuple(n for _, points in chosen for n in _ridge(size, points))
    return (
        Chart(
            title=f"Rate against {size}",
            about=_about(size, len(groups), crossed=bool(notes)),
            x=Axis(title=size),
            y=Axis(title=f"{'expected' if timed else 'roofline'} rate, items/s", unit=""),
            curves=tuple(_curve(i, name, points) for i, (name, points) in enumerate(chosen)),
            notes=notes,
        ),
    )


def _about(size: str, curves: int, *, crossed: bool) -> str:
    text = f"No curve crosses the ridge within these sizes: none becomes compute-bound by {size}."
    if crossed:
        text = f"The note stands where a curve crosses the ridge: from that {size} on it is "
        text += (
            "compute-bound by the roofline; the expected rate rises further while overhead shrinks."
        )
    return text if curves <= _MOST else f"{text} The first {_MOST} of {curves} curves."


def _values(table: DataTable, name: str) -> Sequence[Any]:
    column = next((c for c in table.columns if name in (c.key, c.title)), None)
    if column is None:
        return ()
    return column.values or column.cells


def _varies(table: DataTable, name: str) -> bool:
    return len(set(_values(table, name))) > 1


def _groups(table: DataTable, size: str) -> Mapping[str, list[Point]]:
    """The points of each curve by rising size."""
    names = [n for n in ("model", "device", "precision", "runtime", *_SIZES) if n != size]
    names = [n for n in names if _varies(table, n)]
    columns = {n: _values(table, n) for n in (*names, size, "batch", "bound")}
    expected, roofline = (_values(table, f"{n}_time_s") for n in ("expected", "roofline"))
    found: dict[str, list[Point]] = defaultdict(list)
    for i, at in enumerate(columns[size]):
        time = expected[i] if expected and expected[i] else roofline[i] if roofline else None
        if not time or not at:
            continue
        items = columns["batch"][i] if columns["batch"] else 1
        label = ", ".join(_said(n, columns[n][i]) for n in names)
        bound = columns["bound"][i] if columns["bound"] else ""
        kind = "expected_time_s" if expected and expected[i] else "roofline_time_s"
        found[label].append({"at": float(at), "y": items / time, "bound": bound, "time": kind})
    return {label: sorted(points, key=lambda p: p["at"]) for label, points in found.items()}


def _said(name: str, value: object) -> str:
    return f"{name} {value}" if name in _SIZES else str(value)


def _curve(i: int, name: str, points: Sequence[Point]) -> Curve:
    return Curve(name=name, points=tuple((p["at"], p["y"]) for p in points), color=i)


def _ridge(size: str, points: Sequence[Point]) -> Iterator[Note]:
    """The first size that is compute-bound, where smaller ones are not."""
    first = next((i for i, p in enumerate(points) if p["bound"] == "compute"), 0)
    if first:
        at = points[first]
        said = "critical batch size" if size == "batch" else f"critical {size}"
        yield Note(at=(at["at"], at["y"]), text=f"{said} {at['at']:,.0f}")
