"""Designs under models: the front, the design that is fastest within the budgets, its layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gambrel.engine.tables import NUMBER, DataField, length, plain
from gambrel.report.blocks import (
    Column,
    DataTable,
    Document,
    FactList,
    KeyFigure,
    Notes,
    amount,
    col,
    figures,
    ratio,
    seconds,
    section,
    sections,
    share,
    table_of,
)
from gambrel.report.builders import sweep as points
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_count, format_number, format_si

if TYPE_CHECKING:
    from gambrel.advise.design.record import DesignStudy, Sensitivity


def document(found: DesignStudy, _options: Options) -> Document:
    """The front, the chosen design, what more of each parameter is worth, its layers."""
    return Document(
        title=f"{found.name}: {format_count(found.sweep.points, 'point')}",
        answer=tuple(_answer(found)),
        sections=sections(
            section(_chosen(found)),
            section(_front(found)),
            section(_sensitivities(found)),
            section(_layers(found)),
            section(_fusion(found)),
            section(Notes(items=found.assumptions), folded="assumptions"),
        ),
        source="the parameters of the design and the published constants under its assumptions",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: DesignStudy) -> Iterator[KeyFigure]:
    total = found.totals
    yield KeyFigure(
        label="time on the array",
        text=seconds(total["array_time_s"]),
        note=f"speed of light {seconds(total['sol_time_s'])}",
        formula="cycles of its tiles, layer by layer, with what the memory delays",
    )
    yield KeyFigure(
        label="utilization",
        text=share(total["array_utilization"]),
        note=f"of {format_si(total['peak_flop_per_s'], 'FLOP/s')}",
        formula="work / (peak x time on the array)",
    )
    yield KeyFigure(label="busy longest", text=str(total["limited_by"]), key="limited_by")
    yield KeyFigure(
        label="energy per item",
        text=format_si(total["energy_per_item_j"], "J", 3),
        formula="operations x energy each + bytes of every memory x energy each + leakage x time",
    )
    yield KeyFigure(
        label="area",
        text=_unit(total["area_mm2"], "mm²"),
        note=f"power {_unit(total['power_w'], 'W')}",
        formula="area of the array, its memories and interfaces",
    )


def _answer(found: DesignStudy) -> Iterator[str]:
    total, swept = found.totals, found.sweep
    models = (
        f"one run of each of {len(swept.models) - 1} models" if _many(found) else swept.models[0]
    )
    what = "The fastest design kept" if swept.points > len(swept.models) else "The design"
    yield (
        f"{what} takes {seconds(total['array_time_s'])} for {models}: "
        f"{share(total['array_utilization'])} of peak; roofline "
        f"{seconds(total['roofline_time_s'])}, speed of light "
        f"{seconds(total['sol_time_s'])}."
    )
    best = next(iter(found.sensitivities), None)
    most = f"The {total['limited_by']} is busy longest"
    if best is not None and best.time_gain > 0:
        tried = f"{best.parameter} {_value(best.now)} → {_tried(best)}"
        yield f"{most}; {tried} saves {share(best.time_gain)} of the time."
    else:
        yield f"{most}; more of no single parameter saves time."
    if swept.rows != swept.points:
        yield f"{swept.rows:,} of {swept.points:,} points are kept."
    if swept.path is not None:
        earlier = f", {swept.resumed:,} of them by an earlier run" if swept.resumed else ""
        yield f"{format_count(swept.rows, 'point')} written to {swept.path}{earlier}."
    yield from found.warnings


def _many(found: DesignStudy) -> bool:
    return len(found.sweep.models) > 1


def _chosen(found: DesignStudy) -> FactList:
    total = found.totals
    within = {True: "yes", False: "NO", None: "no budget"}[total["within"]]
    facts = [(name, _value(value)) for name, value in found.chosen.items()]
    facts += [
        ("peak", format_si(total["peak_flop_per_s"], "FLOP/s")),
        ("energy per item", format_si(total["energy_per_item_j"], "J", 3)),
        ("area", _unit(total["area_mm2"], "mm²")),
        ("power", _unit(total["power_w"], "W")),
        ("within budgets", within),
    ]
    return FactList(items=tuple(facts), heading="The design")


def _unit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{format_number(value)} {unit}"


def _value(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if value >= 1 << 14 and value % 1024 == 0:
        return format_capacity(value)
    return format_si(value, "", 4).strip()


def _front(found: DesignStudy) -> DataTable | None:
    """Under all models together; files and JSON have those of each model."""
    swept = found.sweep
    table = swept.front if swept.front is not None else swept.table
    if swept.points <= len(swept.models) or not length(table):
        return None
    table = points.of_model(table, swept.models[-1])
    shown = [f for f in swept.fields if f.name not in _LEFT_OUT and points.varies(table, f)]
    heading = f"No other design is better in all of {', '.join(swept.pareto)}"
    return DataTable(columns=tuple(_column(f, table) for f in shown), heading=heading)


#: Columns of points that the front leaves out.
_LEFT_OUT = ("within", "items_per_s", "sol_time_s", "roofline_time_s")


_TITLES = {
    "peak_flop_per_s": "peak",
    "array_time_s": "time",
    "array_utilization": "of peak",
    "area_mm2": "mm²",
    "power_w": "W",
    "limited_by": "limited by",
}


def _column(field: DataField, table: Any) -> Column:
    if field.kind == NUMBER and not field.unit:
        values = plain(table[field.name])
        return figures(field.name, values, _value, field.name, priority=0)
    column = points.column(field, table)
    return replace(column, title=_TITLES.get(field.name, column.title))


def _tried(row: Sensitivity) -> str:
    """In the unit in which the value is shown."""
    if _value(row.now).endswith("iB"):
        return format_capacity(row.tried_value)
    return _value(row.tried_value)


def _sensitivities(found: DesignStudy) -> DataTable:
    return table_of(
        found.sensitivities,
        col("parameter", "parameter"),
        col("value", lambda row: _value(row.now), key="now", align="right"),
        col("tried", lambda row: _tried(row), key="tried_value", align="right"),
        col("time saved", "time_gain", share),
        col("for 10 %", "per_tenth", share, 1),
        col("energy saved", "energy_gain", share, 2),
        col("area added", "area_cost", share, 3),
        heading="What more of each parameter saves",
        all=True,
    )


def _layers(found: DesignStudy) -> DataTable:
    return table_of(
        found.layers,
        col("model", "model", priority=4) if _many(found) else None,
        col("layer", "name", minimum=12),
        col("kind", "kind", priority=6),
        col("times", "count", ratio, 5),
        col("time", "array_time_s", seconds),
        col("share", "share", share, 3),
        col("of peak", "array_utilization", share, 1),
        col("DRAM", "traffic_bytes", amount, 2),
        col("tiled alone", "tiled_bytes", amount, 5),
        col("lower bound", "io_bound_bytes", amount, 5),
        col("limited by", "limited_by", priority=1),
        col("parameter", "parameter", priority=0),
        col("10 % more saves", "gain", share, 4),
        col("best tiling", "tiling", priority=7),
        heading="Layers, slowest first",
        shares=tuple(layer.share for layer in found.layers),
        whole="" if _many(found) else "the time",
    )


def _fusion(found: DesignStudy) -> DataTable:
    return table_of(
        found.fusion,
        col("model", "model"),
        col("groups", "stacks", ratio),
        col("deepest", "deepest", ratio),
        col("mean depth", "mean", ratio),
        col("DRAM", "traffic_bytes", amount),
        heading="Layers that stay on chip together",
        all=True,
    )


def rows(found: DesignStudy) -> DataTable:
    """One row a point; of points on disk their front."""
    return points.rows(found.sweep)


def content(found: DesignStudy, options: Options | None = None) -> dict[str, Any]:
    """The points by column, then the chosen design."""
    said = points.content(found.sweep, options)
    said["parameters"] = {a: said["columns"].pop(a) for a in found.chosen if a in said["columns"]}
    return said | {
        "name": found.name,
        "design": {
            "parameters": {name: str(_value(value)) for name, value in found.chosen.items()},
            **found.totals,
        },
        "sensitivities": found.sensitivities,
        "design_layers": found.layers,
        "fusion": found.fusion,
        "assumptions": found.assumptions,
        "warnings": found.warnings,
    }
