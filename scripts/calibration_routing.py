"""Which rows each expert had when expert blocks were measured.

The collector of ai-dynamo/aiconfigurator (Apache-2.0) states how it routes: *balanced* walks the
experts with a stride; *power law* draws the load of each expert from a truncated power law, rounds
to whole rows, corrects the sum, and times the device with the highest load, averaging over several
draws. This module repeats the second as an expectation over draws, so that the fit knows the load
of a row of measurements as the clock saw it, and needs no constants for it.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np

#: Heights of tiles that `expert_forms` asks for.
HEIGHTS = (16, 32, 64, 128)
_DRAWS = 8


def routed(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns of the busiest device: rows, touched experts, tokens that come, tiles by height."""
    names = ("num_tokens", "num_experts", "topk", "moe_ep_size", "distribution", "framework")
    found = np.array([_load(*row) for row in zip(*(columns[n] for n in names), strict=True)])
    keys = ("rows", "touched", "arriving", *(f"tiles_{h}" for h in HEIGHTS))
    return {key: found[:, i] for i, key in enumerate(keys)}


@cache
def _load(
    tokens: float, experts: float, top_k: float, devices: float, distribution: str, framework: str
) -> Any:
    t, e, k, d = int(tokens), int(experts), int(top_k), int(devices)
    if distribution == "balanced":
        chosen, held = _balanced(t, e, k), e // d
        count = np.bincount(chosen.ravel(), minlength=e)[:held]
        return _summary(count, (chosen < held).any(1).sum())
    exponent = float(distribution.rpartition("_")[2])
    # Collected before version 0.15, rows that rounding left over went to the first idle experts.
    together = framework == "vllm/0.14.0"
    random = np.random.default_rng(zlib.crc32(f"{t} {e} {k} {d} {distribution}".encode()))
    draws = []
    for _ in range(_DRAWS):
        count = _power_law(random, t, e, k, 1 if together else d, exponent).reshape(d, -1)
        busiest = count[count.sum(1).argmax()]
        apart = t * (1 - np.prod(1 - np.minimum(busiest / t, 1)))
        draws.append(_summary(busiest, max(apart, busiest.max())))
    return np.mean(draws, axis=0)


def _summary(count: Any, arriving: float) -> list[float]:
    tiles = [float(np.ceil(count / height).sum()) for height in HEIGHTS]
    return [float(count.sum()), float((count > 0).sum()), float(arriving), *tiles]


def _balanced(tokens: int, experts: int, top_k: int) -> Any:
    """The experts of each token: steps of equal length from one that moves with the token."""
    stride = -(-experts // top_k)
    first = np.arange(tokens)[:, None] * (max(stride, tokens) / tokens)
    return np.floor(first + stride * np.arange(top_k)).astype(int) % experts


def _power_law(
    random: Any, tokens: int, experts: int, top_k: int, groups: int, exponent: float
) -> Any:
    """Rows of each expert: whole numbers, at most one a token, of the right sum."""
    rows = tokens * top_k
    low, high = (1.0, 0.8 * tokens) if rows > experts else (0.01, 2.0)
    p = 1 - exponent
    drawn = ((high**p - low**p) * random.random(experts) + low**p) ** (1 / p)
    count = np.minimum(np.rint(drawn / drawn.sum() * rows).astype(int), tokens)
    missing = rows - int(count.sum())
    parts = np.split(count, groups)
    # Left over rows go to the groups in turn: given to the idlest expert, or taken off the busiest.
    parts = np.split(count, groups)
    for i, part in enumerate(parts):
        share = abs(missing) // groups + (i < abs(missing) % groups)
        if missing > 0:
            _fill(part, share)
        else:
            for _ in range(share):
                part[part.argmax()] -= 1
    return np.concatenate(parts)


def _fill(part: Any, amount: int) -> None:
    """Adds ``amount`` rows, each to the expert with the fewest, as water fills a bed."""
    order = np.argsort(part, kind="stable")
    level, below = part[order], np.cumsum(part[order])
    wet = 1 + int(np.searchsorted(level[1:] * np.arange(1, len(part)) - below[:-1], amount))
    base, rest = divmod(int(below[wet - 1]) + amount, wet)
    part[order[:wet]] = base + (np.arange(wet) < rest)
