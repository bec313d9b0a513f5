"""Fits the constants of chips that stream frames (Hailo), from the vendor's rates.

Called by fit_npu.py; see `gambrel.analysis.estimate.stream` for the form. The rates themselves tell
which networks are cut: those that gain from a batch. What a chip holds is fitted to that alone;
then everything else to the rates, each network cut or not as it is.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
from scipy import optimize

from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.stream import (
    MANY,
    STEP,
    cut_s,
    ends_s,
    frame_s,
    load_of,
    run_s,
)
from gambrel.analysis.estimate.tiled_constants import StreamConstants
from gambrel.analysis.estimate.tiled_fit import minimized
from gambrel.device.catalog import load as load_device
from gambrel.device.roofs import resolve
from npu_rows import Row, called, stream_work_of

#: Where fits start: weights loaded over the link, or from the chip's own DRAM.
LINKED, OWN_DRAM = 4e9, 10e9
WITHOUT_DRAM = frozenset({"hailo-8", "hailo-8l"})
_FREE = (
    "window_per_s", "point_per_s", "depthwise_per_s", "norm_per_s", "output_per_s", "pool_per_s",
    "frame_s", "move_frame_s", "passed_per_s", "switch_per_s", "norm_s", "move_s", "layer_s",
)  # fmt: skip
#: Nothing is faster than the quoted peak.
_AT_MOST = ("window_per_s", "point_per_s", "depthwise_per_s")
#: Weight of a factor of e from the start.
_PULL = 0.05
#: What a chip holds starts at these, and how much a factor of e from them counts.
_WEIGHTS, _STAGES, _HOLDS = 20e6, 100.0, 0.4
#: A network whose rate grows by more than this with the batch is cut.
GAIN = 0.04
#: Share of the measured times beyond either end of a range.
TAIL = 0.05
#: Chips that are a part of another: its fit starts at that part of the other's constants.
PARTS = {"hailo-8l": ("hailo-8", 0.5)}
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
    "window_per_s", "point_per_s", "depthwise_per_s", "norm_per_s", "output_per_s", "pool_per_s",
    "held_weights", "held_stages", "passed_per_s", "switch_per_s",
)  # fmt: skip


def fit_streams(rows: Sequence[Row]) -> tuple[StreamConstants, ...]:
    """One set per chip."""
    groups = by_device(rows)
    fitted = {
        d: _finished(_fit_of(d, groups), fits_without(d, groups), own) for d, own in groups.items()
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
    return waited_for((*fitted.values(), *unmeasured))


def waited_for(sets: Sequence[StreamConstants]) -> tuple[StreamConstants, ...]:
    """The same; the range of one frame at a time reaches calls that wait for it.

    Vendors' rates have other frames in flight. A call has the chip's stages one after another, and
    the transfers of its input and outputs before and behind them.
    """
    known = {c.device: c for c in sets}
    longest = max(r.seconds / predicted(known[r.device], r) for r in called())
    ends = [(c, outward(c.low_few, max(c.high_few, longest))[1]) for c in sets]
    return tuple(msgspec.structs.replace(c, high_few=high) for c, high in ends)


def by_device(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of each chip."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.device].append(row)
    return groups


def part_of(c: StreamConstants, device: str, share: float) -> StreamConstants:
    """Constants of a chip that has a share of another's units, memory and loading."""
    found = {name: getattr(c, name) for name in _OF_COMPUTE}
    changed = {name: v and float(f"{v * share:.4g}") for name, v in found.items()}
    return msgspec.structs.replace(c, device=device, **changed)


def fits_without(device: str, groups: dict[str, list[Row]]) -> dict[str, StreamConstants]:
    """Model → constants from the other models, of the chip and its whole."""
    return {
        model: _fit_of(
            device, {d: [r for r in own if r.model != model] for d, own in groups.items()}
        )
        for model in sorted({r.model for r in groups[device]})
    }


def _fit_of(device: str, groups: dict[str, list[Row]]) -> StreamConstants:
    if device not in PARTS:
        return _fit(_start(device), groups[device])
    known, share = PARTS[device]
    whole = _fit_of(known, groups)
    return _fit(part_of(whole, device, share), groups[device])


def predicted(c: StreamConstants, row: Row) -> float:
    """Seconds of a batch."""
    return run_s(c, stream_work_of(row))


def cut_models(rows: Sequence[Row]) -> dict[str, bool]:
    """Model → whether its rate on a chip grows with the batch."""
    rates: dict[str, dict[bool, list[float]]] = defaultdict(lambda: defaultdict(list))
    for r in rows:
        rates[r.model][r.batch >= MANY].append(r.batch / r.seconds)
    both = {m: found for m, found in rates.items() if len(found) > 1}
    return {
        m: statistics.fmean(f[True]) > (1 + GAIN) * statistics.fmean(f[False])
        for m, f in both.items()
    }


def _fit(start: StreamConstants, rows: Sequence[Row]) -> StreamConstants:
    cut = cut_models(rows)
    rows = [r for r in rows if r.model in cut]
    start = _holding(start, rows, cut)
    measured = np.log([r.seconds for r in rows])
    works = [stream_work_of(r) for r in rows]
    forms = [cut_s if cut[r.model] else frame_s for r in rows]

    def residuals(x: Any) -> Any:
        c = _scaled(start, x)
        return np.log([form(c, w) for form, w in zip(forms, works, strict=True)]) - measured

    return _scaled(start, minimized(residuals, len(_free(start)), _PULL))


