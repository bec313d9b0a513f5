"""Calibrating with measured runs of whole models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from pathlib import Path

from msgspec.structs import replace

from gambrel.analysis.costs import CostTable
from gambrel.analysis.estimate import packaged, store
from gambrel.analysis.estimate.constants import Adjustment
from gambrel.analysis.estimate.tiled import TiledEstimator
from gambrel.analysis.estimate.tiled_constants import TiledConstants
from gambrel.analysis.estimate.tiled_fit import MeasuredRun
from gambrel.analysis.estimate.user import is_device
from gambrel.analysis.estimate.user_models import (
    ModelRow,
    absurd,
    fit_chip,
    read_models,
    start_of_chip,
)
from gambrel.analysis.evaluation import Evaluation
from gambrel.analysis.expected import expected_times
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.model import Device
from gambrel.device.resolve import Hardware, resolve_hardware
from gambrel.errors import GambrelError, InputError
from gambrel.runtimes import Kernels, Runtime, choose, runtime

#: What is stored of a device.
Found = TiledConstants | Adjustment
#: Times further from what the class of device takes are of another run; one core of a processor
#: of a hundred is none.
_ABSURD = 200.0
_AS_IT_IS = {"compute": 1.0, "memory": 1.0, "launch": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A row with its model at its sizes."""

    row: ModelRow
    model: str
    bench: Workbench
    settings: Settings


def calibrate_models(
    file: Path, hardware: Hardware | None, name: str, runtime_name: str | None = None
) -> tuple[Found, Path, tuple[str, ...]]:
    """Fits a device's constants to measured runs of models and stores them.

    An NPU whose compiler runs whole graphs has constants of its own; any other device has factors
    on the computing, the memory and the launches of what is known of its class.

    Args:
        file: A CSV; see `gambrel.analysis.estimate.user_models`.
        hardware: The device; None takes the one that the first row names.
        name: To store under; replaces one of that name.
        runtime_name: What ran the models; None takes what the first row says, else the default
            for it.

    Returns:
        The constants, where they are stored, and a sentence for every row that was left out.

    Raises:
        FileFormatError: The file cannot be used.
        InputError: Nothing can be fitted; nothing is stored.
    """
    read = read_models(file)
    device = _device(hardware, read.rows)
    runtime_name = runtime_name or next((r.runtime for r in read.rows if r.runtime), None)
    refused = list(read.refused)
    ready: list[_Ready] = []
    for row in read.rows:
        try:
            _is_of(row, device, runtime_name)
            ready.append(_ready(row, runtime_name))
        except GambrelError as error:
            refused.append((row.line, str(error)))
    start = _start(ready[0], device, runtime_name) if ready else None
    if start is not None:
        found: Found | None = _chip(start, ready, device, refused)
    else:
        found = _adjusted(ready, device, runtime_name, refused)
    warnings = _sentences(file, sorted(refused), read.refused_count - len(read.refused))
    if found is None:
        raise InputError(f"no row of {file} can be used. {' '.join(warnings[:1])}".strip())
    return found, store.save_runs(name, found), warnings


def _device(hardware: Hardware | None, rows: Sequence[ModelRow]) -> Device:
    """The device of a calibration: as asked, else the first that the file names."""
    if hardware is None:
        hardware = next((r.device for r in rows if r.device), None)
    if hardware is None:
        raise InputError("a file of measured models needs the device: --device NAME.")
    return resolve_hardware(hardware)[0]


def _is_of(row: ModelRow, device: Device, runtime_name: str | None) -> None:
    """Refuses a row that was measured on another device, or under another runtime."""
    if row.device is not None and not is_device(row.device, device):
        raise InputError(f"measured on {row.device!r}, not on {device.id}")
    if row.runtime is not None and runtime_name is not None:
        other = runtime(row.runtime).id
        if other != runtime(runtime_name).id:
            raise InputError(f"measured under {other}, not under {runtime_name}")


def _ready(row: ModelRow, runtime_name: str | None) -> _Ready:
    from gambrel.capture.resolve import Request, resolve_model

    sizes = dict(row.sizes)
    layers = "code" if runtime_name is None else runtime(runtime_name).layers
    asked = Request(phase=row.phase, sizes=sizes, precision=row.precision, layers=layers)
    workload = resolve_model(row.model, asked).workload
    symbols = {s.name for s in workload.symbols}
    if row.batch != 1 and "batch" not in symbols:
        raise InputError(f"{row.model} has no batch size")
    sizes |= {"batch": row.batch} if "batch" in symbols else {}
    settings = Settings(precision=row.precision, sizes=sizes, runtime=runtime_name)
    bench = Workbench(workload, workload.resolve_symbols(sizes), settings.conventions)
    return _Ready(row=row, model=workload.name, bench=bench, settings=settings)


def _start(first: _Ready, device: Device, runtime_name: str | None) -> TiledConstants | None:
    """Where an NPU's fit begins; None for devices of other kinds."""
    found = choose(device, runtime_name, language=first.bench.language).runtime
    known = Machine(device, Settings()).estimator(found)
    if isinstance(known, TiledEstimator):
        return start_of_chip(device, found.constants, packaged())
    if known is not None or found.kernels is not Kernels.TILED or not found.constants:
        return None
    return start_of_chip(device, found.constants, packaged())


