"""Fits the constants of chips that stream frames (Hailo), from the vendor's rates.

Called by fit_npu.py; see `gambrel.analysis.estimate.stream` for the form.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import msgspec
import numpy as np

from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.stream import MANY, change_s, cut_share, for_frames, frame_s
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
#: Share of the measured times beyond either end of a range.
TAIL = 0.05
#: Chips that are a part of another: its fit starts at that part of the other's constants and is
#: held there, as its own rows, of which many are of networks that are cut, leave too much open.
#: By its own rows alone the Hailo-8L is 50 % off at batch 1 and 31 % at batch 8, on models that
#: were left out of both chips; so it is 38 % and 29 %.
PARTS = {"hailo-8l": ("hailo-8", 0.5)}
_HELD = np.full(12, 1.0)
#: Chips without rows, their part of another as quoted, and what the reader is told.
UNMEASURED = {
    "hailo-15l": (
        "hailo-15h",
        0.35,
        "nothing was measured on this chip: 0.35 of Hailo-15H's rates and on-chip memory, as third "
        "parties quote 6 to 7 TOPS beside its 20; the range is what such a step from Hailo-8 to "
        "Hailo-8L misses",
    )
}
_OF_COMPUTE = (
    "window_per_s", "point_per_s", "depthwise_per_s", "norm_per_s", "output_per_s",
    "held_weights", "held_activations", "switch_per_s",
)  # fmt: skip


def fit_streams(rows: Sequence[Row]) -> tuple[StreamConstants, ...]:
    """One set per chip."""
    groups = by_device(rows)
    fitted = {
        d: _finished(_fit_of(d, groups), left_out(d, groups), own) for d, own in groups.items()
    }
    carried = [
        (r, r.seconds / predicted(part_of(fitted[known], device, share), r))
        for device, (known, share) in PARTS.items()
        for r in groups[device]
    ]
    ends = _ends(*zip(*carried, strict=True))
    unmeasured = (
        msgspec.structs.replace(
            part_of(fitted[known], device, share),
            rows=0, models=0, note=note, held_out=None, **ends,
        )
        for device, (known, share, note) in UNMEASURED.items()
    )  # fmt: skip
    return (*fitted.values(), *unmeasured)


def by_device(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of each chip."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.device].append(row)
    return groups


def part_of(c: StreamConstants, device: str, share: float) -> StreamConstants:
    """Constants of a chip that has a share of another's units, memory and loading."""
    changed = {name: float(f"{getattr(c, name) * share:.4g}") for name in _OF_COMPUTE}
    return msgspec.structs.replace(c, device=device, **changed)


def left_out(device: str, groups: dict[str, list[Row]]) -> list[float]:
    """Measured over predicted, by constants from the other models, of the chip and its whole."""
    ratios, rows = {}, groups[device]
    for model in sorted({r.model for r in rows}):
        others = {d: [r for r in own if r.model != model] for d, own in groups.items()}
        constants = _fit_of(device, others)
        ratios.update(
            {i: r.seconds / predicted(constants, r) for i, r in enumerate(rows) if r.model == model}
        )
    return [ratios[i] for i in range(len(rows))]


def _fit_of(device: str, groups: dict[str, list[Row]]) -> StreamConstants:
    if device not in PARTS:
        return _fit(_start(device), groups[device], _PULL)
    known, share = PARTS[device]
    whole = _fit_of(known, groups)
    return _fit(part_of(whole, device, share), groups[device], _HELD)


def predicted(c: StreamConstants, row: Row) -> float:
    """Seconds of a batch."""
    return of_work(c, stream_work_of(row))


def of_work(c: StreamConstants, work: StreamWork) -> float:
    """The same from its work."""
    return frame_s(c, work) + cut_share(c, work) * change_s(c, work)


def _fit(start: StreamConstants, rows: Sequence[Row], pull: Any) -> StreamConstants:
    measured = np.log([r.seconds for r in rows])
    works = [stream_work_of(r) for r in rows]

    def residuals(x: Any) -> Any:
        c = _scaled(start, x)
        return np.log([of_work(c, w) for w in works]) - measured

    return _scaled(start, minimized(residuals, len(_FREE), pull))


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
        low_few=1.0,
        high_few=1.0,
    )


def _finished(c: StreamConstants, ratios: Sequence[float], rows: Sequence[Row]) -> StreamConstants:
    c = msgspec.structs.replace(c, **_ends(rows, ratios))
    errors = [abs(1 / r - 1) for r in ratios]
    held = HeldOut(
        points=len(rows),
        mape=round(statistics.fmean(errors), 4),
        median=round(statistics.median(errors), 4),
        inside=round(statistics.fmean(map(_inside, repeat(c), rows, ratios)), 4),
        width=round(c.high / c.low, 3),
        by_framework={
            f"batch {b}": round(
                statistics.fmean(e for e, r in zip(errors, rows, strict=True) if r.batch == b), 4
            )
            for b in sorted({r.batch for r in rows})
        },
    )
    numbers = {name: float(f"{getattr(c, name):.4g}") for name in _FREE}
    models = len({r.model for r in rows})
    return msgspec.structs.replace(c, **numbers, rows=len(rows), models=models, held_out=held)


def _inside(c: StreamConstants, row: Row, ratio: float) -> bool:
    ends = for_frames(c, row.batch)
    return ends.low <= ratio <= ends.high


def tails(ratios: Sequence[float]) -> tuple[float, float]:
    """The ends beyond which a share `TAIL` of many rows lies on each side.

    They are rows themselves, so that the share inside is not less for their number. Of few rows the
    outermost would be an end; there they are interpolated.
    """
    lower, higher = ("lower", "higher") if len(ratios) * TAIL >= 1 else ("linear", "linear")
    return (
        float(np.quantile(ratios, TAIL, method=lower)),
        float(np.quantile(ratios, 1 - TAIL, method=higher)),
    )


def _ends(rows: Sequence[Row], ratios: Sequence[float]) -> dict[str, float]:
    """The ranges of a chip, by frames in flight."""
    found = {}
    for many, suffix in ((True, ""), (False, "_few")):
        own = [x for r, x in zip(rows, ratios, strict=True) if (r.batch >= MANY) == many]
        low, high = tails(own)
        found |= {f"low{suffix}": round(low, 3), f"high{suffix}": round(high, 3)}
    return found


def line(c: StreamConstants) -> str:
    """One line per set."""
    h = c.held_out
    if h is None:
        return (
            f"{c.runtime:12} {c.device:26} {c.low}..{c.high} ({c.low_few}..{c.high_few}) | {c.note}"
        )
    each = " ".join(f"{k} {v:.1%}" for k, v in h.by_framework.items())
    return (
        f"{c.runtime:12} {c.device:26} n={h.points:3} models={c.models:3} MAPE {h.mape:.1%} "
        f"median {h.median:.1%} inside {h.inside:.0%} {c.low}..{c.high} "
        f"({c.low_few}..{c.high_few}) | {each}"
    )
