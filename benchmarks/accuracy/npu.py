"""Whole models on NPUs: each model predicted without its rows, each chip from few or none.

Rows of vendors, authors of networks and owners of chips; scripts/npu_rows.py says what is left out.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from benchmarks.accuracy import Run, Score

import fit_npu
import fit_streams
import rknn_boards
from gambrel.analysis.estimate.constants import Calibration, packaged
from gambrel.analysis.estimate.tiled import from_datasheet, suited
from gambrel.analysis.estimate.tiled_constants import StreamConstants, TiledConstants
from gambrel.analysis.estimate.tiled_fit import MeasuredRuns, fit, pull_of, scales_of
from gambrel.analysis.estimate.user_models import start_of_chip
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, answered
from gambrel.device.catalog import load as load_device
from npu_rows import (
    AXERA_CARDS,
    COREML_MACS,
    COREML_UNSEEN,
    HEXAGON,
    INTEL_CALLS,
    INTEL_UNSEEN,
    QAIC_UNSEEN,
    QUALCOMM,
    QUALCOMM_2024,
    QUALCOMM_NETWORKS,
    QUALCOMM_UNSEEN,
    RUNTIMES,
    STM32N6_OUTSIDE,
    STM32N6_UNSEEN,
    Row,
    bench,
    rows,
    streamed,
    timed,
)

#: One, and four small models that a user can measure in minutes.
ANCHORS = {
    "one model measured": ("resnet50",),
    "four models measured": (
        "resnet50",
        "real-esrgan-general",
        "mnasnet-0.5",
        "convnext-tiny",
    ),
}
_DETECTORS = {
    QUALCOMM_UNSEEN: "detectors of other releases and formats",
    QUALCOMM_2024: "a release of 2024",
    QUALCOMM_NETWORKS: "other networks, half of them with attention",
}
#: Of networks with attention the upper end of the range comes from these rows too.
_RANGES = "windows of Swin-T and SAM 2 fitted, and the range of networks with attention"
#: A chip whose constants lie between those of its neighbours.
BETWEEN = "snapdragon-8-elite"
#: What is scored but not fitted, and what it is.
UNSEEN = {
    **{(name, device): _DETECTORS for name in HEXAGON for device in QUALCOMM.values()},
    ("axera", "ax650n"): {AXERA_CARDS: "an AX8850 on a card"},
    ("coreml", "apple-a15"): {COREML_UNSEEN: "iPhone 13 in the paper of MobileNetV4"},
    ("openvino-npu", "intel-npu-meteor-lake"): {
        INTEL_UNSEEN: "a release of 2024",
        INTEL_CALLS: "calls from Python",
    },
    ("openvino-npu", "intel-npu-lunar-lake"): {INTEL_UNSEEN: "calls after a pause"},
    ("st-neural-art", "stm32n6"): {
        STM32N6_UNSEEN: "release 2.0",
        STM32N6_OUTSIDE: "activations outside the chip",
    },
}
#: Boards with cores of one kind, and their clocks in MHz.
B4096 = {"zcu102": 281, "zcu104": 300, "kv260": 300}
TARGETS = {"qnn": "15 %", "rknn": "15 %", "axera": "15 %"}


def score(folder: Path) -> Iterable[Score]:
    """Every chip by its own rows, then chips that are taken as new."""
    tasks = fit_npu.tasks(rows(folder))
    fitted = dict(zip(tasks, fit_npu.fit_all(tasks), strict=True))
    for task, constants in fitted.items():
        yield _own(constants, task)
        yield from _others(constants, UNSEEN.get((task.runtime, constants.device), {}))
    for c in packaged().tiled:
        if c.device == BETWEEN:
            yield from _others(c, _DETECTORS)
        if c.runtime == "coreml":
            yield from _others(c, {COREML_MACS: "Macs"})
        if c.runtime == "qaic":
            yield from _others(c, {QAIC_UNSEEN: "the card of four chips"})
    yield _boards()
    yield _new_boards(tasks, fitted)
    yield from _streams(folder)
    for what in ("datasheet", *ANCHORS):
        yield from _new(what, fitted)


def _own(c: TiledConstants, task: fit_npu.Task) -> Score:
    return Score(
        what=f"{c.runtime} {c.device}",
        runs=[
            _run(r, r.seconds / ratio, c) for r, ratio in zip(task.rows, task.ratios(), strict=True)
        ],
        held_out="leave one model out",
        family=f"whole models by {c.runtime}" + (", few models of the chip" if task.few else ""),
        target=TARGETS.get(c.runtime, ""),
    )


def _others(c: TiledConstants, families: Mapping[Path, str]) -> Iterable[Score]:
    """Figures that nothing was fitted to, of networks that others timed too."""
    for path, family in families.items():
        used = [r for r in timed(c.runtime, path) if r.device == c.device]
        if not used:
            continue
        expected = MeasuredRuns([r.measured for r in used]).predicted(c)
        yield Score(
            what=f"{c.runtime} {c.device}, elsewhere",
            runs=[_run(r, float(t), c) for r, t in zip(used, expected, strict=True)],
            held_out=_RANGES if path == QUALCOMM_NETWORKS else "no row fitted",
            family=f"whole models by {c.runtime}, {family}",
        )


def _boards() -> Score:
    """Calls on boards with a Rockchip NPU, by the packaged constants."""
    known = {c.device: c for c in packaged().tiled if c.runtime == rknn_boards.RUNTIME}
    used = rknn_boards.rows("int8")
    ratios = rknn_boards.ratios([*known.values()], "int8")
    times = [r.seconds / x for r, x in zip(used, ratios, strict=True)]
    return Score(
        what="rknn, calls on boards",
        runs=[_run(r, t, known[r.device]) for r, t in zip(used, times, strict=True)],
        held_out="no row fitted",
        family="whole models by rknn, calls on boards, int8",
    )


def _new_boards(
    tasks: Sequence[fit_npu.Task], fitted: Mapping[fit_npu.Task, TiledConstants]
) -> Score:
    """Boards with a B4096, each by the constants of the others at its own clock.

    What they share of the memory's bandwidth is that of the other one with several cores.
    """
    boards = {fitted[t].device: t for t in tasks if fitted[t].device in B4096}
    runs = []
    for device, task in boards.items():
        others = [fitted[t] for d, t in boards.items() if d != device]
        c = _between(others, fitted[task])
        times = task.runs.predicted(c)
        runs += [_run(r, float(t), c) for r, t in zip(task.rows, times, strict=True)]
    return Score(
        what="dpu, each board by the others",
        runs=runs,
        held_out="leave one board out",
        family="whole models by dpu, a new board with a B4096",
    )


def _between(others: Sequence[TiledConstants], own: TiledConstants) -> TiledConstants:
    """Geometric means of two boards' constants, multiplications by the clock."""
    clock = B4096[own.device]

    def mean(values: Iterable[float]) -> float:
        return statistics.geometric_mean(values)

    several = [c.flight.bandwidth for c in others if c.flight.calls > 1]
    shared = mean(several) if own.flight.calls > 1 else 1.0
    return msgspec.structs.replace(
        others[0],
        start_s={"int8": mean(c.start_s["int8"] for c in others)},
        handed_per_s=mean(c.handed_per_s for c in others),
        macs_per_s={"int8": mean(c.macs_per_s["int8"] / B4096[c.device] for c in others) * clock},
        vector_per_s=mean(c.vector_per_s / B4096[c.device] for c in others) * clock,
        activation_byte_per_s=mean(c.activation_byte_per_s for c in others),
        ahead_byte_per_s=mean(c.ahead_byte_per_s for c in others),
        flight=msgspec.structs.replace(own.flight, bandwidth=shared),
        low=min(c.low for c in others),
        high=max(c.high for c in others),
    )


