"""Calibrating with measured runs of whole models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gambrel.analysis.estimate import packaged, store
from gambrel.analysis.estimate.tiled_constants import TiledConstants
from gambrel.analysis.estimate.tiled_fit import MeasuredRun
from gambrel.analysis.estimate.user_models import (
    ModelRow,
    absurd,
    fit_chip,
    read_models,
    start_of_chip,
)
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, chosen_for
from gambrel.device.resolve import Hardware, resolve_hardware
from gambrel.errors import GambrelError, InputError

if TYPE_CHECKING:
    from gambrel.device.model import Device


def calibrate_models(
    file: Path, hardware: Hardware, name: str
) -> tuple[TiledConstants, Path, tuple[str, ...]]:
    """Fits a chip's constants to measured runs of models and stores them.

    Args:
        file: A CSV; see `gambrel.analysis.estimate.user_models`.
        hardware: The chip.
        name: To store under; replaces one of that name.

    Returns:
        The constants, where they are stored, and a sentence for every row that was left out.

    Raises:
        FileFormatError: The file cannot be used.
        InputError: Nothing can be fitted; nothing is stored.
    """
    device = resolve_hardware(hardware)[0]
    read = read_models(file)
    refused = list(read.refused)
    start = _start(device)
    measured = []
    for row in read.rows:
        try:
            run = _measured(row, device)
            if run.run.formats[0] not in start.macs_per_s:
                raise InputError(f"{run.run.formats[0]} was never measured on such chips")
            if absurd(run, start):
                raise InputError(f"{row.seconds:g} s is not the time of {row.model} on such a chip")
        except GambrelError as error:
            refused.append((row.line, str(error)))
            continue
        measured.append(run)
    unnamed = read.refused_count - len(read.refused)
    warnings = _sentences(file, sorted(refused), unnamed)
    if not measured:
        raise InputError(f"no row of {file} can be used. {' '.join(warnings[:1])}".strip())
    found = fit_chip(start, measured)
    return found, store.save_chip(name, found), warnings


def _start(device: Device) -> TiledConstants:
    machine = Machine(device, Settings())
    runtime = _runtime(machine)
    start = start_of_chip(device, runtime, packaged())
    if start is None:
        raise InputError(
            f"measured models calibrate NPUs whose compiler runs whole graphs, and {device.id} is "
            "none; give a file of kernels (device, op, dtype, m, n, k, bytes and a time)."
        )
    return start


def _runtime(machine: Machine) -> Sequence[str]:
    from gambrel.runtimes import Kernels, choose

    runtime = choose(machine.device).runtime
    streams = {c.runtime for c in packaged().streams}
    tiled = runtime.kernels is Kernels.TILED and not streams.intersection(runtime.constants)
    return runtime.constants if tiled else ()


def _measured(row: ModelRow, device: Device) -> MeasuredRun:
    from gambrel.capture.resolve import Request, resolve_model

    workload = resolve_model(row.model, Request()).workload
    named = {"batch": row.batch} if any(s.name == "batch" for s in workload.symbols) else {}
    if row.batch != 1 and not named:
        raise InputError(f"{row.model} has no batch size")
    settings = Settings(precision=row.precision)
    bench = Workbench(workload, workload.resolve_symbols(named), settings.conventions)
    machine = Machine(device, settings)
    chosen = chosen_for(bench, machine, settings)
    table = bench.table(chosen.precision, machine.plan(chosen.runtime.runtime)).tiled
    if len(table.formats) != 1:
        raise InputError(f"{row.model} does not compute in one number format")
    return MeasuredRun(model=workload.name, run=table, seconds=row.seconds)


def _sentences(file: Path, refused: Sequence[tuple[int, str]], unnamed: int) -> tuple[str, ...]:
    if not refused:
        return ()
    count = len(refused) + unnamed
    shown = "; ".join(f"row {line}: {reason}" for line, reason in refused[:5])
    more = f"; and {count - 5:,} more" if count > 5 else ""
    return (f"{count:,} row(s) of {file} left out: {shown}{more}.",)
