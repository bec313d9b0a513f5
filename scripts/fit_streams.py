"""Fits the constants of chips that stream frames (Hailo), from the vendor's rates.

Called by fit_npu.py; see `gambrel.analysis.estimate.stream` for the form.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.stream import change_s, cut_share, frame_s
from gambrel.analysis.estimate.stream_work import StreamWork
from gambrel.analysis.estimate.tiled_constants import StreamConstants
from gambrel.analysis.estimate.tiled_fit import minimized
from npu_rows import Row, stream_work_of

#: Where fits start: a chip without memory of its own, and those with DRAM.
STARTS = {"hailo-8": (28e6, 2e9, 4e9), "hailo-8l": (14e6, 1e9, 4e9)}
OTHERS = (14e6, 0.3e9, 10e9)
_FREE = (
    "window_per_s", "point_per_s", "depthwise_per_s", "norm_per_s", "output_per_s", "frame_s",
    "switch_per_s", "norm_s", "move_s", "layer_s", "held_weights", "held_activations",
)  # fmt: skip
#: What a chip holds shows only in which networks are cut.
_PULL = np.array([0.05] * 10 + [0.2, 0.2])
TAIL = 0.05


def fit_streams(rows: Sequence[Row]) -> tuple[StreamConstants, ...]:
    """One set per chip."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.device].append(row)
    return tuple(_finished(_start(device), own) for device, own in groups.items())


def left_out(start: StreamConstants, rows: Sequence[Row]) -> list[float]:
    """Measured over predicted, by constants from the other models."""
    ratios = {}
    for model in sorted({r.model for r in rows}):
        constants = _fit(start, [r for r in rows if r.model != model])
        ratios.update(
            {i: r.seconds / predicted(constants, r) for i, r in enumerate(rows) if r.model == model}
        )
    return [ratios[i] for i in range(len(rows))]


def predicted(c: StreamConstants, row: Row) -> float:
    """Seconds of a batch."""
    return of_work(c, stream_work_of(row))


def of_work(c: StreamConstants, work: StreamWork) -> float:
    """The same from its work."""
    return frame_s(c, work) + cut_share(c, work) * change_s(c, work)


def _fit(start: StreamConstants, rows: Sequence[Row]) -> StreamConstants:
    measured = np.log([r.seconds for r in rows])
    works = [stream_work_of(r) for r in rows]

    def residuals(x: Any) -> Any:
        c = _scaled(start, x)
        return np.log([of_work(c, w) for w in works]) - measured

    return _scaled(start, minimized(residuals, len(_FREE), _PULL))


def _scaled(start: StreamConstants, x: Any) -> StreamConstants:
    factors = dict(zip(_FREE, np.exp(x), strict=True))
    changed = {name: float(getattr(start, name) * f) for name, f in factors.items()}
    return msgspec.structs.replace(start, **changed)


def _start(device: str) -> StreamConstants:
    weights, activations, switch = STARTS.get(device, OTHERS)
    return StreamConstants(
        runtime="hailort",
        device=device,
        window_per_s=5.5e12,
        point_per_s=3.5e12,
        depthwise_per_s=8.5e10,
        norm_per_s=2e9,
        output_per_s=2e10,
        frame_s=1e-4,
        held_weights=weights,
        held_activations=activations,
        switch_per_s=switch,
        norm_s=1e-4,
        move_s=2e-4,
        layer_s=3e-5,
        rows=0,
        models=0,
        low=1.0,
        high=1.0,
    )


def _finished(start: StreamConstants, rows: Sequence[Row]) -> StreamConstants:
    c = _fit(start, rows)
    ratios = left_out(c, rows)
    low, high = (float(q) for q in np.quantile(ratios, [TAIL, 1 - TAIL]))
    errors = [abs(1 / r - 1) for r in ratios]
    held = HeldOut(
        points=len(rows),
        mape=round(statistics.fmean(errors), 4),
        median=round(statistics.median(errors), 4),
        inside=round(sum(low <= r <= high for r in ratios) / len(ratios), 4),
        width=round(high / low, 3),
        by_framework={
            f"batch {b}": round(
                statistics.fmean(e for e, r in zip(errors, rows, strict=True) if r.batch == b), 4
            )
            for b in sorted({r.batch for r in rows})
        },
    )
    numbers = {name: float(f"{getattr(c, name):.4g}") for name in _FREE}
    return msgspec.structs.replace(
        c,
        **numbers,
        rows=len(rows),
        models=len({r.model for r in rows}),
        low=round(low, 3),
        high=round(high, 3),
        held_out=held,
    )


def line(c: StreamConstants) -> str:
    """One line per set."""
    h = c.held_out
    assert h is not None
    each = " ".join(f"{k} {v:.1%}" for k, v in h.by_framework.items())
    return (
        f"{c.runtime:12} {c.device:26} n={h.points:3} models={c.models:3} MAPE {h.mape:.1%} "
        f"median {h.median:.1%} inside {h.inside:.0%} {c.low}..{c.high} | {each}"
    )
