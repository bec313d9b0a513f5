"""The loops that torch's compiler writes: element-wise functions, norms, pooling, copies.

A compiled model calls the same libraries as an eager one for products, convolutions and attention.
Everything else it writes itself, with functions of its own: a tanh may take three times as long as
the library's, a batch norm half. So these classes are compiled and timed apart. A loop that fuses
several ops takes what each computes, and what the whole moves.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gambrel.measure.calibrate.cases import random
from gambrel.measure.calibrate.timing import Clock

#: Elements; compiled for all of them at once.
_ELEMENTS: Final = (5 << 13, 5 << 14, 5 << 15, 5 << 16, 5 << 17, 5 << 18, 5 << 19, 5 << 20)
#: A loop whose layout depends on its sizes is compiled for each of these.
_FEW: Final = (5 << 13, 5 << 15, 5 << 17, 5 << 19)
#: Little work: from this and from twice as much follows what calling takes without any.
_TINY: Final = 5 << 10
_WIDTH, _SIDE, _TABLE = 640, 48, 20000
_CALLS: Final = 9
#: Tiny loops that no compiler joins: what starting one takes.
_STARTS: Final = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One op and how its inputs are made.

    Attributes:
        run: The op.
        make: From a number of elements to its inputs.
        each: Compile it for every size.
        relaid: It is a copy of a weight to another layout, a class of its own.
    """

    run: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]
    each: bool = False
    relaid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A loop at one size.

    Attributes:
        loop: Which.
        inputs: Of this size.
        seconds: Within a compiled model, with its start.
    """

    loop: Loop
    inputs: tuple[Any, ...]
    seconds: float


def loops(dtype: Any) -> Iterator[Loop]:
    """All loops in one number format.

    Args:
        dtype: As torch names it.
    """
    import torch

    f = torch.nn.functional

    def flat(n: int) -> tuple[Any, ...]:
        return (random(n, dtype=dtype),)

    def rows(n: int) -> tuple[Any, ...]:
        return (random(n // _WIDTH, _WIDTH, dtype=dtype),)

    yield Loop(run=torch.add, make=lambda n: (*flat(n), *flat(n)))
    for run in (f.gelu, torch.tanh, f.silu, torch.exp, torch.rsqrt):
        yield Loop(run=run, make=flat)
    yield Loop(run=lambda a: torch.pow(a, 3), make=flat)
    if dtype is not torch.float32:
        yield Loop(run=lambda a: a.to(torch.float32), make=flat)
    yield Loop(
        run=lambda a, w: f.layer_norm(a, (_WIDTH,), w, w),
        make=lambda n: (*rows(n), random(_WIDTH, dtype=dtype)),
    )
    yield Loop(run=lambda a: torch.softmax(a, -1), make=rows)
    yield Loop(run=lambda a: a.mean(-1, keepdim=True), make=rows)
    yield from _images(dtype)


def _images(dtype: Any) -> Iterator[Loop]:
    """What runs with channels last, as the compiler lays out every convolution on a CPU."""
    import torch

    f = torch.nn.functional
    last = torch.channels_last

    def image(n: int) -> Any:
        channels = n // _SIDE**2 or 1
        return random(1, channels, _SIDE, _SIDE, dtype=dtype).contiguous(memory_format=last)

    def scaled(n: int) -> tuple[Any, ...]:
        x = image(n)
        return x, random(x.shape[1], dtype=dtype)

    def weights(n: int) -> tuple[Any, ...]:
        channels = round((n / 9) ** 0.5)
        return (random(channels, channels, 3, 3, dtype=dtype),)

    yield Loop(run=lambda a, w: f.batch_norm(a, w, w, w, w), make=scaled)
    yield Loop(run=lambda a: f.max_pool2d(a, 3, 2, 1), make=lambda n: (image(n),), each=True)
    yield Loop(run=lambda a: a.contiguous(memory_format=last), make=weights, each=True, relaid=True)


def time_loops(
    listed: Iterable[Loop],
    clock: Clock = time.perf_counter,
    said: Callable[[], None] = lambda: None,
) -> Iterator[Timed]:
    """Compiles and times loops.

    Args:
        listed: Which.
        clock: Seconds.
        said: Called before each is compiled.

    Yields:
        Each at each of its sizes; nothing where torch cannot compile on this machine.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call, start = _starting(clock)
        except Exception:  # no compiler, no headers: torch raises classes of many kinds
            return
        for loop in listed:
            said()
            yield from _sizes_of(loop, call, start, clock)


def _sizes_of(loop: Loop, call: float, start: float, clock: Clock) -> Iterator[Timed]:
    """One loop at each of its sizes."""
    import torch

    torch._dynamo.reset()
    running = torch.compile(loop.run, dynamic=True)
    if not loop.each:
        tiny, more = (_called(running, loop.make(n), clock) for n in (_TINY, 2 * _TINY))
        call = max(min(tiny, 2 * tiny - more), 0.0)
    for n in _FEW if loop.each else _ELEMENTS:
        if loop.each:
            torch._dynamo.reset()
            running = torch.compile(loop.run, dynamic=False)
        values = loop.make(n)
        seconds = _called(running, values, clock)
        yield Timed(loop=loop, inputs=values, seconds=max(seconds - call, 0.0) + start)


def _starting(clock: Clock) -> tuple[float, float]:
    """Seconds of calling compiled code, and of starting one more loop within it."""
    import torch

    def many(*values: Any) -> list[Any]:
        return [a + 1 for a in values]

    torch._dynamo.reset()
    values = [torch.rand(16 + i) for i in range(_STARTS)]
    one = _called(torch.compile(many, dynamic=False), values[:1], clock)
    torch._dynamo.reset()
    every = _called(torch.compile(many, dynamic=False), values, clock)
    start = max(every - one, 0.0) / (_STARTS - 1)
    return max(one - start, 0.0), max(start, 1e-7)


def _called(running: Callable[..., Any], values: Any, clock: Clock) -> float:
    """The median of calls, the inputs of each just written."""
    running(*values)
    times = []
    for _ in range(_CALLS):
        for value in values:
            value.mul_(1.0)
        begun = clock()
        running(*values)
        times.append(clock() - begun)
    return sorted(times)[_CALLS // 2]
