"""Times of any step of one layout in microseconds: tables made once, then interpolation.

A step of a serving engine holds sequences that decode and chunks of prompts. Its time is

    max(floor, decode(B, contexts) + linear(tokens) + sum of attention(chunk, tokens before it))

where the tables are expected times of the analysis of such steps (the roofline time where no
constants are known), ``linear`` is all of a prefill step but attention, and the floor is the least
time of a step that is not replayed as a graph. Decode steps grow evenly with the mean context, and
attention of a chunk with the tokens before it, so that interpolation between powers of two and
their quarters stays within a percent of the analysis.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gambrel.errors import InputError
from gambrel.llm.serving.steps import Setup, Times, decode_times, symbolic
from gambrel.llm.serving.timing import Overhead
from gambrel.llm.step import prefill

Floats: TypeAlias = NDArray[np.float64]

#: Entries of a table for each doubling: of batches and prompts, of contexts.
_FINE: Final = 4
_COARSE: Final = 1
#: Most requests of one replica in the table.
_MOST: Final = 4096
_LONGEST: Final = 131_072


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Seconds of the parts of steps of one replica, at points of a grid.

    Attributes:
        batches: Requests that decode, all of them.
        contexts: Tokens that they see.
        decode_s: Of a decode step; [batch, context].
        tokens: New tokens of prompts in a step.
        linear_s: Of all but attention; [tokens].
        before: Tokens of a prompt that are there already.
        attention_s: Of a chunk of so many tokens behind them; [tokens, before].
        overhead: Least time of a step with prompt tokens.
        groups: Parts of a replica that prefill different prompts.
    """

    batches: Floats
    contexts: Floats
    decode_s: Floats
    tokens: Floats
    linear_s: Floats
    before: Floats
    attention_s: Floats
    overhead: Overhead
    groups: int


