"""The configuration of a gate, a TOML, and the figures that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.advise.gate.records import GateMetric
from gambrel.analysis.question.model_sets import members
from gambrel.analysis.result import Analysis
from gambrel.errors import FileFormatError, InputError
from gambrel.fileio import read_record, read_toml

#: No configuration is longer.
_LARGEST: Final = 64 << 20
_HAS: Final = "What a gate has: [[expected]] tables, files and [tolerance]."
#: Figures of an analysis that are gated where the configuration names none.
_EXPECTED: Final = ("expected_time_s", "roofline_time_s", "sol_time_s", "flops", "traffic_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """What a gate looks at.

    Attributes:
        expected: Questions whose figures are computed: keywords of `gambrel.analyze`, with lists
            for model (sets as well), hardware and batch, and ``metrics``.
        files: Results to read.
        tolerance: Pattern of a metric → share that it may get worse.
    """

    expected: tuple[Mapping[str, Any], ...] = ()
    files: tuple[Path, ...] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict)


class _Tables(msgspec.Struct):
    """A configuration as it is written."""

    expected: list[dict[str, Any]] = []
    files: list[str] = []
    tolerance: dict[str, float] = {}


def read_config(path: Path) -> GateConfig:
    """Reads a configuration.

    Raises:
        FileFormatError: It is no TOML, or has a table or a tolerance that no gate has.
    """
    data = read_toml(path, _LARGEST, "a gate configuration", _HAS)
    try:
        tables = read_record(_Tables, data, "a gate configuration")
    except InputError as error:
        raise FileFormatError(f"{path}: {error} {_HAS}") from None
    for name, share in tables.tolerance.items():
        if not 0 <= share <= 10:
            raise FileFormatError(f"{path}: tolerance {name}: {share!r} is no share, e.g. 0.05.")
    files = tuple(path.parent / name for name in tables.files)
    return GateConfig(expected=tuple(tables.expected), files=files, tolerance=tables.tolerance)


def computed(entry: Mapping[str, Any]) -> list[GateMetric]:
    """Figures of one model on its devices and at its batches."""
    from gambrel.api.analyze import analyze

    asked = dict(entry)
    wanted = _list(asked.pop("metrics", list(_EXPECTED)))
    models, devices, batches = (_list(asked.pop(k, None)) for k in ("model", "hardware", "batch"))
    if models == [None] or devices == [None]:
        raise InputError("[[expected]] needs a model and hardware.")
    rest = "".join(f" {v}" for v in asked.values())
    found = []
    for model, device, batch in product(members(tuple(models), "gate"), devices, batches):
        analysis = analyze(model, device, batch_size=batch, **asked)
        name = f"{model}{rest} {device}" + ("" if batch is None else f" b{batch}")
        found += [_figure(name, analysis, str(metric)) for metric in wanted]
    return found


def _figure(name: str, analysis: Analysis, metric: str) -> GateMetric:
    from gambrel.report.units import unit_of

    value = getattr(analysis, metric, None)
    if value is None:
        why = "is unknown" if hasattr(analysis, metric) else "is no figure of an analysis"
        raise InputError(f"{name}: {metric} {why}, so it cannot be gated; {_EXPECTED[0]} can.")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name}: {metric} is no number, so it cannot be gated.") from None
    return GateMetric(
        name=f"{name} {metric}",
        samples=(number,),
        unit=unit_of(metric) or "",
        source="computed",
    )


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]
