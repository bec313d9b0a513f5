"""Brute force: numbers that count what is done to them, and loops that really do it.

`Number` tallies every operation; a program over Numbers is an independent count of the operations
that a formula claims. A multiply-add (`fma`) is tallied apart: it is matrix work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Tally:
    multiply_adds: int = 0
    vector: int = 0
    special: int = 0

    def number(self, value: float) -> Number:
        return Number(value, self)

    def numbers(self, count: int, start: float = 0.1) -> list[Number]:
        """Distinct values, neither sorted nor all of one sign."""
        return [self.number(math.sin(start + 7.0 * i)) for i in range(count)]


@dataclass(eq=False)
class Number:
    value: float
    tally: Tally = field(repr=False)

    def _vector(self, value: float) -> Number:
        self.tally.vector += 1
        return Number(value, self.tally)

    def _special(self, function: Callable[[float], float]) -> Number:
        self.tally.special += 1
        return Number(function(self.value), self.tally)

    def __add__(self, other: object) -> Number:
        return self._vector(self.value + plain(other))

    def __radd__(self, other: float) -> Number:
        return self._vector(other + self.value)

    def __sub__(self, other: object) -> Number:
        return self._vector(self.value - plain(other))

    def __rsub__(self, other: float) -> Number:
        return self._vector(other - self.value)

    def __mul__(self, other: object) -> Number:
        return self._vector(self.value * plain(other))

    def __rmul__(self, other: float) -> Number:
        return self._vector(other * self.value)

    def __truediv__(self, other: object) -> Number:
        return self._vector(self.value / plain(other))

    def __rtruediv__(self, other: float) -> Number:
        return self._vector(other / self.value)

    def __neg__(self) -> Number:
        return self._vector(-self.value)

    def __abs__(self) -> Number:
        return self._vector(abs(self.value))

    def __lt__(self, other: object) -> Number:
        return self._vector(float(self.value < plain(other)))

    def __le__(self, other: object) -> Number:
        return self._vector(float(self.value <= plain(other)))

    def __gt__(self, other: object) -> Number:
        return self._vector(float(self.value > plain(other)))

    def __and__(self, other: Number) -> Number:
        return self._vector(float(bool(self.value) and bool(other.value)))


def plain(x: object) -> float:
    return x.value if isinstance(x, Number) else float(x)  # type: ignore[arg-type]


def most(a: Number, b: object) -> Number:
    return a._vector(max(a.value, plain(b)))


def least(a: Number, b: object) -> Number:
    return a._vector(min(a.value, plain(b)))


def select(condition: Number, a: object, b: object) -> Number:
    return condition._vector(plain(a) if condition.value else plain(b))


def rounded(a: Number, how: Callable[[float], int] = math.floor) -> Number:
    return a._vector(how(a.value))


def special(function: Callable[[float], float]) -> Callable[[Number], Number]:
    return lambda x: x._special(function)


exp, expm1, log, log1p = (special(f) for f in (math.exp, math.expm1, math.log, math.log1p))
sqrt, tanh, erf = (special(f) for f in (math.sqrt, math.tanh, math.erf))
rsqrt, exp2, log2 = (special(f) for f in (lambda x: x**-0.5, lambda x: 2**x, math.log2))
sin, cos, atan = (special(f) for f in (math.sin, math.cos, math.atan))


def fma(accumulator: Number, a: Number, b: Number) -> Number:
    accumulator.tally.multiply_adds += 1
    return Number(accumulator.value + a.value * b.value, accumulator.tally)


def added(values: Sequence[Number]) -> Number:
    """To add n values we do n - 1 additions."""
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def largest(values: Sequence[Number]) -> Number:
    result = values[0]
    for value in values[1:]:
        result = most(result, value)
    return result


def count_matmul(b: int, m: int, n: int, k: int) -> int:
    tally = Tally()
    for _ in range(b):
        x = [tally.numbers(k) for _ in range(m)]
        w = [tally.numbers(k) for _ in range(n)]
        for row, column in itertools.product(x, w):
            total = tally.number(0.0)
            for a, c in zip(row, column, strict=True):
                total = fma(total, a, c)
    return tally.multiply_adds


def grid(*sizes: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(s) for s in sizes))


@dataclass(frozen=True, kw_only=True)
class Conv:
    """A convolution to be run by loops; channels are per group."""

    batch: int
    groups: int
    group_in: int
    group_out: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    image: tuple[int, ...]

    @property
    def out(self) -> tuple[int, ...]:
        axes = zip(self.image, self.kernel, self.stride, self.dilation, self.padding, strict=True)
        return tuple((i + 2 * p - d * (k - 1) - 1) // s + 1 for i, k, s, d, p in axes)

    def multiply_adds(self) -> int:
        """Gathers, for every output value, all taps of its channels; padding is zeros."""
        count = 0
        for _ in grid(self.batch, self.groups, self.group_out):
            for place in grid(*self.out):
                for _, *tap in grid(self.group_in, *self.kernel):
                    at = [
                        o * s + t * d - p
                        for o, s, t, d, p in zip(
                            place, self.stride, tap, self.dilation, self.padding, strict=True
                        )
                    ]
                    assert all(
                        -p <= a < i + p
                        for a, i, p in zip(at, self.image, self.padding, strict=True)
                    )
                    count += 1
        return count

    def transposed_multiply_adds(self) -> int:
        """Spreads every input value over all taps of its group's outputs (cropped afterwards)."""
        count = 0
        for _ in grid(self.batch, self.groups, self.group_in, *self.image):
            for _ in grid(self.group_out, *self.kernel):
                count += 1
        return count


def visible(q: int, kv: int, *, causal: str | None, window: int | None) -> list[int]:
    """Keys that each query sees, by asking for every pair whether the mask leaves it."""
    shift = {None: None, "upper_left": 0, "lower_right": kv - q}[causal]
    counts = []
    for i in range(q):
        seen = [j for j in range(kv) if shift is None or j <= i + shift]
        counts.append(len(seen if window is None else seen[-window:]))
    return counts


def seen_keys(q: int, kv: int, *, causal: str, window: int | None) -> int:
    """Keys that at least one query sees."""
    shift = 0 if causal == "upper_left" else kv - q
    keys: set[int] = set()
    for i in range(q):
        seen = [j for j in range(kv) if j <= i + shift]
        keys.update(seen if window is None else seen[-window:])
    return len(keys)


def run_attention(tally: Tally, counts: Sequence[int], d: int, dv: int) -> None:
    """One head: scores, scale, softmax, weighted sum of values, over the visible keys only."""
    for seen in counts:
        query, scores = tally.numbers(d), []
        for j in range(seen):
            score = tally.number(0.0)
            for a, b in zip(query, tally.numbers(d, start=j), strict=True):
                score = fma(score, a, b)
            scores.append(score * d**-0.5)
        if not scores:
            continue
        weights = softmax(scores)
        assert math.isclose(sum(w.value for w in weights), 1.0)
        out = [tally.number(0.0) for _ in range(dv)]
        for weight, j in zip(weights, range(seen), strict=True):
            out = [fma(o, weight, v) for o, v in zip(out, tally.numbers(dv, j), strict=True)]


def softmax(row: Sequence[Number]) -> list[Number]:
    top = largest(row)
    powers = [exp(x - top) for x in row]
    total = added(powers)
    return [p / total for p in powers]


def log_softmax(row: Sequence[Number]) -> list[Number]:
    top = largest(row)
    shifted = [x - top for x in row]
    total = log(added([exp(x) for x in shifted]))
    return [x - total for x in shifted]