def _streams(folder: Path) -> Iterable[Score]:
    found = streamed(folder)
    groups = fit_streams.by_device(found)
    for c in fit_streams.fit_streams(found):
        own = groups.get(c.device)
        if own is None:
            continue
        without = fit_streams.fits_without(c.device, groups)
        for batch in (1, 8):
            yield Score(
                what=f"hailort {c.device}, batch {batch}",
                runs=[_streamed(r, c, without[r.model]) for r in own if r.batch == batch],
                held_out="leave one model out",
                family=f"whole models by hailort, batch {batch}",
                target="25 %" if batch == 8 else "",
            )


def _streamed(row: Row, c: StreamConstants, without: StreamConstants) -> Run:
    low, high = fit_streams.range_of(c, without, row)
    return replace(_run(row, fit_streams.predicted(without, row), c), low=low, high=high)


def _new(what: str, fitted: dict[fit_npu.Task, TiledConstants]) -> Iterable[Score]:
    """Qualcomm's chips, each by constants of the others."""
    for task, known in fitted.items():
        runtime, device = known.runtime, known.device
        if runtime != "qnn" or "fp16" not in known.macs_per_s:
            continue
        others = tuple(c for c in fitted.values() if c.runtime == runtime and c.device != device)
        start = _start(what, device, others)
        used = task.rows
        anchors = ANCHORS.get(what, ())
        if start is None:
            continue
        if anchors:
            near = MeasuredRuns([r.measured for r in used if r.model in anchors])
            count = len(anchors)
            scales = scales_of(start, count, near.formats)
            start = fit(start, near, scales, pull_of(count))
        rest = [r for r in used if r.model not in anchors]
        expected = MeasuredRuns([r.measured for r in rest]).predicted(start)
        yield Score(
            what=f"{runtime} {device}, {what}",
            runs=[_run(r, float(t), start) for r, t in zip(rest, expected, strict=True)],
            held_out="leave one chip out",
            family=f"a new Qualcomm chip, {what if anchors else 'from its datasheet'}",
            target={"datasheet": "40 %", "one model measured": "25 %"}.get(what, "18 %"),
        )


def _start(what: str, device: str, others: tuple[TiledConstants, ...]) -> TiledConstants | None:
    classes = fit_npu.classes_of(others)
    if what == "datasheet":
        found = [from_datasheet(load_device(device), c) for c in classes]
        return next((c for c in found if c is not None), None)
    base = Calibration(source={}, kin=(), sets=(), tiled=others, tiled_classes=classes)
    start = start_of_chip(load_device(device), ("qnn",), base)
    return start and msgspec.structs.replace(start, low=0.6, high=2.2)


def _run(row: Row, expected: float, c: TiledConstants | StreamConstants) -> Run:
    sol, roofline = _limits(row)
    if isinstance(c, TiledConstants):
        c, _ = suited(c, row.measured.run)
    call_s = c.call_s if isinstance(c, TiledConstants) else 0.0
    return Run(
        name=f"{row.model} {row.precision} batch {row.batch}",
        measured=row.seconds,
        expected=expected,
        low=expected * c.low,
        high=expected * c.high + call_s,
        roofline=roofline,
        sol=sol,
    )


@cache
def _limits(row: Row) -> tuple[float | None, float | None]:
    """Speed of light and roofline time of a row."""
    name = RUNTIMES.get(row.runtime, row.runtime)
    settings = Settings(precision=row.precision, runtime=name)
    found = answered(
        bench(row.model, row.sizes), Machine(load_device(row.device), settings), settings
    )
    return found.sol_time_s, found.held.time_s
