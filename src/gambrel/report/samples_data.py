"""Measured kernels as JSON and CSV: every figure in base units, unknown as null or empty."""

from __future__ import annotations

import csv
import io
import math
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.analysis.samples import Known, LevelPlace, Placed, Standing
from gambrel.analysis.samples.diagnose import recommend
from gambrel.analysis.samples.instructions import peak_instructions
from gambrel.analysis.samples.join import Joined
from gambrel.analysis.samples.movement import Movement
from gambrel.report.options import Options
from gambrel.report.text import clean

#: Says what the JSON is.
TYPE: Final = "gambrel/samples"
SCHEMA_VERSION: Final = 1

_UNITS: Final = {
    "flops": "FLOP",
    "measured_time_s": "s",
    "roofline_time_s": "s",
    "traffic_bytes": "byte",
    "others": "byte",
    "byte_per_s": "byte/s",
    "peak_byte_per_s": "byte/s",
    "flop_per_s": "FLOP/s",
    "peak_flop_per_s": "FLOP/s",
    "attainable_flop_per_s": "FLOP/s",
    "arithmetic_intensity": "FLOP/byte",
    "roofline_efficiency": "1",
    "utilization": "1",
    "time_share": "1",
    "recorded": "1",
    "headroom_s": "s",
    "instructions": "warp instruction",
    "instruction_per_s": "warp instruction/s",
    "peak_instruction_per_s": "warp instruction/s",
    "saves_s": "s",
    "gained_s": "s",
    "error": "1",
    "spans": "s",
}
_LEVELS: Final = ("DRAM", "L2", "L1", "shared")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def render_json(
    standing: Standing,
    _options: Options | None = None,
    *,
    joined: Joined | None = None,
    movement: Movement | None = None,
) -> str:
    """Returns everything as indented JSON text, ending with a newline."""
    data = msgspec.json.encode(to_data(standing, joined, movement))
    return msgspec.json.format(data, indent=2).decode() + "\n"


def to_data(
    standing: Standing, joined: Joined | None = None, movement: Movement | None = None
) -> dict[str, Any]:
    """Returns everything as plain dicts and lists.

    Args:
        standing: Measured kernels.
        joined: The same under the prediction of a model.
        movement: The same beside another run.

    An infinite intensity is the text ``"Infinity"``; what is unknown is None, and ``state`` tells
    why the work is.
    """
    samples = standing.samples
    return {
        "type": TYPE,
        "schema_version": SCHEMA_VERSION,
        "gambrel_version": __version__,
        "units": _UNITS,
        "format": samples.format,
        "sources": list(samples.sources),
        "by": standing.by,
        "hardware": msgspec.to_builtins(standing.device),
        "total": _row(standing.total),
        "kernels": [_row(k) for k in standing.kernels],
        "peak_instruction_per_s": peak_instructions(standing.device),
        "recommendations": msgspec.to_builtins(recommend(standing)),
        "model": msgspec.to_builtins(joined),
        "against": _movement(movement),
        "spans": samples.spans,
        "notes": list(standing.notes),
        "skipped": samples.skipped,
    }


def _movement(movement: Movement | None) -> dict[str, Any] | None:
    if movement is None:
        return None
    return {
        "sources": list(movement.before.samples.sources),
        "total": _row(movement.before.total),
        "gained_s": movement.gained_s,
        "speedup": movement.speedup,
        "notes": list(movement.notes),
        "moves": [
            {
                "name": m.name,
                "gained_s": m.gained_s,
                "speedup": m.speedup,
                "work_changed": m.work_changed,
                "before": _row(m.before) if m.before else None,
                "after": _row(m.after) if m.after else None,
            }
            for m in movement.moves
        ],
    }


def _row(placed: Placed) -> dict[str, Any]:
    s = placed.sample
    efficiency, rate = placed.roofline_efficiency, placed.flop_per_s
    return {
        "name": s.name,
        "group": s.group,
        "range": s.range,
        "origin": s.origin,
        "grid": s.grid,
        "block": s.block,
        "count": s.count,
        "measured_time_s": s.time_s,
        "time_share": placed.time_share,
        "flops": s.flops,
        "state": s.state.value,
        "why": s.why,
        "work": [
            {
                "work_class": w.work_class,
                "dtype": w.dtype,
                "flops": w.flops,
                "sparse": w.sparse,
                "suspect": w.suspect,
                "how": w.how,
                "error": w.error,
            }
            for w in s.work
        ],
        "levels": [_level(x) for x in placed.levels],
        "flop_per_s": rate,
        "peak_flop_per_s": placed.peak_flop_per_s,
        "attainable_flop_per_s": rate / efficiency if rate and efficiency else None,
        "bound": placed.bound.value if placed.bound else None,
        "binding": placed.binding or None,
        "roofline_time_s": placed.roofline_time_s,
        "roofline_efficiency": efficiency,
        "headroom_s": placed.headroom_s,
        "instructions": s.instructions,
        "instruction_per_s": placed.instruction_per_s,
        "recorded": s.recorded,
        "ratios": s.ratios,
        "warnings": list(placed.warnings),
        "findings": list(placed.findings),
        "notes": list(s.notes),
    }


def _level(level: LevelPlace) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(level)
    if level.arithmetic_intensity is not None and math.isinf(level.arithmetic_intensity):
        data["arithmetic_intensity"] = "Infinity"
    return data


def render_csv(standing: Standing, _options: Options | None = None) -> str:
    """Returns one row a kernel; it reads back as a table of points.

    An unknown figure is an empty cell, an infinite one is ``inf``. Text that a spreadsheet would
    run as a formula is preceded by an apostrophe; control characters are made visible.
    """
    levels = [x for x in _LEVELS if any(k.level(x) for k in standing.kernels)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header = ["name", "count", "time_s", "flops", "state", "flop_per_s", "bound", "binding"]
    header += ["roofline_efficiency", "time_share", "engine", "dtype"]
    for x in levels:
        header += [f"{x.lower()}_bytes", f"{x.lower()}_intensity"]
    writer.writerow(header)
    writer.writerows(_cells(k, levels) for k in standing.kernels)
    return out.getvalue()


def _cells(k: Placed, levels: list[str]) -> list[object]:
    name = clean(k.sample.name)
    row: list[object] = [
        f"'{name}" if name.startswith(_FORMULA) else name,
        k.sample.count,
        k.sample.time_s,
        k.sample.flops,
        "" if k.sample.state is Known.COUNTED else k.sample.state.value,
        k.flop_per_s,
        k.bound.value if k.bound else "",
        k.binding,
        k.roofline_efficiency,
        k.time_share,
        *_engine(k),
    ]
    for level in levels:
        found = k.level(level)
        row += [found.traffic_bytes, found.arithmetic_intensity] if found else [None, None]
    return row


def _engine(k: Placed) -> tuple[str, str]:
    """Engine and format, where all work is in one."""
    found = {(w.work_class, w.dtype) for w in k.sample.work if w.flops and not w.suspect}
    return next(iter(found)) if len(found) == 1 else ("", "")
