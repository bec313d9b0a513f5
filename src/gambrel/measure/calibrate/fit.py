"""Times kernels on this machine and turns their times into classes of expected time."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gambrel.analysis.bounding import Roofs, bound_op, roofs_of
from gambrel.analysis.estimate import probed, store
from gambrel.analysis.estimate.probed import Probed
from gambrel.analysis.evaluate import Evaluator
from gambrel.capture.torch import capture
from gambrel.device.model import Device
from gambrel.errors import InputError, MissingExtraError
from gambrel.measure.calibrate.cases import Case, cases
from gambrel.measure.profile.points import RooflinePoint
from gambrel.ops import Conventions, Cost, OpView, is_free
from gambrel.workload import Workload

Progress = Callable[[int, int, str], None]
Clock = Callable[[], float]

#: Number formats that are timed, as gambrel and torch name them.
FORMATS: Final[Mapping[str, str]] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
#: Seconds that one kernel is timed for, in each of the rounds, and the fewest calls.
_BUDGET_S: Final = 0.012
_LEAST: Final = 3
_ROUNDS: Final = 2
#: Weights that are used in turn fill at least this much: those of a layer were evicted by the
#: other layers since it ran last.
_COLD_BYTES: Final = 64 << 20
_MOST_SETS: Final = 64

#: Key of the class, features, bound and measured seconds.
Row = tuple[str, tuple[float, ...], float, float]


def measure_kernels(
    device: Device,
    formats: Sequence[str] = ("fp32", "bf16"),
    *,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
    chosen: Callable[[Any], Iterable[Case]] = cases,
) -> tuple[Probed, ...]:
    """Times the kernels of torch on this machine's processor.

    Args:
        device: This machine, with measured ceilings.
        formats: Number formats.
        progress: Called with the number done, the number of all and what comes next.
        clock: Seconds.
        chosen: The kernels of one format.

    Returns:
        One class an op and format.

    Raises:
        MissingExtraError: torch is not installed.
        InputError: An unknown format.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch", "timing the kernels of this machine") from None
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise InputError(f"cannot time kernels in {unknown[0]}; choose of {', '.join(FORMATS)}.")
    roofs = roofs_of(device)
    rows: list[Row] = []
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        for at, name in enumerate(formats):
            listed = list(chosen(getattr(torch, FORMATS[name])))
            for i, case in enumerate(listed):
                if progress is not None:
                    whole = len(listed) * len(formats)
                    progress(at * len(listed) + i, whole, f"kernels in {name}")
                row = _timed_row(case, roofs, clock)
                rows += [row] if row is not None else []
    return fit_rows(device, rows, f"torch {torch.__version__}, {torch.get_num_threads()} threads")


def calibrate_machine(
    name: str = "this",
    formats: Sequence[str] = ("fp32", "bf16"),
    *,
    device: Device | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[Probed, ...], Path]:
    """Times the kernels of this machine and stores them for every analysis from now on.

    Args:
        name: To store under; replaces what had it.
        formats: Number formats.
        device: This machine with measured ceilings; None takes those measured last, or measures.
        progress: As for `measure_kernels`.

    Returns:
        The classes, and where they are stored.
    """
    here = device if device is not None else _this_machine(progress)
    found = measure_kernels(here, formats, progress=progress)
    return found, store.save_probed(name, found)


def _this_machine(progress: Progress | None) -> Device:
    from gambrel.measure.peaks import measure_peaks
    from gambrel.measure.this import this_device

    try:
        return this_device()[0]
    except InputError:
        device: Device = measure_peaks("cpu", progress=progress).to_device()
        return device


def _timed_row(case: Case, roofs: Roofs, clock: Clock) -> Row | None:
    """One kernel, computed and timed; None where this machine or torch cannot run it."""
    weights = case.weights()
    try:
        found = _cost_of(case, weights)
        if found is None:
            return None
        seconds = _seconds(case, weights, clock)
    except (RuntimeError, NotImplementedError):
        return None
    return _row(*found, roofs, seconds)


def _row(view: OpView, cost: Cost, roofs: Roofs, seconds: float) -> Row | None:
    bound = bound_op(cost, roofs).bound_time_s
    features = probed.features_of(view, cost)
    if bound is None or features is None:
        return None
    return probed.key_of(view), features, bound, seconds


def _cost_of(case: Case, weights: tuple[Any, ...]) -> tuple[OpView, Cost] | None:
    """The op that the kernel is, where it is one."""
    found = _costs(capture(case.run, (*case.inputs, *weights), source=False))
    return found[0] if len(found) == 1 else None


def _costs(workload: Workload) -> list[tuple[OpView, Cost]]:
    evaluator = Evaluator(workload, workload.resolve_symbols({}), {}, Conventions())
    return [
        (view, cost)
        for op, view, cost in evaluator.costs()
        if not is_free(op.kind) and cost is not None
    ]


def _seconds(case: Case, weights: tuple[Any, ...], clock: Clock) -> float:
    """Median time of a call, the better of two rounds; weights come from memory each time."""
    sets = [weights]
    size = sum(t.numel() * t.element_size() for t in weights)
    if size:
        more = min(_MOST_SETS, -(-_COLD_BYTES // size)) - 1
        sets += [tuple(t.clone() for t in weights) for _ in range(more)]
    for i in range(2):
        case.run(*case.inputs, *sets[-1 - i % len(sets)])
    return min(_round(case, sets, clock) for _ in range(_ROUNDS))


def _round(case: Case, sets: Sequence[tuple[Any, ...]], clock: Clock) -> float:
    times: list[float] = []
    while len(times) < _LEAST or sum(times) < _BUDGET_S:
        values = sets[len(times) % len(sets)]
        begun = clock()
        case.run(*case.inputs, *values)
        times.append(max(clock() - begun, 1e-9))
    return statistics.median(times)


def rows_of_profile(
    workload: Workload, points: Sequence[RooflinePoint], device: Device
) -> tuple[Row, ...]:
    """The ops of a profile of an eager forward pass, with their measured times.

    Args:
        workload: The capture that was profiled.
        points: One an op, in its order.
        device: That the ops were held against.

    Raises:
        InputError: The points are not those of the workload.
    """
    found = _costs(workload)
    if len(found) != len(points):
        raise InputError(
            f"the profile has {len(points)} rows and the model {len(found)} ops: only the profile "
            "of an eager forward pass can calibrate."
        )
    roofs = roofs_of(device)
    rows = [
        _row(view, cost, roofs, point.time_s)
        for (view, cost), point in zip(found, points, strict=True)
        if point.time_s
    ]
    return tuple(row for row in rows if row is not None)


def fit_rows(device: Device, rows: Iterable[Row], notes: str = "") -> tuple[Probed, ...]:
    """One class a key with enough measurements.

    Args:
        device: That was measured.
        rows: Measurements.
        notes: Threads, versions.
    """
    groups: dict[str, list[tuple[tuple[float, ...], float, float]]] = defaultdict(list)
    for key, features, bound, seconds in rows:
        groups[key].append((features, bound, seconds))
    return tuple(
        probed.fit(device.name, key, found, notes)
        for key, found in groups.items()
        if len(found) >= probed.FEW
    )
