"""What boards with a Rockchip NPU take: how far ranges reach, and networks in fp16.

Rows are those of benchmarks/data/rknn. Rockchip's table, which the constants are fitted to, leaves
out copies of inputs and outputs, ops on the processor and clocks below the highest; boards differ
tenfold in the first alone. So the range reaches the boards' rows. Of fp16 a single rate is fitted.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fit_streams import outward, tails
from gambrel.analysis.estimate.tiled_constants import TiledConstants
from gambrel.analysis.estimate.tiled_fit import MeasuredRuns, fit
from npu_rows import Row

BOARDS: Final = Path(__file__).parents[1] / "benchmarks/data/rknn/boards.csv"
RUNTIME: Final = "rknn"
#: The chip of the rows in fp16; before the fit that rate is so much of the one in int8.
CHIP: Final = "rk3588-npu"
HALF: Final = 0.25
PULL: Final = 0.05


def rows(precision: str) -> list[Row]:
    """Rows in a number format."""
    with BOARDS.open(newline="", encoding="utf-8") as file:
        return [
            Row(
                runtime=RUNTIME, device=r["device"], model=r["model"], sizes=(),
                precision=precision, seconds=float(r["ms"]) / 1e3,
            )
            for r in csv.DictReader(file)
            if r["precision"] == precision
        ]  # fmt: skip


def ratios(sets: Sequence[TiledConstants], precision: str) -> list[float]:
    """Measured over expected of every row."""
    known = {c.device: c for c in sets if c.runtime == RUNTIME}
    found = []
    for row in rows(precision):
        run = row.measured
        assert run is not None
        found.append(row.seconds / float(MeasuredRuns([run]).predicted(known[row.device])[0]))
    return found


def with_half(sets: Sequence[TiledConstants]) -> tuple[TiledConstants, ...]:
    """The same; the chip with rows in fp16 has its rate."""
    return tuple(_half(c, rows("fp16")) if _is_chip(c) else c for c in sets)


def reached(
    fitted: Sequence[TiledConstants], every: Sequence[TiledConstants]
) -> tuple[TiledConstants, ...]:
    """The fitted sets; ranges under the runtime hold nine rows of ten of boards, and all in fp16.

    Args:
        fitted: Chips with rows of their own.
        every: These, and chips with the cores of one of them.
    """
    whole = ratios(every, "fp16")
    low, high = min(whole), max(tails(ratios(every, "int8"))[1], *whole)
    return tuple(_wider(c, low if _is_chip(c) else 1.0, high) for c in fitted)


def _is_chip(c: TiledConstants) -> bool:
    return (c.runtime, c.device) == (RUNTIME, CHIP)


def _wider(c: TiledConstants, low: float, high: float) -> TiledConstants:
    if c.runtime != RUNTIME:
        return c
    low, high = outward(min(c.low, low), max(c.high, high))
    return msgspec.structs.replace(c, low=low, high=high)


def _half(c: TiledConstants, found: Sequence[Row]) -> TiledConstants:
    """One rate; vector work and bandwidths are those of int8."""
    start = msgspec.structs.replace(
        c,
        macs_per_s={**c.macs_per_s, "fp16": c.macs_per_s["int8"] * HALF},
        start_s={**c.start_s, "fp16": c.start_s["int8"]},
    )
    runs = MeasuredRuns([run for row in found if (run := row.measured) is not None])
    rate = fit(start, runs, (("fp16",),), [PULL]).macs_per_s["fp16"]
    return msgspec.structs.replace(start, macs_per_s={**c.macs_per_s, "fp16": float(f"{rate:.4g}")})