class StepTimes:
    """The time of any step of one replica, by interpolation in `Tables`; can be pickled.

    Args:
        tables: Of one layout.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = t = tables
        self.longest = float(t.contexts[-1])
        self._batches: list[float] = t.batches.tolist()
        self._contexts: list[float] = t.contexts.tolist()
        self._tokens, self._before = t.tokens.tolist(), t.before.tolist()
        self._decode: list[list[float]] = t.decode_s.tolist()
        self._attention: list[list[float]] = t.attention_s.tolist()
        self._linear: list[float] = t.linear_s.tolist()
        self._rows: dict[int, list[tuple[float, float, float]]] = {}
        self._curves: dict[int, Floats] = {}
        self._wholes: dict[int, float] = {}

    def decode(self, batch: int, contexts: ArrayLike) -> float:
        """Seconds of a step in which every request in flight adds a token.

        Args:
            batch: Requests in flight.
            contexts: Tokens that each of them sees, or one number for all.

        Raises:
            InputError: No request, or a context out of the range of the table.
        """
        if batch < 1:
            raise InputError(f"batch={batch!r}: a decode step has at least 1 request.")
        if isinstance(contexts, (int, float)):
            self._check("contexts", contexts, contexts)
            return self.uniform(batch, contexts)
        seen = np.asarray(contexts, dtype=float)
        if seen.ndim and seen.size != batch:
            raise InputError(f"contexts: {seen.size} of them for {batch} requests; give one each.")
        self._check("contexts", seen.min(), seen.max())
        curve = self._curves.get(batch)
        if curve is None:
            curve = self._curves[batch] = np.array(self._curve(batch))
        total: float = np.add.reduce(np.interp(seen, self.tables.contexts, curve))
        return float(total) / seen.size

    def uniform(self, batch: int, context: float) -> float:
        """`decode` of requests with one mean context, unchecked."""
        start, slope, _ = self.line(batch, context)
        return start + slope * context

    def line(self, batch: int, context: float) -> tuple[float, float, float]:
        """Seconds of a decode step near a context: of none, of each token, and up to where."""
        row = self._rows.get(batch)
        if row is None:
            row = self._rows[batch] = self._row(batch)
        return row[bisect(self._contexts, context, 1, len(row)) - 1]

    def _row(self, batch: int) -> list[tuple[float, float, float]]:
        """Lines of a decode step of so many requests, one between two contexts of the table."""
        values = self._curve(batch)
        axis = self._contexts
        slopes = [
            (values[i + 1] - values[i]) / (axis[i + 1] - axis[i]) for i in range(len(axis) - 1)
        ]
        return [(values[i] - slope * axis[i], slope, axis[i + 1]) for i, slope in enumerate(slopes)]

    def _curve(self, batch: int) -> list[float]:
        """Seconds of a decode step of so many requests, at every context of the table."""
        i, w = _place(self._batches, batch)
        low, high = self._decode[i], self._decode[i + 1]
        return [a + w * (b - a) for a, b in zip(low, high, strict=True)]

    def prefill(self, lengths: ArrayLike, cached: ArrayLike = 0) -> float:
        """Seconds of a step with these prompts, or chunks of prompts, and nothing else.

        Args:
            lengths: New tokens of each.
            cached: Tokens of each that are there already, or one number for all.

        Raises:
            InputError: A chunk without a token, or a prompt out of the range of the table.
        """
        return max(self.floor(_sum(lengths), alone=True), self.chunks(lengths, cached))

    def chunks(self, lengths: ArrayLike, cached: ArrayLike = 0) -> float:
        """What chunks of prompts add to a step on the device, without the floor."""
        if isinstance(lengths, (int, float)) and isinstance(cached, (int, float)):
            self._check("lengths", lengths, lengths + cached)
            return self.chunk(lengths, cached)
        new, seen = _pairs(lengths, cached)
        if not new:
            raise InputError("lengths: give at least one chunk of a prompt.")
        self._check("lengths", min(new), max(map(float.__add__, new, seen)))
        return self.linear(sum(new)) + sum(map(self.attention, new, seen))

    def chunk(self, new: float, cached: float) -> float:
        """`chunks` of one prompt, unchecked."""
        return self.linear(new) + self.attention(new, cached)

    def whole(self, tokens: int) -> float:
        """`chunk` of a prompt's first tokens, unchecked; found once for each number of them."""
        seconds = self._wholes.get(tokens)
        if seconds is None:
            seconds = self._wholes[tokens] = self.chunk(tokens, 0)
        return seconds

    def linear(self, tokens: float) -> float:
        """Seconds of all but attention, for the new tokens of all prompts in a step."""
        at = tokens / self.tables.groups
        i, w = _place(self._tokens, at)
        low = self._linear[i]
        return max(0.0, low + w * (self._linear[i + 1] - low))

    def attention(self, new: float, cached: float) -> float:
        """Seconds of the attention of one chunk."""
        found = _bilinear(self._tokens, self._before, self._attention, new, cached)
        return found / self.tables.groups

    def mixed(self, lengths: ArrayLike, contexts: ArrayLike, cached: ArrayLike = 0) -> float:
        """Seconds of a step with chunks of prompts beside requests that decode.

        Args:
            lengths: New tokens of each chunk.
            contexts: Tokens that each of the requests that decode sees.
            cached: Tokens of each prompt that are there already.
        """
        seen = np.asarray(contexts, dtype=float)
        both = self.decode(seen.size, seen) + self.chunks(lengths, cached)
        return max(self.floor(_sum(lengths) + seen.size), both)

    def floor(self, tokens: float, *, alone: bool = False) -> float:
        """Least time of a step with so many tokens of a replica, those of prompts among them.

        Args:
            tokens: In the step.
            alone: Whether no request decodes beside the prompts.
        """
        own = self.tables.overhead
        if tokens <= own.graph_tokens * self.tables.groups:
            return 0.0
        return own.alone if alone else own.floor_s

    def decodes(self, batches: ArrayLike, contexts: ArrayLike) -> Floats:
        """Seconds of many decode steps at once, each with its batch and its mean context."""
        t = self.tables
        b, c = np.broadcast_arrays(np.asarray(batches, float), np.asarray(contexts, float))
        self._check("batches", b.min(), 1.0)
        self._check("contexts", c.min(), c.max())
        return _surface(t.batches, t.contexts, t.decode_s, b, c)

    def prefills(self, lengths: ArrayLike, cached: ArrayLike = 0) -> Floats:
        """Seconds of many steps at once, each with one chunk of a prompt."""
        t = self.tables
        n, seen = np.broadcast_arrays(np.asarray(lengths, float), np.asarray(cached, float))
        self._check("lengths", n.min(), (n + seen).max())
        attention = _surface(t.tokens, t.before, t.attention_s, n, seen) / t.groups
        floor = t.overhead.floor(n / t.groups, 0.0)
        return np.maximum(floor, _lines(t.tokens, t.linear_s, n / t.groups) + attention)

    def _check(self, name: str, least: float, most: float) -> None:
        if least < 1 or most > self.longest:
            wrong = least if least < 1 else most
            raise InputError(
                f"{name}: {wrong:g} tokens; the table holds requests of 1 to {self.longest:,.0f}."
            )


def _sum(lengths: ArrayLike) -> float:
    return lengths if isinstance(lengths, (int, float)) else float(np.sum(lengths))