def _chip(
    start: TiledConstants,
    ready: Sequence[_Ready],
    device: Device,
    refused: list[tuple[int, str]],
) -> TiledConstants | None:
    measured = []
    for one in ready:
        row = one.row
        try:
            run = _measured(one, device)
            if run.run.formats[0] not in start.macs_per_s:
                raise InputError(f"{run.run.formats[0]} was never measured on such chips")
            if absurd(run, start):
                raise InputError(f"{row.seconds:g} s is not the time of {row.model} on such a chip")
        except GambrelError as error:
            refused.append((row.line, str(error)))
            continue
        measured.append(run)
    return fit_chip(start, measured) if measured else None


def _measured(one: _Ready, device: Device) -> MeasuredRun:
    machine = Machine(device, one.settings)
    chosen = machine.chosen(one.bench.workload, one.settings)
    table = (
        one.bench.on(machine).table(chosen.precision, machine.plan(chosen.runtime.runtime)).tiled
    )
    if len(table.formats) != 1:
        raise InputError(f"{one.row.model} does not compute in one number format")
    return MeasuredRun(model=one.model, run=table, seconds=one.row.seconds)


def _adjusted(
    ready: Sequence[_Ready],
    device: Device,
    runtime_name: str | None,
    refused: list[tuple[int, str]],
) -> Adjustment | None:
    """Factors on what is known of the device's class, or on its roofs."""
    from gambrel.analysis.estimate.adjust_fit import fit_factors

    if not ready:
        return None
    if runtime_name is None:
        first = ready[0]
        machine = Machine(device, first.settings)
        runtime_name = machine.chosen(first.bench.workload, first.settings).runtime.runtime.id
    named = runtime(runtime_name).id
    predict = _Predicted(named, device)
    used: list[_Ready] = []
    for one in ready:
        try:
            predict.check(one)
        except GambrelError as error:
            refused.append((one.row.line, str(error)))
            continue
        used.append(one)
    if not used:
        return None
    return fit_factors(
        named,
        device.id,
        [one.model for one in used],
        [one.row.seconds for one in used],
        lambda factors, i: predict.seconds(used[i], factors),
    )


class _Predicted:
    """Expected times of rows under factors.

    Args:
        name: Of the runtime.
        device: The device.
    """

    def __init__(self, name: str, device: Device) -> None:
        self._name, self._device = name, device
        self._factors: Mapping[str, float] = {}
        self._machines: dict[str | None, Machine] = {}
        self._rows: dict[
            tuple[object, ...], tuple[CostTable, Evaluation, float | None, Runtime]
        ] = {}

    def check(self, one: _Ready) -> None:
        """Refuses a row that has no expected time, or whose time cannot be that of the model."""
        row, seconds = one.row, self.seconds(one, _AS_IT_IS)
        sol_s = self._rows[row.key][2]
        if sol_s is not None and row.seconds < sol_s:
            raise InputError(
                f"{row.seconds:g} s is faster than the speed of light of {row.model} there, "
                f"{sol_s:.3g} s"
            )
        if not 1 / _ABSURD <= row.seconds * (1 / seconds) <= _ABSURD:
            raise InputError(f"{row.seconds:g} s is not the time of {row.model} there")

    def seconds(self, one: _Ready, factors: Mapping[str, float]) -> float:
        """Of a row.

        Raises:
            InputError: There is none.
        """
        if factors != self._factors:
            self._factors, self._machines = dict(factors), {}
        precision = one.row.precision
        if precision not in self._machines:
            self._machines[precision] = Machine(self._device, self._settings(one))
        machine = self._machines[precision]
        table, held, sol_s, chosen = self._held(one, machine)
        estimator = None if table.on_host else machine.estimator(chosen)
        found = expected_times(table, held, estimator, chosen, self._device)
        proved = machine.limits.proves(table.sol_parts)
        total = found.no_faster_than(sol_s, proved=proved).total
        if total is None:
            raise InputError(
                f"{self._device.id} publishes too little for an expected time of {one.row.model}"
            )
        return total.value

    def _held(
        self, one: _Ready, machine: Machine
    ) -> tuple[CostTable, Evaluation, float | None, Runtime]:
        """What no factor changes of a row."""
        key = one.row.key
        if key not in self._rows:
            settings = replace_fields(one.settings, runtime=self._name)
            found = answered(one.bench, machine, settings)
            sol_s = None if found.sol_time_s is None else float(found.sol_time_s)
            self._rows[key] = found.table, found.held, sol_s, found.runtime
        return self._rows[key]

    def _settings(self, one: _Ready) -> Settings:
        own = Adjustment(runtime=self._name, device=self._device.id, factors=dict(self._factors))
        calibration = replace(packaged(), adjusted=(own,))
        return Settings(precision=one.row.precision, runtime=self._name, calibration=calibration)


def _sentences(file: Path, refused: Sequence[tuple[int, str]], unnamed: int) -> tuple[str, ...]:
    if not refused:
        return ()
    count = len(refused) + unnamed
    shown = "; ".join(f"row {line}: {reason.rstrip('.')}" for line, reason in refused[:5])
    more = f"; and {count - 5:,} more" if count > 5 else ""
    return (f"{count:,} row(s) of {file} left out: {shown}{more}.",)
