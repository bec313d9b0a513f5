"""Sweeps: many models, devices, number formats, runtimes and sizes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gambrel.analysis.settings import Settings
from gambrel.analysis.sweep.record import Sweep, join_sweeps
from gambrel.analysis.sweep.work import SweepCase, SweepWork
from gambrel.device.model import Device
from gambrel.engine.grid import GridAxis, PointGrid
from gambrel.errors import InputError
from gambrel.workload import Workload

__all__ = ["Sweep", "SweepCase", "SweepWork", "join_sweeps", "sweep"]


def sweep(
    workload: Workload,
    devices: Sequence[Device],
    precisions: Sequence[str | None],
    sizes: Mapping[str, Sequence[int]],
    settings: Settings | None = None,
    *,
    times_only: bool = False,
) -> Sweep:
    """Analyzes every combination of device, precision and sizes of one workload.

    Args:
        workload: The model.
        devices: At least one.
        precisions: At least one number format; None takes each device's own.
        sizes: Symbol → values; combinations of several symbols are all taken. A symbol that is
            not named keeps its default.
        settings: Runtime, engine, conventions and the rest.
        times_only: Leave out memory and energy.

    Returns:
        ``len(devices) * len(precisions) * product(len(v) for v in sizes.values())`` points.

    Raises:
        InputError: Nothing to sweep over, or no point that the device and the runtime take.
        WorkloadError: A size that the model does not take.
    """
    if not devices or not precisions:
        raise InputError("a sweep needs at least one device and one precision.")
    for name, values in sizes.items():
        for value in values:
            workload.resolve_symbols({name: value})
    work = _work(workload, devices, precisions, sizes, settings or Settings(), times_only)
    table = work.evaluate(0, work.points)
    refuse_if_none(table)
    return Sweep(
        models=(workload.name,),
        fields=work.fields,
        table=table,
        points=work.points,
        rows=work.points,
    )


def _work(
    workload: Workload,
    devices: Sequence[Device],
    precisions: Sequence[str | None],
    sizes: Mapping[str, Sequence[int]],
    settings: Settings,
    times_only: bool,
) -> SweepWork:
    asked = replace(settings, sizes=None)

    def opened(values: Mapping[str, Any]) -> SweepCase:
        device = values["device"]
        return SweepCase(
            labels={"model": workload.name, "device": device.id},
            workload=workload,
            device=device,
            settings=replace(asked, precision=values["precision"]),
        )

    axes = (
        GridAxis(name="device", values=tuple(devices)),
        GridAxis(name="precision", values=tuple(precisions)),
    )
    own = [s.name for s in workload.symbols]
    return SweepWork(
        cases=PointGrid(axes),
        opened=opened,
        sizes=PointGrid(tuple(GridAxis(name=n, values=tuple(v)) for n, v in sizes.items())),
        size_names=tuple(own),
        label_names=("model", "device"),
        times_only=times_only,
    )


def refuse_if_none(table: Any) -> None:
    """Raises what the first point was refused for, where every one was."""
    reasons = table["refused"]
    if len(reasons) and all(reasons.names) and "" not in reasons.names:
        raise InputError(reasons.names[0])