def tables(setup: Setup, *, longest: int | None = None, most: int | None = None) -> Tables:
    """The tables of one layout.

    Args:
        setup: The layout.
        longest: Tokens of the longest request; None: the model's context, at most 131,072.
        most: Most requests in flight of a replica; None: 4,096.
    """
    stages, groups = setup.stages, setup.sharding.attention_data
    limit = min(setup.spec.max_context or _LONGEST, _LONGEST)
    longest = max(2, limit if longest is None else longest)
    micro = _grid(max(1, (most or _MOST) // (stages * groups)), _FINE)
    contexts = _grid(longest, _COARSE, first=1)
    decoded = _decoded(setup, micro, contexts)
    tokens = _grid(max(16, min(setup.engine.step_tokens, longest)), _FINE)
    before = np.concatenate([[0], _grid(longest, _COARSE, first=64)])
    attention = _attention(setup, tokens, before)
    whole = setup.stage(prefill(1, "seq"), {"seq": _ints(tokens)}).expected
    return Tables(
        batches=micro * stages * groups,
        contexts=contexts,
        decode_s=decoded,
        tokens=tokens,
        linear_s=np.maximum(whole - attention[:, 0], 0.0),
        before=before,
        attention_s=attention,
        overhead=setup.overhead,
        groups=groups,
    )


def _decoded(setup: Setup, micro: Floats, contexts: Floats) -> Floats:
    """Seconds of decode steps; [requests of a microbatch on one device, context]."""
    rows = decode_times(setup, "context", _ints(micro), contexts=_ints(contexts))
    return rows.expected.reshape(len(micro), len(contexts))


def _attention(setup: Setup, tokens: Floats, before: Floats) -> Floats:
    """Seconds of the attention of chunks; [new tokens, tokens before them]."""
    step = prefill(1, "seq", "cached")
    workload = setup.workload(symbolic(step, {"seq": _ints(tokens), "cached": _ints(before)}))
    ops = tuple(op for op in workload.ops if op.kind == "attention")
    if not ops:
        return np.zeros((len(tokens), len(before)))
    own = msgspec.structs.replace(workload, ops=ops)
    found: Times = setup.swept(own, {"seq": _ints(tokens), "cached": _ints(before)})
    return found.expected.reshape(len(tokens), len(before))


def _grid(most: int, per_octave: int, first: int = 1) -> Floats:
    """Whole numbers from ``first`` to ``most``, evenly by their logarithm; two at least."""
    most = max(most, first + 1)
    count = int(np.ceil(np.log2(most / first) * per_octave)) + 1
    return np.unique(np.rint(np.geomspace(first, most, max(count, 2))))


def _ints(values: Floats) -> Sequence[int]:
    return [int(v) for v in values]


def _place(axis: list[float], at: float) -> tuple[int, float]:
    """The interval of an axis and the share of it; beyond the ends the last interval goes on."""
    i = bisect(axis, at, 0, len(axis) - 1) - 1
    if i < 0:
        i = 0
    return i, (at - axis[i]) / (axis[i + 1] - axis[i])


def _pairs(lengths: ArrayLike, cached: ArrayLike) -> tuple[list[float], list[float]]:
    """New tokens and those before them, of each chunk."""
    new = list(map(float, np.atleast_1d(lengths)))
    if isinstance(cached, (int, float)):
        return new, [float(cached)] * len(new)
    seen = list(map(float, np.atleast_1d(cached)))
    if len(new) == 1:
        new *= len(seen)
    if len(seen) != len(new):
        raise InputError(f"cached: {len(seen)} of them for {len(new)} lengths; give one each.")
    return new, seen


def _bilinear(
    first: list[float], second: list[float], table: list[list[float]], a: float, b: float
) -> float:
    """The value of a table at a place between its points; [first, second]."""
    i, u = _place(first, a)
    j, v = _place(second, b)
    low, high = table[i], table[i + 1]
    left = low[j] + v * (low[j + 1] - low[j])
    return max(0.0, left + u * (high[j] + v * (high[j + 1] - high[j]) - left))


def _cells(axis: Floats, at: Floats) -> tuple[Any, Floats]:
    i = np.clip(np.searchsorted(axis, at) - 1, 0, len(axis) - 2)
    return i, (at - axis[i]) / (axis[i + 1] - axis[i])


def _lines(axis: Floats, values: Floats, at: Floats) -> Floats:
    i, w = _cells(axis, at)
    found: Floats = np.maximum(0.0, values[i] + w * (values[i + 1] - values[i]))
    return found


def _surface(first: Floats, second: Floats, table: Floats, a: Floats, b: Floats) -> Floats:
    (i, u), (j, v) = _cells(first, a), _cells(second, b)
    low = table[i, j] + v * (table[i, j + 1] - table[i, j])
    high = table[i + 1, j] + v * (table[i + 1, j + 1] - table[i + 1, j])
    found: Floats = np.maximum(0.0, low + u * (high - low))
    return found
