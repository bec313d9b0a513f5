"""Live FLOP/s, bandwidth, MFU and share of the speed of light of any code of torch, step by step.

The work of a step is counted op by op the first time that its inputs have some shapes; later steps
with the same shapes run without any instrument and are only timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gambrel.device.fastest import fastest, fastest_memory
from gambrel.device.model import Device
from gambrel.errors import InputError, require
from gambrel.roofline import rate, ratio, seconds

#: Steps whose figures are kept; older ones stay in the sums.
_KEPT: Final = 10_000


class StepWork(msgspec.Struct, frozen=True, kw_only=True):
    """What one step asks for.

    Attributes:
        work: Matrix FLOP by number format.
        vector_flops: Element-wise arithmetic.
        traffic_bytes: Inputs and outputs of every op once.
        ops: Calls that were counted.
        unmodelled: Calls without a formula.
        sol_time_s: The matrix work at the device's fastest rates, or the bytes of a step without
            any; None where unknown.
        peak_time_s: The matrix work at the dense peaks of its formats; None where unknown.
    """

    work: dict[str, int]
    vector_flops: int
    traffic_bytes: int
    ops: int
    unmodelled: int
    sol_time_s: float | None
    peak_time_s: float | None = None

    @property
    def flops(self) -> int:
        """Matrix work, FLOP; vector work where there is none."""
        return sum(self.work.values()) or self.vector_flops


class StepFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One step as it was measured.

    Attributes:
        measured_time_s: How long it took.
        flops: Its work.
        achieved_flop_per_s: Work over time.
        achieved_byte_per_s: Bytes of its ops over time.
        mfu: Share of the device's dense peak in the formats of its work; None where unknown.
        sol_share: Speed of light of its matrix work over its time; None where unknown.
        counted: Whether its ops were counted in this very step, which makes it slower.
    """

    measured_time_s: float
    flops: int
    achieved_flop_per_s: float
    achieved_byte_per_s: float
    mfu: float | None
    sol_share: float | None
    counted: bool = False


