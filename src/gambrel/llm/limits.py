"""Up to which number of positions a model runs the same ops: windows, chunks, chosen positions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby

from gambrel.llm.mixers import Attention, LatentAttention, Mixer
from gambrel.llm.spec import ModelSpec, mixers_of


def limits_of(spec: ModelSpec) -> tuple[int, ...]:
    """Numbers of positions; between two of them ops are polynomials, but for those in chunks."""
    found = {_limit_of(mixer) for group in spec.layers for mixer in mixers_of(group.layer)}
    return tuple(sorted(limit for limit in found if limit is not None))


def of_same_ops(spec: ModelSpec, positions: Iterable[int]) -> list[list[int]]:
    """Numbers of positions in their order, cut where a model runs other ops for the next one."""
    limits = limits_of(spec)
    groups = groupby(positions, lambda number: bisect_left(limits, number))
    return [list(each) for _, each in groups]


def is_in_chunks(spec: ModelSpec) -> bool:
    """Whether ops are no polynomials in the number of positions, however narrow its range."""
    mixers = (mixer for group in spec.layers for mixer in mixers_of(group.layer))
    return any(isinstance(mixer, Attention) and mixer.chunk is not None for mixer in mixers)


def _limit_of(mixer: Mixer) -> int | None:
    if isinstance(mixer, Attention):
        return mixer.reach
    return mixer.chosen if isinstance(mixer, LatentAttention) else None
