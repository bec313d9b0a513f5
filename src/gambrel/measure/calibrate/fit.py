"""Times kernels on this machine and turns their times into classes of expected time."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gambrel import roofline
from gambrel.analysis.estimate import classes, probed, store
from gambrel.analysis.estimate.probed import Probed
from gambrel.analysis.estimate.written import RELAID, written_key
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.roofs import Roofs, roofs_of
from gambrel.analysis.scopes import bound_op
from gambrel.capture.torch import capture
from gambrel.device.model import Device
from gambrel.errors import CaptureError, InputError, MissingExtraError
from gambrel.measure.calibrate.cases import Case, cases, random
from gambrel.measure.calibrate.fresh import fresh_rows
from gambrel.measure.calibrate.loops import Loop, loops, time_loops
from gambrel.measure.calibrate.timing import POOL_BYTES, Clock, Pool, PreparedKernel, time_kernels
from gambrel.measure.profile.points import RooflinePoint
from gambrel.ops import Conventions, Cost, OpView, is_free
from gambrel.workload import Workload

Progress = Callable[[int, int, str], None]

#: Number formats that are timed, as gambrel and torch name them.
FORMATS: Final[Mapping[str, str]] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

#: Key of the class, features, bound and measured seconds.
Row = tuple[str, tuple[float, ...], float, float]


def measure_kernels(
    device: Device,
    formats: Sequence[str] = ("fp32", "bf16"),
    *,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
    chosen: Callable[[Any], Iterable[Case]] = cases,
    written: Callable[[Any], Iterable[Loop]] = loops,
) -> tuple[Probed, ...]:
    """Times the kernels of torch on this machine's processor.

    Args:
        device: This machine, with measured ceilings.
        formats: Number formats.
        progress: Called with the number done, the number of all and what comes next.
        clock: Seconds.
        chosen: The kernels of one format.
        written: The loops of torch's compiler in one format; none are timed where it does not work.

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
        if roofs.memory_byte_per_s:
            rows += fresh_rows(roofs.memory_byte_per_s, clock)
        # The first touch of fresh pages has a term of its own.
        fresh_s = next((probed.fresh_seconds(p, 1.0) for p in fit_rows(device, rows)), 0.0)
        for name in formats:
            dtype = getattr(torch, FORMATS[name])
            pool = Pool(random(POOL_BYTES // dtype.itemsize, dtype=dtype))
            kernels = _kernels(chosen(dtype), pool, roofs)
            time_kernels(kernels, clock, _teller(progress, f"kernels in {name}"))
            rows += [(k.key, k.features, k.roofline_s, k.seconds(fresh_s)) for k in kernels]
            rows += _loop_rows(written(dtype), clock, roofs, progress, f"loops in {name}")
    return fit_rows(device, rows, f"torch {torch.__version__}, {torch.get_num_threads()} threads")


def _teller(progress: Progress | None, what: str) -> Callable[[int, int], None]:
    return lambda done, whole: progress(done, whole, what) if progress is not None else None


def _loop_rows(
    listed: Iterable[Loop], clock: Clock, roofs: Roofs, progress: Progress | None, what: str
) -> list[Row]:
    """The compiler's loops, each held against what it moves."""
    every = tuple(listed)
    done = iter(range(len(every)))
    tell = _teller(progress, what)
    rows: list[Row] = []
    for timed in time_loops(every, clock, lambda: tell(next(done), len(every))):
        ops = _costs(capture(timed.loop.run, timed.inputs, source=False))
        if len(ops) == 1 and roofs.memory_byte_per_s:
            view, cost = ops[0]
            moved = cost.read_bytes + cost.write_bytes
            key = written_key(RELAID, view.operand_dtype(2)) if timed.loop.relaid else ""
            rows.append(
                (
                    key or classes.key_of(view, classes.WRITTEN),
                    (math.log2(moved),),
                    roofline.seconds(moved, roofs.memory_byte_per_s),
                    timed.seconds,
                )
            )
    return rows


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


def _kernels(listed: Iterable[Case], pool: Pool, roofs: Roofs) -> list[PreparedKernel]:
    """Those cases that are one op each and that this version of torch can run."""
    found = []
    for case in listed:
        sets = pool.sets(case)
        try:
            ops = _costs(capture(case.run, sets[0], source=False))
            row = _row(*ops[0], roofs, 0.0, case.variant) if len(ops) == 1 else None
            if row is not None:
                case.run(*sets[0])
                found.append(
                    PreparedKernel(
                        case=case,
                        sets=sets,
                        key=row[0],
                        features=row[1],
                        roofline_s=row[2],
                    )
                )
        except (RuntimeError, NotImplementedError, CaptureError):
            continue
    return found


def _row(view: OpView, cost: Cost, roofs: Roofs, seconds: float, variant: str = "") -> Row | None:
    bound = bound_op(cost, roofs).roofline_time_s
    features = classes.features_of(view, cost)
    if bound is None or features is None:
        return None
    return classes.key_of(view, variant), features, bound, seconds


def _costs(workload: Workload) -> list[tuple[OpView, Cost]]:
    evaluator = Evaluator(workload, workload.resolve_symbols({}), {}, Conventions())
    return [
        (view, cost)
        for op, view, cost in evaluator.costs()
        if not is_free(op.kind) and cost is not None
    ]


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
