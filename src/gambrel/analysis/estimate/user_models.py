"""A user's measured runs of whole models: reading them, and constants of the chip from them.

A file is a CSV with a header and one run a row: ``model`` (a name of the zoo or a path), ``ms``,
``us`` or ``s`` (time of one run), and optionally ``batch`` (1), ``precision``, ``device`` and
``runtime`` (of one device and runtime the rows are taken), and for language models ``phase``,
``seq`` and ``context``. Rows that cannot be right are left out, counted and named; the others are
fitted.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gambrel.analysis.estimate.constants import Calibration
from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.tiled import from_datasheet
from gambrel.analysis.estimate.tiled_constants import TiledConstants
from gambrel.analysis.estimate.tiled_fit import (
    MANY,
    MeasuredRun,
    MeasuredRuns,
    fit,
    left_out,
    pull_of,
    scales_of,
)
from gambrel.analysis.estimate.user import UNITS, header_of, rows_of, time_column
from gambrel.device.model import Device
from gambrel.dtypes import parse_dtype
from gambrel.errors import FileFormatError, GambrelError, InputError
from gambrel.fileio import text_lines

#: An inference is no shorter than this, and no longer.
_SHORTEST_S, _LONGEST_S = 1e-6, 3600.0
#: Measured times that differ from the expected by more than this are of another run.
ABSURD = 30.0
#: Different rows beyond this are another file; the same ones may be repeated any number of times.
_MOST = 10_000
#: Of rows that are left out so many are kept with their reason; all are counted.
_NAMED = 20
#: Columns of sizes beside the batch.
_SIZES = ("seq", "context")
_WHAT = "a CSV file of measurements"
#: Range of models around a chip's constants, where few were measured: 90 % of those of AI Hub.
_RANGE = (0.72, 1.75)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """A measured run as the file states it.

    Attributes:
        line: Of the file, the header being line 1.
        model: Name or path.
        batch: Items at once.
        precision: Canonical number format; None where the file does not say.
        seconds: Measured.
        phase: Of a language model; None where the file does not say.
        device: On which it was measured; None where the file does not say.
        runtime: What ran it; None where the file does not say.
        sizes: Further sizes of the model, by name.
    """

    line: int
    model: str
    batch: int
    precision: str | None
    seconds: float
    phase: str | None = None
    device: str | None = None
    runtime: str | None = None
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two rows the same run."""
        named = self.device, self.runtime
        return self.model, self.batch, self.precision, self.phase, self.sizes, *named


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRows:
    """A file of measured runs.

    Attributes:
        rows: That can be used.
        refused: Line and reason of the first of the others.
        refused_count: How many others there are.
    """

    rows: tuple[ModelRow, ...]
    refused: tuple[tuple[int, str], ...]
    refused_count: int


def holds_models(path: Path) -> bool:
    """Whether a file has whole models in its rows, and not kernels.

    Raises:
        FileFormatError: The file cannot be read.
    """
    with text_lines(path, _WHAT) as lines:
        names = header_of(path, csv.DictReader(lines))
    return "model" in names and "op" not in names


def read_models(path: Path) -> ModelRows:
    """Reads a file of measured runs.

    Raises:
        FileFormatError: It has no column of times, or several, or no rows.
    """
    with text_lines(path, _WHAT) as lines:
        return _rows(path, csv.DictReader(lines, restkey="(more)", restval=""))


def _rows(path: Path, reader: csv.DictReader[str]) -> ModelRows:
    unit = time_column(path, header_of(path, reader))
    rows: list[ModelRow] = []
    refused: list[tuple[int, str]] = []
    count = 0
    seen: set[tuple[object, ...]] = set()
    for raw in rows_of(path, reader):
        row, reason = _checked(raw, reader.line_num, unit, seen)
        if row is None:
            count += 1
            refused += [(reader.line_num, reason)] if len(refused) < _NAMED else []
            continue
        if len(rows) >= _MOST:
            raise FileFormatError(
                f"{path}: over {_MOST:,} different models, batches and formats; this is no file of "
                "a few models."
            )
        rows.append(row)
    return ModelRows(rows=tuple(rows), refused=tuple(refused), refused_count=count)


def _checked(
    raw: Mapping[str, str], line: int, unit: str, seen: set[tuple[object, ...]]
) -> tuple[ModelRow | None, str]:
    """A row that can be used and is the first of its kind; else why not."""
    try:
        row = _row(raw, line, unit)
    except InputError as error:
        return None, str(error)
    if row.key in seen:
        return None, f"{row.model} at batch {row.batch} stands there twice"
    seen.add(row.key)
    return row, ""


