"""Gates: metrics from results and from a configuration, recorded and checked."""

from __future__ import annotations

import datetime
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.advise.gate.compare import compare_to
from gambrel.advise.gate.records import (
    TYPE,
    GateBaseline,
    GateMetric,
    GateRecorded,
    GateReport,
)
from gambrel.api.gate_sources import metrics_of_file
from gambrel.errors import FileFormatError, InputError
from gambrel.fileio import read_bytes, read_text, replace_file

#: No baseline and no configuration is larger.
_LARGEST: Final = 64 << 20
#: Figures of an analysis that are gated where the configuration names none.
_EXPECTED: Final = ("expected_time_s", "roofline_time_s", "sol_time_s", "flops", "traffic_bytes")
#: Load of more than this many processes per processor is somebody else's.
_BUSY: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """What a gate looks at.

    Attributes:
        expected: Questions whose figures are computed: keywords of `gambrel.analyze`, with lists
            for hardware and batch, and ``metrics``.
        files: Results to read.
        tolerance: Pattern of a metric → share that it may get worse.
    """

    expected: tuple[Mapping[str, Any], ...] = ()
    files: tuple[Path, ...] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict)


def read_config(path: Path) -> GateConfig:
    """Reads a configuration.

    Raises:
        FileFormatError: It is no TOML, or has a table or a tolerance that no gate has.
    """
    try:
        data = tomllib.loads(read_text(path, _LARGEST, "a gate configuration"))
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{path}: {error}") from None
    unknown = set(data) - {"expected", "files", "tolerance"}
    if unknown:
        raise FileFormatError(
            f"{path}: no table {', '.join(sorted(unknown))}; there are expected, files, tolerance."
        )
    tolerance = data.get("tolerance", {})
    for name, share in tolerance.items():
        if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 10:
            raise FileFormatError(f"{path}: tolerance {name}: {share!r} is no share, e.g. 0.05.")
    files = tuple(path.parent / name for name in data.get("files", ()))
    return GateConfig(expected=tuple(data.get("expected", ())), files=files, tolerance=tolerance)


def metrics_of(config: GateConfig, files: Sequence[Path]) -> tuple[GateMetric, ...]:
    """All metrics of a configuration and of files.

    Raises:
        InputError: There is none, or two have one name.
    """
    found: list[GateMetric] = []
    for entry in config.expected:
        found += _expected(entry)
    for path in (*config.files, *files):
        found += metrics_of_file(path)
    if not found:
        raise InputError(
            "there is no metric: name results to read, or a --config with [[expected]]."
        )
    return _joined(found)


def record(target: Path, config: GateConfig, files: Sequence[Path], note: str = "") -> GateRecorded:
    """Writes a baseline.

    Args:
        target: Where to.
        config: What is computed.
        files: What is read.
        note: A commit or the like.

    Raises:
        InputError: A metric is no number: it could never be compared.
    """
    metrics = metrics_of(config, files)
    wrong = next((m.name for m in metrics if not m.finite), None)
    if wrong is not None:
        raise InputError(f"{wrong}: not all of its samples are numbers; it cannot be a baseline.")
    made = GateBaseline(
        metrics=metrics,
        machine=_machine() if any(m.measured for m in metrics) else "",
        gambrel_version=__version__,
        recorded=now(),
        note=note,
    )
    replace_file(target, msgspec.json.format(msgspec.json.encode(made), indent=1))
    return GateRecorded(path=str(target), baseline=made)


def check(
    target: Path, config: GateConfig, files: Sequence[Path], *, any_machine: bool = False
) -> GateReport:
    """Holds metrics against a baseline.

    Args:
        target: The baseline.
        config: What is computed, and tolerances.
        files: What is read.
        any_machine: Compare measured figures of different machines.

    Raises:
        FileFormatError: The baseline is none, or empty.
        InputError: Measured figures of another machine.
    """
    baseline = load(target)
    metrics = metrics_of(config, files)
    measured = any(m.measured for m in metrics) and bool(baseline.machine)
    notes: list[str] = []
    if measured and baseline.machine != _machine():
        said = f"the baseline was measured on {baseline.machine}, this is {_machine()}"
        if not any_machine:
            raise InputError(f"{said}: record one here, or say --any-machine.")
        notes.append(f"{said}.")
    load_now = os.getloadavg()[0] / (os.cpu_count() or 1)
    busy = measured and load_now > _BUSY
    if busy:
        notes.append(
            f"the machine is busy ({load_now:.1f} processes per processor): tolerances of measured "
            "figures are doubled."
        )
    rows = compare_to(baseline, metrics, config.tolerance, busy=busy)
    return GateReport(baseline_file=str(target), rows=rows, notes=tuple(notes))


def load(path: Path) -> GateBaseline:
    """Reads a baseline.

    Raises:
        FileFormatError: It is none, damaged or empty.
    """
    content = read_bytes(path, _LARGEST, "a baseline")
    try:
        found = msgspec.json.decode(content, type=GateBaseline)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileFormatError(
            f"{path} is no baseline ({error}); 'gambrel gate record {path}' writes one."
        ) from None
    if found.type != TYPE or not found.metrics:
        raise FileFormatError(f"{path} holds no metrics; 'gambrel gate record {path}' writes them.")
    return found


def now() -> str:
    """The time, ISO 8601 in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _machine() -> str:
    from gambrel.measure.machine import this_machine

    return this_machine().id


def _expected(entry: Mapping[str, Any]) -> list[GateMetric]:
    """Figures of one model on its devices and at its batches."""
    from gambrel.api.analyze import analyze

    asked = dict(entry)
    wanted = asked.pop("metrics", _EXPECTED)
    devices, batches = _list(asked.pop("hardware", None)), _list(asked.pop("batch", None))
    if "model" not in asked or devices == [None]:
        raise InputError("[[expected]] needs a model and hardware.")
    found = []
    for device in devices:
        for batch in batches:
            analysis = analyze(hardware=device, batch_size=batch, **asked)
            more = "" if batch is None else f" b{batch}"
            rest = "".join(f" {v}" for k, v in asked.items() if k != "model")
            name = f"{asked['model']}{rest} {device}{more}"
            found += [_figure(name, metric, getattr(analysis, metric, None)) for metric in wanted]
    return found


def _figure(name: str, metric: str, value: Any) -> GateMetric:
    from gambrel.report.units import unit_of

    if value is None:
        raise InputError(f"{name}: {metric} is unknown, so it cannot be gated.")
    return GateMetric(
        name=f"{name} {metric}",
        samples=(float(value),),
        unit=unit_of(metric) or "",
        source="computed",
    )


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _joined(metrics: Sequence[GateMetric]) -> tuple[GateMetric, ...]:
    """Runs of the same metric from several files as samples of one."""
    found: dict[str, GateMetric] = {}
    for metric in metrics:
        known = found.get(metric.name)
        if known is not None:
            if not (known.measured and metric.measured):
                raise InputError(f"{metric.name} is given twice; give it once.")
            samples = (*known.samples, *metric.samples)
            metric = msgspec.structs.replace(known, samples=samples)
        found[metric.name] = metric
    return tuple(found.values())
