"""The JSON of an analysis: every stored field and every derived figure; it loads without loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.analysis.measures import Estimate, Measures, State
from gambrel.analysis.needs import EnergyEstimate
from gambrel.analysis.result import Analysis, Group, OpResult
from gambrel.errors import FileFormatError
from gambrel.fileio import path_of, read_bytes
from gambrel.report.json_head import SCHEMA_VERSION
from gambrel.report.options import Options
from gambrel.report.terms import DEFINITIONS, DERIVED

#: Says what the file is; no other JSON carries it by accident.
TYPE: Final = "gambrel/analysis"
#: Several of them.
SEVERAL: Final = "gambrel/analyses"

#: Analyses are a few MB at most; more is not ours and would only fill memory.
MAX_BYTES: Final = 1 << 29

#: Figures of the whole that are no `Measures`; in JSON they stand with the total.
_WHOLE: Final = (
    *("coverage", "coverage_time", "coverage_traffic", "bound_shares", "confidence_shares"),
    *("cached_traffic_bytes", "cached_roofline_time_s"),
)
#: Those of them that are stored rather than derived.
_OF_TOTAL: Final = tuple(name for name in _WHOLE if name in Analysis.__struct_fields__)
_MEASURES: Final = frozenset(Measures.__struct_fields__)
#: Field of an estimate → name in JSON, flat beside the other figures of its scope.
_ESTIMATE: Final = {
    "value": "expected_time_s",
    "low": "expected_low_s",
    "high": "expected_high_s",
    "confidence": "confidence",
    "reason": "confidence_reason",
} | {
    name: f"expected_{name}"
    for name in Estimate.__struct_fields__
    if name not in {"value", "low", "high", "confidence", "reason", "caution"}
}
#: Only where there is one, and the field of the record.
_CAUTION: Final = "expected_caution", "caution"
_ENERGY: Final = ("average_power_w", "energy_per_inference_j", "inferences_per_j")


def content(analysis: Analysis, options: Options | None = None) -> dict[str, Any]:
    """Returns the analysis as plain dicts and lists, derived figures included.

    An op, a group and the total carry their measures flat, under the same keys. An infinite
    intensity is the text ``"Infinity"``, because JSON has no such number. With
    ``options.recommend`` there is the advice as well, which loading leaves out.

    Raises:
        ValueError: A stored number is not finite, which JSON cannot hold.
    """
    stored: dict[str, Any] = msgspec.to_builtins(analysis)
    _refuse_non_finite(stored, "analysis")
    total = _measures(analysis.total, stored["total"])
    total |= {key: getattr(analysis, key) for key in _WHOLE if hasattr(analysis, key)}
    total["confidence_reason"] = analysis.confidence_reason
    for key in _OF_TOTAL:
        stored.pop(key)
    body: dict[str, Any] = {
        "total": total,
        "ops": _rows(analysis.ops, stored["ops"]),
        "by_kind": _rows(analysis.by_kind, stored["by_kind"]),
        "by_module": _rows(analysis.by_module, stored["by_module"]),
        "footprint": {"total_bytes": analysis.footprint.total_bytes} | stored["footprint"],
        "energy": _energy(analysis.energy, stored["energy"]),
    }
    order = ("model", "hardware", "runtime", "total", "ops", "by_kind", "by_module", "footprint")
    found = {key: stored[key] for key in order if key in stored} | stored | body
    found |= {"definitions": DEFINITIONS}
    return found if options is None or not options.recommend else found | _advice(analysis)


def _advice(analysis: Analysis) -> dict[str, Any]:
    from gambrel.report.builders.advice import advice_of

    return {"advice": advice_of(analysis)}


def _energy(energy: EnergyEstimate | None, stored: Any) -> Any:
    return stored and {name: getattr(energy, name) for name in _ENERGY} | stored


def _measures(measures: Measures, stored: dict[str, Any]) -> dict[str, Any]:
    values = {name: getattr(measures, name) for name in DERIVED}
    for level, data in zip(measures.levels, stored["levels"], strict=True):
        data["arithmetic_intensity"] = level.arithmetic_intensity
        _infinite(data)
    _infinite(values)
    estimate = stored.pop("expected_time_s") or {}
    found = values | stored | {key: estimate.get(name) for name, key in _ESTIMATE.items()}
    return found | {key: estimate[name] for key, name in (_CAUTION,) if estimate.get(name)}


def _infinite(data: dict[str, Any]) -> None:
    """JSON has no infinity: it is a text."""
    for key, value in data.items():
        if isinstance(value, float) and math.isinf(value):
            data[key] = "Infinity"


def _rows(rows: Sequence[OpResult | Group], stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row, data in zip(rows, stored, strict=True):
        data |= _measures(row.measures, data.pop("measures"))
        if isinstance(row, OpResult):
            known = 0.0 if row.state is State.UNMODELLED else 1.0
            data |= {"coverage": known, "coverage_time": known}
    return stored


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


def load_analysis(source: str | Path | bytes) -> Analysis:
    """Reads an analysis that `gambrel.report.write` wrote.

    Args:
        source: A path, or the bytes themselves.

    Raises:
        FileFormatError: The file is missing, truncated, of another kind or of another version.
    """
    where, data = _decode(source)
    if isinstance(data, dict) and data.get("type") == SEVERAL:
        raise FileFormatError(f"{where} holds several analyses; read it with load_analyses.")
    return _convert(where, data)


def load_analyses(source: str | Path | bytes) -> tuple[Analysis, ...]:
    """Reads one or several analyses that `gambrel.report.write` wrote.

    Raises:
        FileFormatError: As `load_analysis`.
    """
    where, data = _decode(source)
    several = isinstance(data, dict) and data.get("type") == SEVERAL
    listed = data.get("analyses") if several else [data]
    if not isinstance(listed, list):
        raise FileFormatError(f"{where} is not complete: it has no list of analyses.")
    return tuple(_convert(where, item) for item in listed)


def _decode(source: str | Path | bytes) -> tuple[str, Any]:
    if isinstance(source, bytes):
        where, raw = "the data", source
    else:
        path = path_of(source)
        where, raw = str(path), read_bytes(path, MAX_BYTES, "an analysis")
    try:
        return where, msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"{where} is not an analysis: no valid JSON ({error}).") from None


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
    """Undoes the flattening of `content`; what is derived is dropped and computed again."""
    total = data["total"]
    rows = {key: [_row(row) for row in data[key]] for key in ("ops", "by_kind", "by_module")}
    return data | rows | {"total": _stored(total)} | {key: total[key] for key in _OF_TOTAL}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"measures": _stored(row)}


def _stored(data: dict[str, Any]) -> dict[str, Any]:
    # Every field is required here though the record has defaults: an absent count is damage, and
    # must not load as zero.
    found = {key: data[key] for key in _MEASURES}
    if data["expected_time_s"] is not None:
        found["expected_time_s"] = {name: data[key] for name, key in _ESTIMATE.items()} | {
            name: data[key] for key, name in (_CAUTION,) if key in data
        }
    return found