def _holding(start: StreamConstants, rows: Sequence[Row], cut: dict[str, bool]) -> StreamConstants:
    """What the chip holds: the likeliest by which networks are cut (logistic regression)."""
    works = {r.model: stream_work_of(r) for r in rows}
    signs = np.array([1 if cut[m] else -1 for m in works])

    def held(x: Any) -> StreamConstants:
        weights, stages = np.array([_WEIGHTS, _STAGES]) * np.exp(x)
        return msgspec.structs.replace(
            start, held_weights=float(weights), held_stages=float(stages)
        )

    def loss(x: Any) -> float:
        c = held(x)
        steps = (np.array([load_of(c, w) for w in works.values()]) - 1) / STEP
        return float(np.logaddexp(0, -signs * steps).sum() + _HOLDS * (x @ x) / 2)

    return held(optimize.minimize(loss, np.zeros(2), method="BFGS").x)


def _free(c: StreamConstants) -> tuple[str, ...]:
    """What a fit may change."""
    return tuple(name for name in _FREE if getattr(c, name) is not None)


def _scaled(start: StreamConstants, x: Any) -> StreamConstants:
    factors = dict(zip(_free(start), np.exp(x), strict=True))
    changed = {name: float(getattr(start, name) * f) for name, f in factors.items()}
    most = _peak(start.device)
    changed |= {name: min(changed[name], most) for name in _AT_MOST}
    return msgspec.structs.replace(start, **changed)


@cache
def _peak(device: str) -> float:
    """Multiply-adds per second that are quoted of a chip."""
    roof = resolve(load_device(device), "matrix", "int8")
    return roof.flop_per_s / 2 if roof else np.inf


def _start(device: str) -> StreamConstants:
    return StreamConstants(
        runtime="hailort",
        device=device,
        window_per_s=5.5e12,
        point_per_s=3.5e12,
        depthwise_per_s=8.5e10,
        norm_per_s=2e9,
        output_per_s=2e10,
        pool_per_s=2e9,
        frame_s=1e-4,
        held_weights=_WEIGHTS,
        held_stages=_STAGES,
        move_frame_s=1e-4,
        passed_per_s=None if device in WITHOUT_DRAM else 2e9,
        switch_per_s=LINKED if device in WITHOUT_DRAM else OWN_DRAM,
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


def _finished(
    c: StreamConstants, without: dict[str, StreamConstants], rows: Sequence[Row]
) -> StreamConstants:
    ratios = [r.seconds / predicted(without[r.model], r) for r in rows]
    c = msgspec.structs.replace(c, **_ends(rows, ratios))
    errors = [abs(1 / r - 1) for r in ratios]
    held = HeldOut(
        points=len(rows),
        mape=round(statistics.fmean(errors), 4),
        median=round(statistics.median(errors), 4),
        inside=round(statistics.fmean(_inside(c, without[r.model], r) for r in rows), 4),
        by_framework={
            f"batch {b}": round(
                statistics.fmean(e for e, r in zip(errors, rows, strict=True) if r.batch == b), 4
            )
            for b in sorted({r.batch for r in rows})
        },
    )
    names = (*_free(c), "held_weights", "held_stages")
    numbers = {name: float(f"{getattr(c, name):.4g}") for name in names}
    models = len({r.model for r in rows})
    return msgspec.structs.replace(c, **numbers, rows=len(rows), models=models, held_out=held)


def range_of(c: StreamConstants, without: StreamConstants, row: Row) -> tuple[float, float]:
    """The range of a row's time by constants that did not see it, of the stored width."""
    ends = {name: getattr(c, name) for name in ("low", "high", "low_few", "high_few")}
    return ends_s(msgspec.structs.replace(without, **ends), stream_work_of(row))


def _inside(c: StreamConstants, without: StreamConstants, row: Row) -> bool:
    low, high = range_of(c, without, row)
    return low <= row.seconds <= high


def tails(ratios: Sequence[float]) -> tuple[float, float]:
    """The ends beyond which a share `TAIL` of many rows lies on each side.

    They are rows themselves, so that the share inside is not less for their number: of few rows the
    outermost, beyond which the next one lies in two cases of ``len(ratios) + 1``.
    """
    return (
        float(np.quantile(ratios, TAIL, method="lower")),
        float(np.quantile(ratios, 1 - TAIL, method="higher")),
    )


def outward(low: float, high: float) -> tuple[float, float]:
    """Ends with three decimals that leave out no row which is one."""
    return math.floor(low * 1e3) / 1e3, math.ceil(high * 1e3) / 1e3


def _ends(rows: Sequence[Row], ratios: Sequence[float]) -> dict[str, float]:
    """The ranges of a chip, by frames in flight."""
    found: dict[str, float] = {}
    for many, suffix in ((True, ""), (False, "_few")):
        own = [x for r, x in zip(rows, ratios, strict=True) if (r.batch >= MANY) == many]
        low, high = outward(*tails(own))
        found |= {f"low{suffix}": low, f"high{suffix}": high}
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