@dataclass(slots=True)
class Tracker:
    """What `track` gives: mark steps with `step`, read `last`, `mfu`, `steps`.

    Args:
        device: Whose peaks count; None for none.
    """

    device: Device | None
    steps: list[StepFigures] = field(default_factory=list)
    _known: dict[Any, StepWork] = field(default_factory=dict)
    _sync: Any = None

    @contextmanager
    def step(self, *inputs: Any) -> Iterator[None]:
        """One step.

        Args:
            *inputs: What decides its work: tensors (their shapes count), or anything hashable.
        """
        key = tuple(map(_signature, inputs))
        known = self._known.get(key)
        if known is None:
            with _counting(self.device) as counted:
                start = time.perf_counter()
                yield
                self._wait()
                spent = time.perf_counter() - start
            self._known[key] = known = counted.work()
            self._add(known, spent, counted=True)
            return
        start = time.perf_counter()
        yield
        self._wait()
        self._add(known, time.perf_counter() - start)

    def iterate(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Goes through batches; the body of the loop is a step."""
        for batch in batches:
            with self.step(batch):
                yield batch

    @property
    def last(self) -> StepFigures | None:
        """The step before; None at the beginning."""
        return self.steps[-1] if self.steps else None

    @property
    def mfu(self) -> float | None:
        """Over all steps that only were timed."""
        return self._over("mfu")

    @property
    def sol_share(self) -> float | None:
        """Share of the speed of light, over all steps that only were timed."""
        return self._over("sol_share")

    def works(self) -> tuple[StepWork, ...]:
        """What steps ask for, one entry for each signature."""
        return tuple(self._known.values())

    def __str__(self) -> str:
        from gambrel.units import format_percent, format_si

        step = self.last
        if step is None:
            return "no step yet"
        share = "unknown" if step.mfu is None else format_percent(step.mfu)
        return (
            f"{format_si(step.measured_time_s, 's')} per step, "
            f"{format_si(step.achieved_flop_per_s, 'FLOP/s')}, MFU {share}, "
            f"{format_si(step.achieved_byte_per_s, 'B/s')}"
        )

    def _over(self, name: str) -> float | None:
        timed = [s for s in self.steps if not s.counted] or self.steps
        whole = sum(s.measured_time_s for s in timed)
        parts = [(getattr(s, name), s.measured_time_s) for s in timed]
        if not whole or any(value is None for value, _ in parts):
            return None
        return float(sum(value * spent for value, spent in parts) / whole)

    def _add(self, known: StepWork, spent: float, *, counted: bool = False) -> None:
        peak_s = known.peak_time_s
        self.steps.append(
            StepFigures(
                measured_time_s=spent,
                flops=known.flops,
                achieved_flop_per_s=rate(known.flops, spent),
                achieved_byte_per_s=rate(known.traffic_bytes, spent),
                mfu=None if peak_s is None else ratio(peak_s, spent),
                sol_share=None if known.sol_time_s is None else ratio(known.sol_time_s, spent),
                counted=counted,
            )
        )
        del self.steps[:-_KEPT]

    def _wait(self) -> None:
        if self._sync is not None:
            self._sync()


@contextmanager
def track(device: Any = None, *, synchronize: bool | None = None) -> Iterator[Tracker]:
    """Tracks steps of any code of torch.

    Args:
        device: Whose peaks MFU refers to: a name, a `Device` or measured peaks; None gives rates
            without shares.
        synchronize: Wait for the GPU at the end of each step; by default where there is one.

    Raises:
        MissingExtraError: torch is not installed.
    """
    require("torch", "torch", "tracking a run")
    import torch

    from gambrel.device.resolve import resolve_hardware

    chosen = None if device is None else resolve_hardware(device)[0]
    gpu = torch.cuda.is_available() if synchronize is None else synchronize
    if gpu and not torch.cuda.is_available():
        raise InputError("synchronize=True: there is no GPU to wait for here.")
    tracker = Tracker(chosen)
    tracker._sync = torch.cuda.synchronize if gpu else None
    yield tracker


def _signature(value: Any) -> Any:
    """What decides the work of a step: shapes and formats of tensors, the rest by itself."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return tuple(shape), str(getattr(value, "dtype", ""))
    if isinstance(value, dict):
        return tuple((k, _signature(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_signature, value))
    try:
        hash(value)
    except TypeError:
        return type(value).__name__
    return value


def _at_peak(work: dict[str, int], device: Device | None) -> float | None:
    """Seconds that the matrix work takes at the dense peaks of its formats."""
    if device is None or not work:
        return None
    times = []
    for dtype, flops in work.items():
        roof = fastest(device, "matrix", dtype)
        if roof is None:
            return None
        times.append(float(seconds(flops, roof.flop_per_s)))
    return sum(times)


class _Counter:
    """Adds up the ops of a step."""

    def __init__(self, device: Device | None) -> None:
        self._device = device
        self._work: dict[str, int] = {}
        self._vector = self._bytes = self._ops = self._unknown = 0

    def see(self, name: str, overload: str, args: Sequence[Any], kwargs: Any, out: Any) -> None:
        """Takes in one call."""
        from gambrel.capture.aten import describe, is_known
        from gambrel.errors import GambrelError
        from gambrel.ops.base import Engine, OpView, cost, is_free

        if not is_known(name):
            self._unknown += 1
            return
        forms = _Forms()
        try:
            found = describe(name, overload, forms.of(args), forms.of(kwargs), forms.of(out))
            if is_free(found.kind):
                return
            asked = cost(
                OpView(
                    kind=found.kind,
                    inputs=tuple(map(forms.view, found.inputs)),
                    outputs=tuple(map(forms.view, found.outputs)),
                    sizes=found.sizes,
                    attrs=found.attrs,
                )
            )
        except (GambrelError, KeyError, TypeError, ValueError, IndexError, AttributeError):
            asked = None
        if asked is None:
            self._unknown += 1
            return
        self._ops += 1
        self._bytes += int(asked.read_bytes) + int(asked.write_bytes)
        for (engine, dtype), flops in asked.work.items():
            if engine is Engine.MATRIX:
                self._work[dtype] = self._work.get(dtype, 0) + int(flops)
            elif engine is Engine.VECTOR:
                self._vector += int(flops)

    def work(self) -> StepWork:
        """What was added up."""
        light = _at_peak(self._work, self._device)
        if light is None and self._device is not None and not self._work:
            memory = fastest_memory(self._device)
            light = None if memory is None else float(seconds(self._bytes, memory.byte_per_s))
        return StepWork(
            work=self._work,
            vector_flops=self._vector,
            traffic_bytes=self._bytes,
            ops=self._ops,
            unmodelled=self._unknown,
            sol_time_s=light,
            peak_time_s=_at_peak(self._work, self._device),
        )


class _Forms:
    """Tensors of one call as their forms."""

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}

    def of(self, value: Any) -> Any:
        """The same with forms in place of tensors."""
        import torch

        from gambrel.capture.aten import TensorArg

        if isinstance(value, torch.Tensor):
            number = self._ids.setdefault(id(value), len(self._ids))
            dtype = _FORMATS.get(str(value.dtype), str(value.dtype).removeprefix("torch."))
            return TensorArg(number, tuple(value.shape), dtype)
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.of, value)) if type(value) in (list, tuple) else value
        if isinstance(value, dict):
            return {k: self.of(v) for k, v in value.items()}
        return value

    @staticmethod
    def view(form: Any) -> Any:
        """As a formula sees it."""
        from gambrel.ops.base import TensorView

        return TensorView(shape=form.shape, dtype=form.dtype, elements=form.numel, storage=form.id)


#: Formats that torch calls otherwise.
_FORMATS: Final = {
    "torch.float32": "fp32",
    "torch.float64": "fp64",
    "torch.float16": "fp16",
    "torch.bfloat16": "bf16",
    "torch.float8_e4m3fn": "fp8",
    "torch.float8_e5m2": "fp8",
}


@contextmanager
def _counting(device: Device | None) -> Iterator[_Counter]:
    """Every op of torch, forward and backward, is seen."""
    from torch.utils._python_dispatch import TorchDispatchMode

    counter = _Counter(device)

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            name = str(func._schema.name).replace("::", ".")
            counter.see(name, func._overloadname, args, kwargs or {}, out)
            return out

    with Mode():
        yield counter
