"""JSON: every stored field and every derived figure; what was written loads without loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.analysis.measures import Measures, State
from gambrel.analysis.needs import Footprint
from gambrel.analysis.result import SCHEMA_VERSION, Analysis, Group, OpResult
from gambrel.errors import FileFormatError
from gambrel.report.energy import DERIVED as DERIVED_ENERGY
from gambrel.report.options import Options
from gambrel.report.terms import ALL_UNITS, DEFINITIONS, DERIVED

#: Says what the file is; no other JSON carries it by accident.
TYPE: Final = "gambrel/analysis"

#: Analyses are a few MB at most; more is not ours and would only fill memory.
MAX_BYTES: Final = 1 << 29

#: Figures of the whole that are fields of `Analysis`; in JSON they stand with the total.
_OF_TOTAL: Final = (
    "coverage",
    "coverage_traffic",
    "sol_time_s",
    "cached_roofline_time_s",
    "bound_shares",
)
_MEASURES: Final = frozenset(Measures.__struct_fields__)


def render(analysis: Analysis, options: Options | None = None) -> str:
    """Returns the analysis as indented JSON text, ending with a newline.

    Raises:
        ValueError: A stored number is not finite, which JSON cannot hold.
    """
    return _text(_document(analysis, options))


def render_many(analyses: Sequence[Analysis], options: Options | None = None) -> str:
    """Returns several analyses as one JSON list."""
    return _text([_document(a, options) for a in analyses])


def _document(analysis: Analysis, options: Options | None) -> dict[str, Any]:
    """The analysis, and where asked for its advice, which loading leaves out."""
    data = to_data(analysis)
    if options is None or not options.recommend:
        return data
    from gambrel.report.advice_section import UNITS as ADVICE_UNITS
    from gambrel.report.advice_section import advice_of

    found = advice_of(analysis)
    if found is None:
        return data | {"advice": None}
    return data | {"advice": {"units": ADVICE_UNITS} | msgspec.to_builtins(found)}


def _launch_saving(analysis: Analysis) -> dict[str, Any] | None:
    """Derived, and so left out when the file is read; times as everywhere numbers."""
    found = analysis.launch_saving()
    if found is None:
        return None
    data: dict[str, Any] = msgspec.to_builtins(found)
    fused = data["stack_time_s"]
    if fused is not None:
        data["stack_time_s"] = fused.pop("value")
    return data | {"stack_expected": fused}


def to_data(analysis: Analysis) -> dict[str, Any]:
    """Returns the analysis as plain dicts and lists, derived figures included.

    An op, a group and the total carry their measures flat, under the same keys. An infinite
    intensity is the text ``"Infinity"``, because JSON has no such number. ``expected_time_s`` is a
    number like every time; what else the estimate says (range, confidence) stands in ``expected``.
    """
    stored: dict[str, Any] = msgspec.to_builtins(analysis)
    _refuse_non_finite(stored, "analysis")
    total = _measures(analysis.total, stored["total"])
    total["cached_traffic_bytes"] = analysis.cached_traffic_bytes
    total["confidence_shares"] = analysis.confidence_shares
    total |= {key: stored.pop(key) for key in _OF_TOTAL}
    head = {
        "type": TYPE,
        "schema_version": stored.pop("schema_version"),
        "gambrel_version": stored.pop("gambrel_version"),
        "units": ALL_UNITS,
        "definitions": DEFINITIONS,
    }
    body: dict[str, Any] = {
        "total": total,
        "ops": _rows(analysis.ops, stored["ops"]),
        "by_kind": _rows(analysis.by_kind, stored["by_kind"]),
        "by_module": _rows(analysis.by_module, stored["by_module"]),
        "footprint": _footprint(analysis.footprint, stored["footprint"]),
    }
    if analysis.energy is not None:
        body["energy"] = {k: getattr(analysis.energy, k) for k in DERIVED_ENERGY} | stored["energy"]
    order = ("model", "hardware", "sparsity", "total", "ops", "by_kind", "by_module", "footprint")
    body["launch_saving"] = _launch_saving(analysis)
    return head | {key: stored[key] for key in order} | stored | body


def load_analysis(source: str | Path | bytes) -> Analysis:
    """Reads an analysis that `render` wrote.

    Args:
        source: A path, or the bytes themselves.

    Raises:
        FileFormatError: The file is missing, truncated, of another kind or of another version.
    """
    where, data = _decode(source)
    if isinstance(data, list):
        raise FileFormatError(
            f"{where} holds a list of {len(data)} analyses; read it with load_analyses."
        )
    return _convert(where, data)


def load_analyses(source: str | Path | bytes) -> tuple[Analysis, ...]:
    """Reads one or several analyses that `render` or `render_many` wrote.

    Raises:
        FileFormatError: As `load_analysis`.
    """
    where, data = _decode(source)
    return tuple(_convert(where, item) for item in (data if isinstance(data, list) else [data]))


def _text(data: object) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def _measures(measures: Measures, stored: dict[str, Any]) -> dict[str, Any]:
    values = {name: getattr(measures, name) for name in DERIVED}
    if math.isinf(values["arithmetic_intensity"]):
        values["arithmetic_intensity"] = "Infinity"
    for level, data in zip(measures.levels, stored["levels"], strict=True):
        intensity = level.arithmetic_intensity
        data["arithmetic_intensity"] = "Infinity" if math.isinf(intensity) else intensity
    estimate = stored["expected_time_s"]
    expected = measures.expected_time_s
    if estimate is not None and expected is not None:
        stored["expected_time_s"] = estimate.pop("value")
        bound = measures.roofline_time_s
        estimate["ratio_to_bound"] = expected.value / bound if bound else None
        estimate["launches_share"] = expected.launches_share
    return values | stored | {"expected": estimate}


def _rows(rows: Sequence[OpResult | Group], stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row, data in zip(rows, stored, strict=True):
        data |= _measures(row.measures, data.pop("measures"))
        if isinstance(row, OpResult):
            data["coverage"] = 0.0 if row.state is State.UNMODELLED else 1.0
    return stored


def _footprint(footprint: Footprint, stored: dict[str, Any]) -> dict[str, Any]:
    return {"total_bytes": footprint.total_bytes} | stored


def _refuse_non_finite(value: object, where: str) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}: an analysis holds finite numbers only")
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_non_finite(item, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _refuse_non_finite(item, where)


def _decode(source: str | Path | bytes) -> tuple[str, Any]:
    if isinstance(source, bytes):
        where, raw = "the data", source
    else:
        where, raw = str(source), _read(Path(source))
    try:
        return where, msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"{where} is not an analysis: no valid JSON ({error}).") from None


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FileFormatError(f"{path} is not an analysis: larger than {MAX_BYTES:,} bytes.")
        return path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}.") from None


def _convert(where: str, data: Any) -> Analysis:
    if not isinstance(data, dict) or data.get("type") != TYPE:
        raise FileFormatError(
            f'{where} is not an analysis: "type" is not "{TYPE}". '
            "Write one with 'gambrel analyze MODEL --hardware DEVICE --json'."
        )
    if data.get("schema_version") != SCHEMA_VERSION:
        raise FileFormatError(
            f"{where} has schema version {data.get('schema_version')!r}; "
            f"this gambrel reads version {SCHEMA_VERSION}. Run the analysis again."
        )
    try:
        return msgspec.convert(_nested(data), Analysis)
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        detail = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise FileFormatError(f"{where} is not a complete analysis: {detail}.") from None


def _nested(data: dict[str, Any]) -> dict[str, Any]:
    """Undoes the flattening of `to_data`; what is derived is dropped and computed again."""
    total = data["total"]
    rows = {key: [_row(row) for row in data[key]] for key in ("ops", "by_kind", "by_module")}
    return data | rows | {"total": _stored(total)} | {key: total[key] for key in _OF_TOTAL}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"measures": _stored(row)}


def _stored(data: dict[str, Any]) -> dict[str, Any]:
    # Every field is required here though the record has defaults: an absent count is damage, and
    # must not load as zero.
    found = {key: data[key] for key in _MEASURES}
    if data["expected"] is not None:
        found["expected_time_s"] = data["expected"] | {"value": data["expected_time_s"]}
    return found
