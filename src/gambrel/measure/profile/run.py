"""Runs a model: timed and untouched, then under the framework's profiler, then as it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from gambrel.errors import DeviceError, GambrelError, InputError, first_line, kind_and_line
from gambrel.measure.counters import CounterReading
from gambrel.measure.profile.events import STEP, DeviceTime, ProfiledStep, steps_of
from gambrel.measure.profile.join import ProfiledCall
from gambrel.measure.profile.quiet import quiet
from gambrel.units import format_si

#: Calls that a profile may hold: a step of a large model has ten thousands.
_MOST_CALLS: Final = 300_000

#: Turns that untouched and profiled steps take.
_BLOCKS: Final = 4

#: How torch says that the system gave it no memory on a CPU.
_NO_MEMORY: Final = "can't allocate memory"

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What was seen.

    Attributes:
        plain_s: Seconds of each step without instruments.
        instrumented_s: Seconds of each profiled step.
        steps: The outermost calls of each profiled step.
        peak_bytes: Most memory that torch held at once on the device; None where it is not
            counted.
        counted: What hardware counters saw of a step; None where they were not asked.
        device: What the device did in each profiled step; empty on a CPU.
    """

    plain_s: tuple[float, ...]
    instrumented_s: tuple[float, ...]
    steps: tuple[tuple[ProfiledCall, ...], ...]
    peak_bytes: int | None = None
    counted: CounterReading | None = None
    device: tuple[DeviceTime, ...] = ()


def run(
    call: Callable[[], Any],
    device: str,
    *,
    warmup: int,
    steps: int,
    ops: int,
    clock: Clock = time.perf_counter,
) -> Runs:
    """Runs a model ``warmup + steps`` times untouched and up to ``steps`` times profiled.

    Untouched and profiled steps take turns in a few blocks, so that a slow spell of the machine
    does not fall on one kind alone.

    Args:
        call: One step.
        device: As torch names it.
        warmup: Steps thrown away.
        steps: Steps of each kind.
        ops: Ops of a step, to keep the profile in bounds.
        clock: Seconds.
    """
    import torch

    wait = _waiter(device)
    gpu = device.startswith("cuda")
    for _ in range(warmup):
        call()
    wait()
    if gpu:
        torch.cuda.reset_peak_memory_stats(device)
    plain: list[float] = []
    walls: list[float] = []
    found: list[ProfiledStep] = []
    profiled = max(1, min(steps, _MOST_CALLS // max(1, 10 * ops)))
    for untouched, watched in zip(_blocks(steps), _blocks(profiled), strict=True):
        plain += [_timed(call, wait, clock) for _ in range(untouched)]
        if watched:
            seen = _profiled(call, wait, clock, device, watched)
            walls += seen[0]
            found += seen[1]
    peak = int(torch.cuda.max_memory_allocated(device)) if gpu else None
    seen_on_device = tuple(step.device for step in found if step.device is not None)
    if gpu and ops:
        _check_seen(device, seen_on_device, plain)
    return Runs(
        plain_s=tuple(plain),
        instrumented_s=tuple(walls),
        steps=tuple(step.calls for step in found),
        peak_bytes=peak,
        device=seen_on_device,
    )


def _check_seen(device: str, seen: Sequence[DeviceTime], plain: Sequence[float]) -> None:
    """Without kernels every op would seem to take no time."""
    if not any(step.kernels for step in seen):
        raise DeviceError(
            f"torch's profiler saw no kernel on {device}, though the model ran on it "
            f"({format_si(median(plain), 's', 3)} a step). Its tracing library (CUPTI, or "
            "roctracer) is missing or may not be used here, or another profiler holds it: end "
            "Nsight or the like, or take a container or a build of torch with that library."
        )


def _blocks(steps: int) -> list[int]:
    """The steps in equal parts, as far as that goes."""
    return [steps // _BLOCKS + (i < steps % _BLOCKS) for i in range(_BLOCKS)]


def _timed(call: Callable[[], Any], wait: Callable[[], None], clock: Clock) -> float:
    begun = clock()
    call()
    wait()
    return clock() - begun


def _profiled(
    call: Callable[[], Any], wait: Callable[[], None], clock: Clock, device: str, steps: int
) -> tuple[list[float], list[ProfiledStep]]:
    from torch.profiler import ProfilerActivity, profile, record_function

    gpu = device.startswith("cuda")
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if gpu else [])
    walls = []
    with quiet(), profile(activities=activities) as profiler:
        _timed(call, wait, clock)  # the first step under a profiler that has just begun is slow
        for _ in range(steps):
            with record_function(STEP):
                walls.append(_timed(call, wait, clock))
    return walls, steps_of(profiler.events(), gpu=gpu)


def _waiter(device: str) -> Callable[[], None]:
    if not device.startswith("cuda"):
        return lambda: None
    import torch

    return lambda: torch.cuda.synchronize(device)


@contextmanager
def placed(model: Any, device: str) -> Iterator[None]:
    """The model on a device; afterwards on its own again, with the buffers that it had.

    Running statistics change in training mode, and a measurement must not train.

    Raises:
        InputError: The model has no values (it lies on torch's meta device).
        DeviceError: There is no such device, or it has too little memory.
    """
    import torch

    places = {t.device for t in (*model.parameters(), *model.buffers())}
    if any(p.type == "meta" for p in places):
        raise InputError("the model lies on torch's meta device and has no values; load it first.")
    if len(places) > 1:
        raise InputError(f"the model lies on several devices: {', '.join(map(str, places))}.")
    kept = {name: b.detach().clone() for name, b in model.named_buffers()} if model.training else {}
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with _explained(device):
            model.to(device)
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for place in places:
            model.to(place)
        if device.startswith("cuda") and all(place.type != "cuda" for place in places):
            torch.cuda.empty_cache()
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in kept:
                    buffer.copy_(kept[name])


@contextmanager
def _explained(device: str) -> Iterator[None]:
    import torch

    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise DeviceError(f"{device} has too little memory: {first_line(error)}") from None
    except (RuntimeError, AssertionError) as error:
        raise DeviceError(f"cannot use the device {device!r}: {first_line(error)}") from None


@contextmanager
def forward_explained(name: str, device: str) -> Iterator[None]:
    """Turns a failure of the model into a sentence.

    Raises:
        DeviceError: The device ran out of memory.
        InputError: The model failed.
    """
    import torch

    try:
        yield
    except GambrelError:
        raise
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        raise DeviceError(f"{device} has too little memory: {first_line(error)}") from None
    except Exception as error:  # a user's forward may raise anything
        if _NO_MEMORY in str(error):
            said = str(error).partition(_NO_MEMORY)[2].strip(" :")
            raise DeviceError(f"{device} has too little memory: {said.splitlines()[0]}") from None
        raise InputError(f"{name} fails on {device}: {kind_and_line(error)}") from error


def as_call(sample: Any, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a sample, on a device.

    Args:
        sample: A tensor, a tuple or list of positional arguments, or a mapping of keyword ones.
        device: As torch names it.
    """
    if isinstance(sample, Mapping):
        return (), {k: moved(v, device) for k, v in sample.items()}
    if isinstance(sample, (tuple, list)) and not hasattr(sample, "_fields"):
        return tuple(moved(v, device) for v in sample), {}
    return (moved(sample, device),), {}


def moved(value: Any, device: str) -> Any:
    """The value with the tensors inside on a device; what is no container stays as it is."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return type(value)({k: moved(v, device) for k, v in value.items()})  # type: ignore[call-arg]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(moved(v, device) for v in value)
    return value


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in nested containers."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
