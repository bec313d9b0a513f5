"""What installed libraries attain: roofs of their own, below the hardware's.

Which size and layout suits a library best is not known beforehand: several are tried, the better
ones again and again, a few calls in each round of a survey. So an interruption of some seconds, or
a moment of a low clock, decides nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from gambrel.measure.records import Measurement
from gambrel.measure.stats import SampledRate, figure, over_rounds

#: Rows, columns and depth of the products that are tried, those first that are mostly the best.
SHAPES: Final = (
    (1536, 1536, 1024),
    (1280, 1280, 1280),
    (2048, 2048, 1024),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (1536, 1536, 1536),
)
#: The same of convolutions: images, channels and filters, side, side of the filters.
CONVOLUTIONS: Final = ((16, 128, 56, 3), (8, 256, 28, 3), (8, 512, 28, 1))

#: In a rough survey only so many ways of each product are tried.
FEW: Final = 3
#: Ways that are left at last.
_FINALISTS: Final = 2
#: Rounds in which every way is tried before the worse half of them is dropped, again and again.
_OPEN_ROUNDS: Final = 2
#: A way is called for so long in a round, but so often at least and at most, seconds.
_TURN_S, _LEAST_CALLS, _MOST_CALLS = 12e-3, 2, 25
#: In one round no further way of a product is tried after so long, and none in any round after so
#: long for all of them (in a rough survey), seconds: formats that a processor imitates are slow.
_ENOUGH_S, _MOST_S, _MOST_ROUGH_S = 0.4, 3.0, 0.7
#: Threads of libraries go on waiting for work for a while; the next probe wants its cores alone.
_REST_S: Final = 0.03

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attained:
    """Figures of libraries, and which versions they stand for."""

    measurements: tuple[Measurement, ...]
    versions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductLayout:
    """One size and layout.

    Attributes:
        label: Of both.
        flop: Of one call.
        prepare: Gives a call without arguments.
    """

    label: str
    flop: float
    prepare: Callable[[], Callable[[], Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryProduct:
    """A function of a library.

    Attributes:
        name: Of the function.
        dtype: Number format of the operands.
        threads: That the library uses.
        ways: To call it, those first that are mostly the best.
    """

    name: str
    dtype: str
    threads: int
    ways: tuple[ProductLayout, ...]


@dataclass(slots=True)
class _Candidate:
    """A way that may be the best.

    Attributes:
        way: Which.
        call: Prepared before the first round.
        rounds: Its rates.
    """

    way: ProductLayout
    call: Callable[[], Any] | None = None
    rounds: list[SampledRate] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Its highest rate so far; 0 where it was not tried yet."""
        return max((r.value for r in self.rounds), default=0.0)

    def turn(self, clock: Clock) -> None:
        """Some calls."""
        if self.call is None:
            self.call = self.way.prepare()
            self.call()  # loads code, and pages of the result
        times: list[float] = []
        while not times or _goes_on(times):
            begun = clock()
            self.call()
            times.append(max(clock() - begun, 1e-9))
        self.rounds.append(figure(times, self.way.flop))


def _goes_on(times: list[float]) -> bool:
    if sum(times) > _ENOUGH_S:
        return False
    return len(times) < _LEAST_CALLS or (sum(times) < _TURN_S and len(times) < _MOST_CALLS)


