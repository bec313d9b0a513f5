"""What installed libraries attain: roofs of their own, below the hardware's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from gambrel.measure.records import Measurement
from gambrel.measure.stats import best_of, figure

#: Sides of the square products that are tried; the best is reported with its side.
SIDES: Final = (512, 1024, 1536, 2048)

#: With fewer calls than this, a rough round, only the sides that are mostly the best.
FEW, FEW_SIDES = 10, (1024, 1536)

#: Seconds after which a side has no further calls, once it had this many.
SIDE_S, LEAST = 0.15, 4

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attained:
    """Figures of libraries, and which versions they stand for."""

    measurements: tuple[Measurement, ...]
    versions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A matrix product of a library.

    Attributes:
        name: Of the function.
        dtype: Number format of the operands.
        threads: That the library uses.
        prepare: From a side to a call without arguments.
    """

    name: str
    dtype: str
    threads: int
    prepare: Callable[[int], Callable[[], Any]]


def attained(steps: int, clock: Clock = time.perf_counter) -> Attained:
    """Runs matrix products of numpy, and of torch where it is installed.

    Args:
        steps: Calls of each.
        clock: Seconds.
    """
    found, versions = list(_numpy()), {"numpy": np.__version__}
    if find_spec("torch") is not None:
        import torch

        versions["torch"] = str(torch.__version__)
        found += _torch()
    sides = FEW_SIDES if steps < FEW else SIDES
    return Attained(
        measurements=tuple(measure(p, sides, steps, clock) for p in found), versions=versions
    )


def measure(product: Product, sides: tuple[int, ...], steps: int, clock: Clock) -> Measurement:
    """The best rate of a product over the sides.

    Args:
        product: What to call.
        sides: Of the square operands.
        steps: Calls for each side, after one to warm up; fewer of slow ones.
        clock: Seconds.
    """
    figures = []
    for side in sides:
        call = product.prepare(side)
        call()
        times: list[float] = []
        while len(times) < steps and (sum(times) < SIDE_S or len(times) < LEAST):
            begun = clock()
            call()
            times.append(clock() - begun)
        figures.append(figure(times, 2 * side**3))
    best = best_of(figures)
    return Measurement(
        resource="library",
        mix=product.name,
        dtype=product.dtype,
        value=best.value,
        median=best.median,
        unit="FLOP/s",
        threads=product.threads,
        samples=steps,
        note=f"square product of side {sides[best.round]}, {best.samples} calls",
    )


def _numpy() -> Iterator[Product]:
    import os

    for dtype, kind in (("fp32", np.float32), ("fp64", np.float64)):

        def prepare(side: int, kind: Any = kind) -> Callable[[], Any]:
            random = np.random.default_rng(1)
            a, b = (random.random((side, side)).astype(kind) for _ in range(2))
            out = np.empty_like(a)
            return lambda: np.matmul(a, b, out=out)

        yield Product(
            name="numpy matmul", dtype=dtype, threads=os.cpu_count() or 1, prepare=prepare
        )


def _torch() -> Iterator[Product]:
    import torch

    kinds = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16}
    for dtype, kind in kinds.items():

        def prepare(side: int, kind: Any = kind) -> Callable[[], Any]:
            generator = torch.Generator().manual_seed(1)
            a, b = (torch.rand(side, side, generator=generator).to(kind) for _ in range(2))
            out = torch.empty(side, side, dtype=kind)
            # As a linear layer stores its weights; never slower than the other order.
            return lambda: torch.mm(a, b.t(), out=out)

        yield Product(
            name="torch mm", dtype=dtype, threads=torch.get_num_threads(), prepare=prepare
        )
