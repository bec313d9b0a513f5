"""Times kernels on this machine and turns their times into classes of expected time."""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gambrel.analysis.bounding import Roofs, bound_op, roofs_of
from gambrel.analysis.estimate import probed, store
from gambrel.analysis.estimate.probed import Probed
from gambrel.analysis.evaluate import Evaluator
from gambrel.capture.torch import capture
from gambrel.device.model import Device
from gambrel.errors import CaptureError, InputError, MissingExtraError
from gambrel.measure.calibrate.cases import Case, cases, random
from gambrel.measure.profile.points import RooflinePoint
from gambrel.ops import Conventions, Cost, OpView, is_free
from gambrel.workload import Workload

Progress = Callable[[int, int, str], None]
Clock = Callable[[], float]

#: Number formats that are timed, as gambrel and torch name them.
FORMATS: Final[Mapping[str, str]] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
#: Seconds that one kernel is timed for, in each of the rounds, and the fewest calls. Rounds lie
#: far apart: what disturbed a kernel once is gone by the next.
_BUDGET_S: Final = 0.008
_LEAST: Final = 3
_ROUNDS: Final = 3
#: Weights lie in a pool of this size and come from main memory: those of a layer were evicted by
#: the other layers since it ran last. So do activations larger than a core's own caches.
_POOL_BYTES: Final = 256 << 20
_WARM_BYTES: Final = 512 << 10
#: Results that stay alive, as activations of a model do; the next one lies elsewhere.
_ALIVE: Final = 3
_MOST_SETS: Final = 64
#: Rounds of a kernel, or a share of kernels, that differ by more are no stable result.
_UNSTEADY: Final = 0.25

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
            dtype = getattr(torch, FORMATS[name])
            pool = Pool(random(_POOL_BYTES // dtype.itemsize, dtype=dtype))
            kernels = _kernels(chosen(dtype), pool, roofs)

            def said(done: int, at: int = at, name: str = name, each: int = len(kernels)) -> None:
                if progress is not None:
                    whole = each * len(formats) * _ROUNDS
                    progress(at * each * _ROUNDS + done, whole, f"kernels in {name}")

            rows += _timed(kernels, clock, said)
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


class Pool:
    """Random numbers of which weights and activations are views, one after another.

    Args:
        values: A flat tensor.
    """

    def __init__(self, values: Any) -> None:
        self._values = values
        self._next = 0

    def take(self, shape: Sequence[int]) -> Any:
        """The next piece, in a shape; from the beginning again where the rest is too short."""
        size = math.prod(shape)
        if self._next + size > self._values.numel():
            self._next = 0
        found = self._values[self._next : self._next + size].view(tuple(shape))
        self._next += -(-size // 64) * 64  # pieces begin at a cache line
        return found

    def sets(self, case: Case) -> list[tuple[Any, ...]]:
        """Arguments to be used in turn."""
        one = self._arguments(case)
        fresh = [a for a in one if not any(a is i for i in case.inputs)]
        size = sum(a.numel() * a.element_size() for a in fresh)
        more = min(_MOST_SETS, max(1, _POOL_BYTES // size)) - 1 if size else 0
        return [one, *(self._arguments(case) for _ in range(more))]

    def _arguments(self, case: Case) -> tuple[Any, ...]:
        return (*map(self._activation, case.inputs), *map(self.take, case.weights))

    def _activation(self, value: Any) -> Any:
        large = value.numel() * value.element_size() >= _WARM_BYTES
        same = value.dtype == self._values.dtype and value.is_contiguous()
        return self.take(value.shape) if large and same else value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """A case that is one op, ready to run.

    Attributes:
        case: What runs.
        sets: Arguments in turn.
        key: Of its class.
        features: Of its size.
        bound_s: On the device's roofs.
    """

    case: Case
    sets: list[tuple[Any, ...]]
    key: str
    features: tuple[float, ...]
    bound_s: float


def _kernels(listed: Iterable[Case], pool: Pool, roofs: Roofs) -> list[_Kernel]:
    """Those cases that are one op each and that this version of torch can run."""
    found = []
    for case in listed:
        sets = pool.sets(case)
        try:
            ops = _costs(capture(case.run, sets[0], source=False))
            row = _row(*ops[0], roofs, 0.0) if len(ops) == 1 else None
            if row is not None:
                case.run(*sets[0])
                kernel = _Kernel(case=case, sets=sets, key=row[0], features=row[1], bound_s=row[2])
                found.append(kernel)
        except (RuntimeError, NotImplementedError, CaptureError):
            continue
    return found


def _timed(kernels: Sequence[_Kernel], clock: Clock, said: Callable[[int], None]) -> list[Row]:
    """The time of each kernel in its best round.

    Warns where the rounds differ too much for a stable result.
    """
    seen: list[list[float]] = [[] for _ in kernels]
    for turn in range(_ROUNDS):
        for i, kernel in enumerate(kernels):
            said(turn * len(kernels) + i)
            seen[i].append(_round(kernel, clock))
    unsteady = sum(max(times) > (1 + _UNSTEADY) * min(times) for times in seen)
    if unsteady > _UNSTEADY * len(kernels):
        warnings.warn(
            f"{unsteady} of {len(kernels)} kernels differ by more than {_UNSTEADY:.0%} between "
            "rounds: not a stable result. Calibrate again on an idle machine.",
            stacklevel=3,
        )
    return [
        (k.key, k.features, k.bound_s, min(times)) for k, times in zip(kernels, seen, strict=True)
    ]


def _row(view: OpView, cost: Cost, roofs: Roofs, seconds: float) -> Row | None:
    bound = bound_op(cost, roofs).bound_time_s
    features = probed.features_of(view, cost)
    if bound is None or features is None:
        return None
    return probed.key_of(view), features, bound, seconds


def _costs(workload: Workload) -> list[tuple[OpView, Cost]]:
    evaluator = Evaluator(workload, workload.resolve_symbols({}), {}, Conventions())
    return [
        (view, cost)
        for op, view, cost in evaluator.costs()
        if not is_free(op.kind) and cost is not None
    ]


def _round(kernel: _Kernel, clock: Clock) -> float:
    run, sets = kernel.case.run, kernel.sets
    run(*sets[-1])
    times: list[float] = []
    alive: deque[Any] = deque(maxlen=_ALIVE)
    while len(times) < _LEAST or sum(times) < _BUDGET_S:
        values = sets[len(times) % len(sets)]
        begun = clock()
        result = run(*values)
        times.append(max(clock() - begun, 1e-9))
        alive.append(result)
    # Most calls of a quiet machine lie close together; the lower quartile is theirs on a busy one.
    return sorted(times)[len(times) // 4]


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