class SearchTrial:
    """All ways of one product, of which the better ones stay.

    Attributes:
        product: Whose.
        candidates: Those that are left.
    """

    def __init__(
        self, product: LibraryProduct, clock: Clock = time.perf_counter, *, most_s: float = _MOST_S
    ) -> None:
        """A trial.

        Args:
            product: What to call.
            clock: Seconds.
            most_s: Seconds after which the product is not called any more.
        """
        self.product, self._clock, self._turns = product, clock, 0
        self._left_s = most_s
        self.candidates = [_Candidate(way) for way in product.ways]

    def turn(self) -> None:
        """One round, if there is time left for it."""
        if self._left_s <= 0:
            return
        begun = self._clock()
        for candidate in self.candidates:
            if self._clock() - begun > (_ENOUGH_S if self._turns else self._left_s / 2):
                break
            candidate.turn(self._clock)
        self._left_s -= self._clock() - begun
        self._turns += 1
        if self._turns >= _OPEN_ROUNDS and len(self.candidates) > _FINALISTS:
            ranked = sorted(self.candidates, key=lambda c: -c.best)
            self.candidates = ranked[: max(_FINALISTS, len(ranked) // 2)]

    def result(self) -> Measurement | None:
        """The best way; None where nothing ran."""
        tried = [(over_rounds(c.rounds), c) for c in self.candidates if c.rounds]
        if not tried:
            return None
        found, candidate = max(tried, key=lambda pair: pair[0].value)
        return found.measurement(
            "library",
            self.product.name,
            "FLOP/s",
            dtype=self.product.dtype,
            threads=self.product.threads,
            rounds=len(candidate.rounds),
            note=f"{candidate.way.label}, the best of {len(self.product.ways)}",
        )


class Search:
    """Trials of what is installed, one round at a time."""

    def __init__(self, *, rough: bool = False) -> None:
        self._rough = rough
        self._trials: list[SearchTrial] | None = None
        self.versions: dict[str, str] = {}

    def turn(self) -> None:
        """One round of every product; the first loads the libraries."""
        if self._trials is None:
            most = _MOST_ROUGH_S if self._rough else _MOST_S
            self._trials = [SearchTrial(p, most_s=most) for p in self._products()]
        for trial in self._trials:
            trial.turn()
        time.sleep(_REST_S)

    def result(self) -> Attained:
        """What was attained in the rounds so far."""
        found = [m for t in self._trials or () if (m := t.result())]
        return Attained(measurements=tuple(found), versions=self.versions)

    def _products(self) -> Iterator[LibraryProduct]:
        few = FEW if self._rough else None
        self.versions["numpy"] = np.__version__
        yield from _cut(_numpy(), few)
        if find_spec("torch") is not None:
            import torch

            self.versions["torch"] = str(torch.__version__)
            yield from _cut(_torch(), few)


def _cut(products: Iterable[LibraryProduct], few: int | None) -> Iterator[LibraryProduct]:
    for p in products:
        yield LibraryProduct(name=p.name, dtype=p.dtype, threads=p.threads, ways=p.ways[:few])


def _numpy() -> Iterator[LibraryProduct]:
    for dtype, kind in (("fp32", np.float32), ("fp64", np.float64)):

        def way(shape: tuple[int, int, int], kind: Any = kind) -> ProductLayout:
            m, n, k = shape

            def prepare() -> Callable[[], Any]:
                random = np.random.default_rng(1)
                a, b = (random.random(size).astype(kind) for size in ((m, k), (k, n)))
                out = np.empty((m, n), dtype=kind)
                return lambda: np.matmul(a, b, out=out)

            return ProductLayout(label=_shape(shape), flop=2.0 * m * n * k, prepare=prepare)

        ways = tuple(map(way, SHAPES))
        yield LibraryProduct(
            name="numpy matmul", dtype=dtype, threads=os.cpu_count() or 1, ways=ways
        )


def _torch() -> Iterator[LibraryProduct]:
    import torch

    threads = torch.get_num_threads()
    kinds = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16}
    for dtype, kind in kinds.items():
        # As a linear layer stores its weights, and as a GEMM has them.
        ways = [_mm(kind, s, turned) for s in SHAPES for turned in (True, False)]
        yield LibraryProduct(name="torch mm", dtype=dtype, threads=threads, ways=tuple(ways))
    for dtype in ("fp32", "bf16"):
        ways = [_convolution(kinds[dtype], shape) for shape in CONVOLUTIONS]
        yield LibraryProduct(name="torch conv2d", dtype=dtype, threads=threads, ways=tuple(ways))


def _mm(kind: Any, shape: tuple[int, int, int], turned: bool) -> ProductLayout:
    import torch

    m, n, k = shape

    def prepare() -> Callable[[], Any]:
        generator = torch.Generator().manual_seed(1)
        a = torch.rand(m, k, generator=generator).to(kind)
        b = torch.rand(*((n, k) if turned else (k, n)), generator=generator).to(kind)
        out = torch.empty(m, n, dtype=kind)
        second = b.t() if turned else b
        return lambda: torch.mm(a, second, out=out)

    label = f"{_shape(shape)}{', second operand transposed' if turned else ''}"
    return ProductLayout(label=label, flop=2.0 * m * n * k, prepare=prepare)


def _convolution(kind: Any, shape: tuple[int, int, int, int]) -> ProductLayout:
    import torch

    images, channels, side, window = shape

    def prepare() -> Callable[[], Any]:
        generator = torch.Generator().manual_seed(1)

        def random(*size: int) -> Any:
            values = torch.rand(*size, generator=generator).to(kind)
            return values.contiguous(memory_format=torch.channels_last)

        x = random(images, channels, side, side)
        weight = random(channels, channels, window, window)

        def call() -> Any:
            with torch.no_grad():
                return torch.nn.functional.conv2d(x, weight, padding=window // 2)

        return call

    return ProductLayout(
        label=f"{window}x{window}, {channels} channels, {images} images of {side}x{side}",
        flop=2.0 * images * side**2 * channels**2 * window**2,
        prepare=prepare,
    )


def _shape(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))
