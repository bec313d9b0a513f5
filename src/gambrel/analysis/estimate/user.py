"""A user's own calibration: reading measurements, checking them, fitting, keeping the result.

A file of measurements is a CSV with a header and one kernel a row:

====================  ===========================================================================
column                meaning
====================  ===========================================================================
device                name of the device, the same in every row
op                    ``matmul`` (y[m, n] = x[m, k] · w[k, n]) or ``copy`` (read, then write)
dtype                 number format
m, n, k               sizes of a matmul; empty for a copy
bytes                 bytes read and written together by a copy; empty for a matmul
us, ms or s           time of one execution, in the unit that the column is named after
====================  ===========================================================================
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate import forms
from gambrel.analysis.estimate.chip import chip_of
from gambrel.analysis.estimate.constants import EDGES_S, Calibration, Set
from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.kinship import choose, kin_of
from gambrel.device.lookup import find
from gambrel.device.model import Device
from gambrel.device.names import name_key
from gambrel.device.roofs import main_memory, resolve
from gambrel.dtypes import parse_dtype, width_bytes
from gambrel.errors import DeviceError, FileFormatError, GambrelError
from gambrel.fileio import text_lines

#: Fewer points of one op than this are no calibration; from `MANY` on they are a certain one.
FEW: Final = 5
MANY: Final = 30
#: No honest time is further below the bound, nor further above what is expected.
BELOW: Final = 2.0
ABOVE: Final = 300.0
#: Of more points than these a sample is fitted, every row being as likely in it; all are checked.
MOST_POINTS: Final = 20_000
_WHAT: Final = "a CSV file of measurements"

UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZES: Final = {"matmul": ("m", "n", "k"), "copy": ("bytes",)}
_COLUMNS: Final = ("device", "op", "dtype", "m", "n", "k", "bytes")
_FITTED: Final = {
    "matmul": ("launch", "compute", "memory"),
    "copy": ("launch", "memory"),
}
_FORM: Final = {"matmul": "matmul", "copy": "stream"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKernel:
    """One measurement.

    Attributes:
        row: Line of the file, the header being line 1.
        op: ``matmul`` or ``copy``.
        dtype: Canonical number format.
        sizes: By name.
        seconds: Measured.
    """

    row: int
    op: str
    dtype: str
    sizes: Mapping[str, float]
    seconds: float


def device_name(path: Path) -> str:
    """The device that the first row of a file names.

    Raises:
        FileFormatError: The file cannot be used, or has no rows.
    """
    with text_lines(path, _WHAT) as lines:
        reader = csv.DictReader(lines, restval="")
        _header(path, header_of(path, reader))
        first = next(iter(reader), None)
    if first is None:
        raise FileFormatError(f"{path} holds no measurements.")
    return first["device"]


def read(path: Path, device: Device) -> tuple[TimedKernel, ...]:
    """Reads measurements of one device.

    Args:
        path: The file.
        device: That it must be about.

    Raises:
        FileFormatError: The file cannot be used; the message names the row and the reason.
    """
    with text_lines(path, _WHAT) as lines:
        return _points(path, csv.DictReader(lines, restkey="(more)", restval=""), device)


def _points(path: Path, reader: csv.DictReader[str], device: Device) -> tuple[TimedKernel, ...]:
    unit = _header(path, header_of(path, reader))
    points: list[TimedKernel] = []
    known: set[str] = set()
    draw = random.Random(0)  # the same sample of the same file
    for seen, row in enumerate(rows_of(path, reader)):
        where = f"{path}, row {reader.line_num}"
        if row["device"] not in known:
            _same_device(where, row["device"], device)
            known.add(row["device"])
        point = _point(where, reader.line_num, row, unit)
        if seen < MOST_POINTS:
            points.append(point)
        elif (place := draw.randrange(seen + 1)) < MOST_POINTS:
            points[place] = point
    return tuple(points)


def fit(
    path: Path, points: Sequence[TimedKernel], device: Device, base: Calibration
) -> tuple[Set, ...]:
    """Constants for a device from measurements of it.

    Launch, compute and memory constants are fitted by op and number format; everything else is
    borrowed. Nothing is returned unless every point is plausible.

    Args:
        path: The file, for messages.
        points: As `read` gives them.
        device: That they are about.
        base: Constants to start from.

    Raises:
        FileFormatError: Too few points, or a time that cannot be right; with the row.
        DeviceError: The device lacks a roof that a point needs.
    """
    groups: dict[tuple[str, str], list[TimedKernel]] = {}
    for point in points:
        groups.setdefault((point.op, "any" if point.op == "copy" else point.dtype), []).append(
            point
        )
    if not groups:
        raise FileFormatError(f"{path} holds no measurements.")
    for (op, dtype), group in groups.items():
        if len(group) < FEW:
            what = op if op == "copy" else f"{op} in {dtype}"
            raise FileFormatError(
                f"{path}, row {group[0].row}: {len(group)} point(s) of {what} are too few; "
                f"{FEW} are needed, {MANY} make the result certain."
            )
    return tuple(_fit_group(path, key, group, device, base) for key, group in groups.items())


def _fit_group(
    path: Path,
    key: tuple[str, str],
    points: Sequence[TimedKernel],
    device: Device,
    base: Calibration,
) -> Set:
    op, dtype = key
    kin = kin_of(device, base)
    memory = main_memory(device)
    if kin is None or memory is None or not memory.byte_per_s:
        raise DeviceError(
            f"{device.id} has no known memory bandwidth; nothing to calibrate against."
        )
    machine, _ = chip_of(device, memory.byte_per_s, kin)
    chosen = choose(_FORM[op], dtype, device, kin, base, "any")
    if chosen is None:
        raise DeviceError(f"no constants to start from for {op} in {dtype}.")
    predict = [_predictor(p, machine, device) for p in points]
    for point, one in zip(points, predict, strict=True):
        _check_plausible(path, point, *one(chosen.constants))
    start = {k: v for k, v in chosen.constants.items() if k != "headroom"} | {"headroom": 1e9}
    constants = _minimize(start, _FITTED[op], predict, points)
    ratios = sorted(p.seconds / one(constants)[1] for p, one in zip(points, predict, strict=True))
    low, high = ratios[int(0.05 * len(ratios))], ratios[-1 - int(0.05 * len(ratios))]
    slack = 1 + 1 / math.sqrt(len(points))
    bins = len(EDGES_S) + 1
    return Set(
        framework="own",
        form=_FORM[op],
        formats=("int8", "int8_stored") if dtype == "int8" else (dtype,),
        device=device.id,
        constants=constants,
        points=len(points),
        low=(low / slack,) * bins,
        high=(high * slack,) * bins,
        confidence="high" if len(points) >= MANY else "medium",
    )


#: Constants → the bound and the expected time, s.
_Predict = Callable[[Mapping[str, float]], tuple[float, float]]


def _predictor(point: TimedKernel, machine: Chip, device: Device) -> _Predict:
    s = point.sizes
    if point.op == "copy":
        bound = roofline.seconds(s["bytes"], machine.byte_per_s)

        def stream(c: Mapping[str, float]) -> tuple[float, float]:
            work = forms.stream(c, machine, 0.0, traffic_bytes=s["bytes"], flops=0.0)
            return bound, max(bound, float(forms.launch(c, machine) + work))

        return stream
    roof = resolve(device, "matrix", point.dtype)
    if roof is None:
        raise DeviceError(f"{device.id} has no known roof for matrix work in {point.dtype}.")
    peak, width = roof.flop_per_s, width_bytes(point.dtype)
    m, n, k = s["m"], s["n"], s["k"]
    traffic = width * (m * k + k * n + m * n)
    least = max(
        roofline.seconds(2 * m * n * k, peak), roofline.seconds(traffic, machine.byte_per_s)
    )

    def matmul(c: Mapping[str, float]) -> tuple[float, float]:
        work = forms.matmul(c, machine, peak, m=m, n=n, k=k, traffic_bytes=traffic)
        return least, max(least, float(forms.launch(c, machine) + work))

    return matmul


def _check_plausible(path: Path, point: TimedKernel, bound: float, expected: float) -> None:
    where = f"{path}, row {point.row}"
    if point.seconds * BELOW < bound:
        raise FileFormatError(
            f"{where}: {point.seconds:.3g} s is {bound / point.seconds:,.0f} times less than the "
            f"bound of {bound:.3g} s, which no run beats; is the column in another unit?"
        )
    if point.seconds > expected * ABOVE:
        raise FileFormatError(
            f"{where}: {point.seconds:.3g} s is {point.seconds / expected:,.0f} times what is "
            f"expected ({expected:.3g} s); is the column in another unit?"
        )


def _minimize(
    start: Mapping[str, float],
    names: Sequence[str],
    predict: Sequence[_Predict],
    points: Sequence[TimedKernel],
) -> dict[str, float]:
    """Coordinate search on logarithms: halve the step when no constant improves.

    The sum of absolute logarithmic errors is robust against a few disturbed measurements.
    """
    constants = dict(start)

    def loss(c: Mapping[str, float]) -> float:
        errors = (
            abs(math.log(one(c)[1] / p.seconds)) for one, p in zip(predict, points, strict=True)
        )
        # A weak pull keeps what the points do not determine where it was.
        pull = sum(abs(math.log(c[n] / start[n])) for n in names)
        return sum(errors) + 0.02 * pull

    best, step = loss(constants), 0.5
    while step > 0.002:
        improved = False
        for name in names:
            for factor in (math.exp(step), math.exp(-step)):
                trial = {**constants, name: constants[name] * factor}
                value = loss(trial)
                if value < best - 1e-12:
                    best, constants, improved = value, trial, True
        step = step if improved else step / 2
    return constants


def header_of(path: Path, reader: csv.DictReader[str]) -> Sequence[str]:
    """The names of the columns.

    Raises:
        FileFormatError: The file is no CSV.
    """
    try:
        return reader.fieldnames or ()
    except csv.Error as error:
        raise FileFormatError(f"{path}, row 1: {error}.") from None


def rows_of(path: Path, reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    """The rows of a file of any length, one after another.

    Raises:
        FileFormatError: A row is no CSV.
    """
    try:
        yield from reader
    except csv.Error as error:
        raise FileFormatError(f"{path}, row {reader.line_num}: {error}.") from None


def _header(path: Path, names: Sequence[str]) -> float:
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        raise FileFormatError(
            f"{path}, row 1: missing column(s) {', '.join(missing)}; needed are "
            f"{', '.join(_COLUMNS)} and one of us, ms, s."
        )
    return UNITS[time_column(path, names)]


def time_column(path: Path, names: Sequence[str]) -> str:
    """The one column of times, whose name is its unit.

    Raises:
        FileFormatError: There is none, or several.
    """
    units = [name for name in names if name in UNITS]
    if len(units) != 1:
        raise FileFormatError(
            f"{path}, row 1: one column of times is needed, named us, ms or s; "
            f"found {', '.join(units) or 'none'}."
        )
    return units[0]


def is_device(name: str, device: Device) -> bool:
    """Whether a name in a file means a device."""
    known = {k for n in (device.id, device.name, *device.aliases) for k in name_key(n).keys}
    if known.intersection(name_key(name).keys):
        return True
    try:
        return find(name).device.id == device.id
    except GambrelError:
        return False


def _same_device(where: str, name: str, device: Device) -> None:
    if not is_device(name, device):
        raise FileFormatError(
            f"{where}: measured on {name!r}, not on {device.id}; choose with --device."
        )


def _point(where: str, line: int, row: Mapping[str, str], unit: float) -> TimedKernel:
    op = row["op"]
    if op not in _SIZES:
        raise FileFormatError(f"{where}: op {op!r} is unknown; use {' or '.join(_SIZES)}.")
    try:
        dtype = parse_dtype(row["dtype"])
    except GambrelError as error:
        raise FileFormatError(f"{where}: {error}") from None
    column = next(name for name in UNITS if name in row)
    return TimedKernel(
        row=line,
        op=op,
        dtype=dtype,
        sizes={name: _number(where, name, row[name]) for name in _SIZES[op]},
        seconds=_number(where, column, row[column]) * unit,
    )


def _number(where: str, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise FileFormatError(f"{where}: {name} is {text!r}, not a positive number.")
    return value
