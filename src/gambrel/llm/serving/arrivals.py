"""Requests over time: at random, in a burst, or with lengths that vary; see `trace` for files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Final

import msgspec
import numpy as np

from gambrel.errors import InputError
from gambrel.llm.serving.replica import Request

#: Random numbers drawn at once.
_BLOCK: Final = 4096


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """How long prompts and answers are.

    Attributes:
        input_tokens: Most tokens of a prompt.
        output_tokens: Most tokens of an answer.
        least: The shortest as a share of these; lengths are uniform between. 1: all alike.

    Raises:
        InputError: A share outside of 0 to 1.
    """

    input_tokens: int
    output_tokens: int
    least: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.least <= 1:
            raise InputError(f"shortest share={self.least!r}: a share above 0, at most 1.")

    def draw(self, count: int, seed: int) -> Iterator[tuple[int, int]]:
        """So many pairs of lengths, the same for the same seed."""
        if self.least == 1:
            yield from repeat((self.input_tokens, self.output_tokens), count)
            return
        rng, low = np.random.default_rng((seed, 1)), self.least
        for start in range(0, count, _BLOCK):
            n = min(_BLOCK, count - start)
            pairs = [
                rng.integers(max(1, round(low * most)), most + 1, n).tolist()
                for most in (self.input_tokens, self.output_tokens)
            ]
            yield from zip(*pairs, strict=True)


def poisson(lengths: Lengths, per_s: float, count: int, seed: int) -> Iterator[Request]:
    """Requests at random: gaps are exponential with the mean 1 / ``per_s``."""
    rng, now = np.random.default_rng((seed, 0)), 0.0
    pairs = lengths.draw(count, seed)
    for start in range(0, count, _BLOCK):
        for gap in rng.exponential(1 / per_s, min(_BLOCK, count - start)).tolist():
            now += gap
            yield (now, *next(pairs))


def burst(lengths: Lengths, count: int, seed: int) -> Iterator[Request]:
    """All requests at once."""
    for pair in lengths.draw(count, seed):
        yield (0.0, *pair)