def start_of_chip(
    device: Device, names: Sequence[str], calibration: Calibration
) -> TiledConstants | None:
    """What a fit begins with: the chip's own constants, its datasheet's, the middle of its class.

    Args:
        device: The chip.
        names: Under which constants of its runtime are stored.
        calibration: That comes with gambrel.
    """
    own = [c for c in calibration.tiled if c.runtime in names and c.device == device.id]
    if own:
        return own[0]
    for known in calibration.tiled_classes:
        derived = from_datasheet(device, known) if known.runtime in names else None
        if derived is not None:
            return derived
    kin = [c for c in calibration.tiled if c.runtime in names and c.rows]
    # A chip of no known class starts from the shape of Qualcomm's; every rate is fitted.
    kin = kin or [c for c in calibration.tiled if c.runtime == "qnn" and c.rows]
    return _middle(device.id, names[0], kin) if kin and names else None


def fit_chip(start: TiledConstants, measured: Sequence[MeasuredRun]) -> TiledConstants:
    """A chip's constants with their errors on models that were left out.

    Args:
        start: Constants to scale.
        measured: Runs in formats that ``start`` knows.

    Raises:
        InputError: No run is left that can be right.
    """
    if not measured:
        raise InputError("no row is left to calibrate with.")
    runs = MeasuredRuns(measured)
    count = len(runs.models)
    scales, pull = scales_of(start, count, runs.formats), pull_of(count)
    found = fit(start, runs, scales, pull)
    ratios = left_out(start, runs, scales, pull) if count > 1 else ()
    low, high = range_of(ratios, count)
    return msgspec.structs.replace(
        found,
        rows=len(measured),
        models=count,
        low=low,
        high=high,
        confidence="medium" if count >= MANY else "low",
        note="measurements of your own",
        held_out=held_out_of(ratios, low, high) if ratios else None,
    )


def range_of(ratios: Sequence[float], models: int) -> tuple[float, float]:
    """As wide as these models scatter; of few, at least as wide as models do on other chips."""
    if models >= MANY:
        low, high = (statistics.quantiles(ratios, n=20)[i] for i in (0, -1))
        return round(min(low, 0.9), 3), round(max(high, 1.1), 3)
    slack = 1 + 1 / math.sqrt(models) / 2
    low, high = _RANGE[0] / slack, _RANGE[1] * slack
    return round(min(low, *ratios, 1.0), 3), round(max(high, *ratios, 1.0), 3)


def held_out_of(ratios: Sequence[float], low: float, high: float) -> HeldOut:
    """The errors of models that were left out: measured over predicted of each row."""
    errors = [abs(1 / r - 1) for r in ratios]
    return HeldOut(
        points=len(ratios),
        mape=round(statistics.fmean(errors), 4),
        median=round(statistics.median(errors), 4),
        inside=round(sum(low <= r <= high for r in ratios) / len(ratios), 4),
        width=round(high / low, 3),
        by_framework={},
    )


def _middle(device: str, name: str, kin: Sequence[TiledConstants]) -> TiledConstants:
    def middle(values: Sequence[float]) -> float:
        return statistics.geometric_mean(values) if all(values) else statistics.fmean(values)

    def by_format(field: str) -> dict[str, float]:
        tables: list[Mapping[str, float]] = [getattr(c, field) for c in kin]
        formats = dict.fromkeys(f for t in tables for f in t)
        return {f: middle([t[f] for t in tables if f in t]) for f in formats}

    return msgspec.structs.replace(
        kin[0],
        runtime=name,
        device=device,
        start_s=by_format("start_s"),
        macs_per_s=by_format("macs_per_s"),
        vector_per_s=middle([c.vector_per_s for c in kin]),
        softmax_per_s=middle([c.softmax_rate for c in kin]) if kin[0].softmax_per_s else None,
        activation_byte_per_s=middle([c.activation_byte_per_s for c in kin]),
        ahead_byte_per_s=middle([c.ahead_byte_per_s for c in kin]),
    )


def absurd(measured: MeasuredRun, start: TiledConstants) -> bool:
    """Whether a time cannot be that of the model on a chip like that."""
    ratio = measured.seconds / float(MeasuredRuns([measured]).predicted(start)[0])
    return not 1 / ABSURD <= ratio <= ABSURD


def _row(raw: Mapping[str, str], line: int, unit: str) -> ModelRow:
    model = _text(raw, "model")
    if model is None:
        raise InputError("no model")
    try:
        seconds = float(raw[unit]) * UNITS[unit]
        batch = int(raw.get("batch") or 1)
    except ValueError:
        raise InputError(f"{unit} or batch is no number") from None
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise InputError(f"{seconds:g} s is no time of an inference")
    if batch < 1:
        raise InputError(f"batch is {batch}")
    named = _text(raw, "precision")
    try:
        precision = None if named is None else parse_dtype(named)
    except GambrelError as error:
        raise InputError(str(error)) from None
    return ModelRow(
        line=line,
        model=model,
        batch=batch,
        precision=precision,
        seconds=seconds,
        phase=_text(raw, "phase"),
        device=_text(raw, "device"),
        runtime=_text(raw, "runtime"),
        sizes=tuple((name, _size(name, raw[name])) for name in _SIZES if raw.get(name)),
    )


def _text(raw: Mapping[str, str], column: str) -> str | None:
    return (raw.get(column) or "").strip() or None


def _size(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise InputError(f"{name} is {text}")
    return value
