"""Gates: metrics from results and from a configuration, recorded and checked."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from gambrel._version import __version__
from gambrel.advise.gate.compare import LEAST_RUNS, compare_to
from gambrel.advise.gate.records import (
    SCHEMA_VERSION,
    TYPE,
    GateBaseline,
    GateMetric,
    GateRecorded,
    GateReport,
)
from gambrel.api.gate_config import GateConfig, computed
from gambrel.api.gate_sources import metrics_of_file
from gambrel.errors import FileFormatError, InputError
from gambrel.fileio import read_bytes, replace_file

#: No baseline is larger.
_LARGEST: Final = 64 << 20


def metrics_of(config: GateConfig, files: Sequence[Path]) -> tuple[GateMetric, ...]:
    """All metrics of a configuration and of files.

    Raises:
        InputError: There is none, or two have one name.
    """
    found: list[GateMetric] = []
    for entry in config.expected:
        found += computed(entry)
    for path in (*config.files, *files):
        found += metrics_of_file(path)
    if not found:
        raise InputError(
            "there is no metric: name results to read, or a --config with [[expected]]."
        )
    return _joined(found)


def record(
    target: Path,
    config: GateConfig,
    files: Sequence[Path],
    note: str = "",
    history: Path | None = None,
) -> GateRecorded:
    """Writes a baseline.

    Args:
        target: Where to.
        config: What is computed.
        files: What is read.
        note: A commit or the like.
        history: Where the figures are added; None for nowhere.

    Raises:
        InputError: A metric is no number: it could never be compared.
    """
    metrics = metrics_of(config, files)
    wrong = next((m.name for m in metrics if not m.finite), None)
    if wrong is not None:
        raise InputError(f"{wrong}: not all of its samples are numbers; it cannot be a baseline.")
    made = GateBaseline(
        metrics=metrics,
        machine=_machine() if any(m.measured and not m.machine for m in metrics) else "",
        gambrel_version=__version__,
        recorded=now(),
        note=note,
    )
    replace_file(target, msgspec.json.format(msgspec.json.encode(made), indent=1))
    _remember(history, metrics, note)
    return GateRecorded(path=str(target), baseline=made)


def check(
    target: Path,
    config: GateConfig,
    files: Sequence[Path],
    note: str = "",
    history: Path | None = None,
    *,
    any_machine: bool = False,
) -> GateReport:
    """Holds metrics against a baseline.

    Args:
        target: The baseline.
        config: What is computed, and tolerances.
        files: What is read.
        note: A commit or the like, for the history.
        history: Where the figures are added; None for nowhere.
        any_machine: Compare measured figures of different machines.

    Raises:
        FileFormatError: The baseline is none, or empty.
        InputError: Measured figures of another machine.
    """
    from gambrel.measure.machine import busy

    baseline = load(target)
    metrics = metrics_of(config, files)
    _remember(history, metrics, note)
    notes: list[str] = []
    if said := _elsewhere(baseline, metrics):
        if not any_machine:
            raise InputError(f"{said}: record a baseline there, or say --any-machine.")
        notes.append(f"{said}.")
    running = busy() if any(m.measured for m in metrics) else None
    if running is not None:
        notes.append(
            f"the machine is busy ({running:.1f} processes per processor): tolerances of measured "
            "figures are doubled."
        )
    rows = compare_to(baseline, metrics, config.tolerance, busy=running is not None)
    if few := sum(row.detectable_share is None and row.worse_share is not None for row in rows):
        notes.append(
            f"{few:,} measured with fewer than {LEAST_RUNS} runs on a side: nothing tells a change "
            "from chance, the tolerance alone decides."
        )
    return GateReport(baseline_file=str(target), rows=rows, notes=tuple(notes))


def _elsewhere(baseline: GateBaseline, metrics: Sequence[GateMetric]) -> str:
    """Which measured figures come from another machine than the baseline's; empty for none."""
    before = {m.name: m.machine or baseline.machine for m in baseline.metrics if m.measured}
    here = _machine() if before else ""
    for metric in metrics:
        old, new = before.get(metric.name, ""), metric.machine or here
        if metric.measured and old and old != new:
            return f"{metric.name}: the baseline was measured on {old}, this on {new}"
    return ""


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
    if found.schema_version > SCHEMA_VERSION:
        raise FileFormatError(
            f"{path} was written by gambrel {found.gambrel_version}, which is newer than this one."
        )
    counts = Counter(metric.name for metric in found.metrics)
    bad = next((m.name for m in found.metrics if not m.finite or counts[m.name] > 1), None)
    if bad is not None:
        raise FileFormatError(
            f"{path}: {bad} is there twice, or has samples that are not numbers; "
            f"'gambrel gate record {path}' writes it anew."
        )
    return found


def _remember(history: Path | None, metrics: Sequence[GateMetric], note: str) -> None:
    from gambrel.api.gate_history import append

    if history is not None:
        append(history, metrics, now(), note)


def now() -> str:
    """The time, ISO 8601 in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _machine() -> str:
    from gambrel.measure.machine import this_machine

    return this_machine().id


def _joined(metrics: Sequence[GateMetric]) -> tuple[GateMetric, ...]:
    """Runs of the same metric from several files as samples of one; computed ones must agree."""
    found: dict[str, GateMetric] = {}
    for metric in metrics:
        known = found.get(metric.name)
        if known is None:
            found[metric.name] = metric
        elif known.measured and metric.measured and known.machine == metric.machine:
            samples = (*known.samples, *metric.samples)
            found[metric.name] = msgspec.structs.replace(known, samples=samples)
        elif known.measured or metric.measured or known.samples != metric.samples:
            raise InputError(
                f"{metric.name} is given twice, by {known.source} and {metric.source}, which do "
                "not agree: gate different models in different baselines."
            )
    return tuple(found.values())
