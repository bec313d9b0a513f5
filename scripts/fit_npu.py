"""Fits the constants of whole runs on NPUs, and prints their errors on models that were left out.

    python scripts/fit_npu.py FOLDER [--write]

FOLDER holds ``truth/edge_*.csv``. A chip's constants come from its rows under a runtime; errors
and ranges from fits without one model after another (`gambrel.analysis.estimate.tiled_fit`). The
range of a chip holds 90 % of the errors of all chips under its runtime: the error belongs to the
model more than to the chip. ``--write`` replaces the sections of
src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import msgspec

import constants_file
import rknn_boards
from fit_streams import fit_streams, outward, tails
from fit_streams import line as stream_line
from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.tiled import BLOCKS
from gambrel.analysis.estimate.tiled_constants import StreamConstants, TiledClass, TiledConstants
from gambrel.analysis.estimate.tiled_fit import MeasuredRuns, Scale, fit, pull_of
from gambrel.device.catalog import load as load_device
from gambrel.device.roofs import main_memory, resolve
from gambrel.runtimes import runtime
from npu_classes import (
    ALONE,
    BESIDE,
    BRIEF_S,
    CALLED,
    CARRIED,
    CORES,
    EACH_START,
    EVERY,
    FEW,
    FLIGHTS,
    HALF_CLOCK,
    HANDED,
    HELD,
    NEAR,
    OUTSIDE,
    PROVEN,
    PULL,
    RATES,
    RATIOS,
    READ_OFF,
    SHARED,
    SLOW,
    SOFTMAX,
    STARTING,
    STARTS,
    TOLD,
    WIDER,
    YOUNG,
)
from npu_rows import (
    HEXAGON,
    QUALCOMM_NETWORKS,
    RUNTIMES,
    Row,
    rows,
    streamed,
    timed,
)
from npu_siblings import AT, borrowed

ROOT = Path(__file__).parents[1]
TARGET = constants_file.TARGET
_YOLO = "yolo"


def main() -> None:
    """Fits, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    fitted = rknn_boards.with_half(fit_all(tasks(rows(options.folder))))
    for c in fitted:
        print(line(c))
    streams = fit_streams(streamed(options.folder))
    for stream in streams:
        print(stream_line(stream))
    classes = classes_of(fitted)
    for one in classes:
        print(one)
    if options.write:
        fitted = rknn_boards.reached(fitted, (*fitted, *borrowed(fitted)))
        fitted = tuple(_at_any_clock(c) for c in fitted)
        write((*fitted, *borrowed(fitted)), classes, streams)


def _at_any_clock(c: TiledConstants) -> TiledConstants:
    """The range with the clock at which people run the chip."""
    return msgspec.structs.replace(c, high=max(c.high, HALF_CLOCK.get(c.device, 0.0)))


def _called(fitted: tuple[TiledConstants, ...]) -> tuple[TiledConstants, ...]:
    """Chips with the most that a call from a host added to a network's time.

    What is published of it is of one chip: others have the same driver under OpenVINO alone.
    """
    known = {(c.runtime, c.device): c for c in fitted}
    call_s: dict[tuple[str, str], float] = {}
    for name, path in CALLED.items():
        calls = [r for r in timed(name, path) if (r.runtime, r.device) in known]
        calls = [r for r in calls if dict(r.sizes).get("batch", 1) == 1]
        alone = [(r.seconds, _predicted(r, known)) for r in calls]
        most = max((took - t for took, t in alone if name == EVERY or t < BRIEF_S), default=0.0)
        same = known if name == EVERY else {(r.runtime, r.device) for r in calls}
        call_s |= {pair: float(f"{most:.2g}") for pair in same if pair[0] == name}
    return tuple(
        msgspec.structs.replace(c, call_s=call_s.get((c.runtime, c.device), 0.0)) for c in fitted
    )


def _predicted(row: Row, known: Mapping[tuple[str, str], TiledConstants]) -> float:
    run = row.measured
    assert run is not None
    return float(MeasuredRuns([run]).predicted(known[row.runtime, row.device])[0])


class Task:
    """A chip under a runtime: what its constants are fitted to, and where the fit starts.

    Args:
        rows: Measured, at least one.
        base: The chip under Qualcomm's own runtime, or its predecessor, whose constants the fit
            starts from; None: it starts from what is near enough for any chip of the class.
    """

    def __init__(self, rows: Sequence[Row], base: Task | None) -> None:
        pairs = [(row, run) for row in rows if (run := row.measured) is not None]
        self.rows = [row for row, _ in pairs]
        self.runs = MeasuredRuns([run for _, run in pairs])
        self._base = base
        self._fits: dict[str, TiledConstants] = {}

    @property
    def few(self) -> bool:
        """Whether it has too few models for a fit of its own."""
        return len(self.runs.models) < FEW and self.runtime not in SHARED

    @property
    def runtime(self) -> str:
        """Under which the constants are stored."""
        return self.rows[0].runtime

    def fitted(self, without: str = "") -> TiledConstants:
        """The constants by all models but one."""
        if without not in self._fits:
            self._fits[without] = self._fit(without)
        return self._fits[without]

    def _fit(self, without: str) -> TiledConstants:
        runs = self.runs.without(without)
        start = self._start(without)
        scales = SHARED.get(self.runtime) or scales_for(start)
        if self.few:
            given = tuple(w for one in scales for w in one if w in STARTING)
            scales = (given, tuple(w for one in scales for w in one if w not in STARTING))
        found = fit(start, runs, scales, self._pulls(scales))
        for _ in range(2 if self.few else 1):  # constants with one scale pass their roofs in turn
            capped, scales = within_roofs(start, found, scales)
            if capped is start:
                break
            start, found = capped, fit(capped, runs, scales, self._pulls(scales))
        return _no_slower(found)

    def _start(self, without: str) -> TiledConstants:
        formats = {m.run.formats[0] for m in self.runs.measured}
        start = start_for(self.runtime, self.rows[0].device, formats)
        if self._base is None:
            return start
        near = self._base.fitted(without)
        known = next(f for f in near.macs_per_s if f in start.macs_per_s)
        faster = near.macs_per_s[known] / start.macs_per_s[known]
        return msgspec.structs.replace(
            near,
            runtime=start.runtime,
            device=start.device,
            start_s={f: near.start_s.get(f, near.start_s[known]) for f in start.start_s},
            macs_per_s={f: near.macs_per_s.get(f, r * faster) for f, r in start.macs_per_s.items()},
            softmax_per_s=near.softmax_rate,
            handed_per_s=start.handed_per_s,
        )

    def _pulls(self, scales: Sequence[Scale]) -> list[float]:
        """How much the start counts: of what does not depend on the runtime it tells more."""
        if self.few:
            return [pull_of(len(self.runs.models))] * len(scales)
        if self.runtime in SHARED:
            return [TOLD] * len(scales)
        held = () if self._base is None else (*RATIOS, "activation", "ahead", *EACH_START)
        return [HELD if scale[0] in held else PULL for scale in scales]

    def ratios(self) -> list[float]:
        """Measured over predicted of every run, by constants from the other models."""
        found = []
        for row, run in zip(self.rows, self.runs.measured, strict=True):
            one = MeasuredRuns([run]).predicted(self.fitted(row.model))
            found.append(run.seconds / float(one[0]))
        return found


def tasks(found: Sequence[Row]) -> tuple[Task, ...]:
    """One per runtime and chip with rows enough."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        groups[row.runtime, row.device].append(row)
    made: dict[tuple[str, str], Task] = {}
    last = [*groups]
    last.sort(key=lambda pair: pair[0] in CARRIED or pair[1] in NEAR)
    for name, device in last:
        base = ("qnn", device) if name in CARRIED else (name, NEAR.get(device, ""))
        task = Task(groups[name, device], made.get(base))
        if not task.few or device in NEAR:
            made[name, device] = task
    return tuple(made.values())


def fit_all(found: Sequence[Task]) -> tuple[TiledConstants, ...]:
    """One set per task."""
    pooled: dict[str, list[float]] = defaultdict(list)
    for task in found:
        pooled[task.runtime] += [] if task.few else task.ratios()
    fitted = {t: _finished(t.fitted(), t.runs, t.ratios(), pooled[t.runtime]) for t in found}
    ends = {name: _attention_high(name, fitted) for name in HEXAGON} | BESIDE
    return _called(
        tuple(_ending(_outermost(c, t, fitted), ends.get(t.runtime)) for t, c in fitted.items())
    )


def _ending(c: TiledConstants, attention_high: float | None) -> TiledConstants:
    """With the upper ends of what differs more."""
    room, high = OUTSIDE.get(c.runtime, (None, None))
    return msgspec.structs.replace(
        c, attention_high=attention_high, room_bytes=room, outside_high=high
    )


def _attention_high(name: str, fitted: Mapping[Task, TiledConstants]) -> float:
    """The upper end of networks with attention under a runtime: models left out, and unseen ones.

    Their exports differ: heads may be split, windows cut out, products left whole.
    """
    own = {c.device: c for t, c in fitted.items() if t.runtime == name}
    ratios = [
        ratio
        for task in fitted
        if task.runtime == name
        for run, ratio in zip(task.runs.measured, task.ratios(), strict=True)
        if run.run.attentions >= BLOCKS
    ]
    for row in timed(name, QUALCOMM_NETWORKS):
        run, c = row.measured, own.get(row.device)
        if run is not None and c is not None and run.run.attentions >= BLOCKS:
            ratios.append(run.seconds / float(MeasuredRuns([run]).predicted(c)[0]))
    return outward(*tails(ratios))[1]


def _outermost(
    c: TiledConstants, task: Task, fitted: Mapping[Task, TiledConstants]
) -> TiledConstants:
    """With the widest range under the runtime where a chip ran one family of networks alone."""
    if len({_family(m) for m in task.runs.models}) > 1:
        return c
    others = [o for t, o in fitted.items() if t.runtime == task.runtime]
    return msgspec.structs.replace(
        c, low=min(o.low for o in others), high=max(o.high for o in others), confidence="low"
    )


def _family(model: str) -> str:
    """The letters that its name begins with: ``yolo`` of ``yolo11s``, and of ``yolov8s``."""
    letters = "".join(takewhile(str.isalpha, model))
    return _YOLO if letters.startswith(_YOLO) else letters


def _no_slower(c: TiledConstants) -> TiledConstants:
    """With 8 bits at the rate of 16 at least: detectors hardly tell them apart on Intel's NPUs."""
    rates = c.macs_per_s
    if "int8" not in rates:
        return c
    int8 = max(rates["int8"], rates.get("fp16", 0.0))
    return msgspec.structs.replace(c, macs_per_s={**rates, "int8": int8})


def within_roofs(
    start: TiledConstants, fitted: TiledConstants, scales: tuple[Scale, ...]
) -> tuple[TiledConstants, tuple[Scale, ...]]:
    """Where to start, and what to fit, once more: what came out above a roof stays at it.

    No stream is faster than the memory, and no window passes the matrix unit faster than quoted.
    """
    device = load_device(start.device)
    memory = main_memory(device)
    stream = memory.byte_per_s if memory else None
    free = {what for one in scales for what in one}
    if stream and fitted.ahead_byte_per_s > AT * stream and "ahead" in free:
        start = msgspec.structs.replace(start, ahead_byte_per_s=stream)
        scales = tuple(
            kept for one in scales if (kept := tuple(what for what in one if what != "ahead"))
        )
    window = runtime(RUNTIMES.get(start.runtime, start.runtime)).tiling.window
    for name, rate in fitted.macs_per_s.items():
        roof = resolve(device, "matrix", name)
        most = window * roof.flop_per_s / 2 if roof and roof.dtype == name else None
        if most and rate > AT * most and name in free:
            start = msgspec.structs.replace(start, macs_per_s={**start.macs_per_s, name: most})
            scales = tuple(
                kept for one in scales if (kept := tuple(what for what in one if what != name))
            )
    return start, scales


def start_for(name: str, device: str, formats: set[str]) -> TiledConstants:
    """Constants to start a fit from."""
    starts, fp16, vector, activation, ahead = STARTS[name]
    return TiledConstants(
        runtime=name,
        device=device,
        start_s={f: starts[f] for f in sorted(formats)},
        macs_per_s={f: fp16 * (RATIOS[f] if "fp16" in starts else 1.0) for f in sorted(formats)},
        vector_per_s=vector,
        activation_byte_per_s=activation,
        ahead_byte_per_s=ahead,
        rows=0,
        models=0,
        low=1.0,
        high=1.0,
        softmax_per_s=vector * SOFTMAX[name] if name in SOFTMAX else None,
        handed_per_s=HANDED.get(name),
        cores=CORES.get(name),
        streamed=name in RATES,
        flight=FLIGHTS.get(device),
    )


def scales_for(start: TiledConstants) -> tuple[Scale, ...]:
    """Each constant by itself; fewer for chips whose start and second bandwidth do not show.

    ONNX Runtime converts inputs and outputs, which takes as long in 8 bits as in 16.
    """
    formats = tuple((f,) for f in start.macs_per_s)
    vector: tuple[Scale, ...] = (("vector",),)
    if start.softmax_per_s is not None:
        vector = (("vector",), ("softmax",))
    if not any(start.start_s.values()):
        return (*vector, ("activation", "ahead"), *formats)
    starts: tuple[Scale, ...] = (("start",),)
    if start.runtime == "onnxruntime":
        starts = tuple((f"start:{f}",) for f in start.start_s)
    if start.handed_per_s is not None:
        starts = (*starts, ("handed",))
    if start.device in READ_OFF:
        starts = ()
    if start.flight is not None and start.flight.calls > 1:
        starts = (*starts, ("shared",))
    return (*starts, *vector, ("activation",), ("ahead",), *formats)


def _finished(
    c: TiledConstants, runs: MeasuredRuns, ratios: Sequence[float], pooled: Sequence[float]
) -> TiledConstants:
    (low, high), (own_low, own_high) = tails(pooled), tails(ratios)
    low, high = min(low, own_low), max(high, own_high)
    if len(pooled) < PROVEN:
        low, high = low / WIDER, high * WIDER
    low, high = outward(low, high)
    errors = [abs(1 / r - 1) for r in ratios]
    held = HeldOut(
        points=len(ratios),
        mape=round(statistics.fmean(errors), 4),
        median=round(statistics.median(errors), 4),
        inside=round(sum(low <= r <= high for r in ratios) / len(ratios), 4),
    )
    return msgspec.structs.replace(
        _rounded(c),
        rows=len(ratios),
        models=len(runs.models),
        low=low,
        high=high,
        confidence="medium" if len(ratios) >= 30 and c.runtime not in YOUNG else "low",
        held_out=held,
        note=_slow(c),
    )


def _slow(c: TiledConstants) -> str:
    """What a reader should know of a chip that is slow at softmaxes."""
    times = c.vector_per_s / c.softmax_rate
    if times < SLOW:
        return ""
    return f"a softmax over long rows takes {times:.0f} times as long as other vector work"


def _rounded(c: TiledConstants) -> TiledConstants:
    def three(value: float) -> float:
        return float(f"{value:.4g}")

    return msgspec.structs.replace(
        c,
        start_s={k: three(v) for k, v in c.start_s.items()},
        macs_per_s={k: three(v) for k, v in c.macs_per_s.items()},
        vector_per_s=three(c.vector_per_s),
        softmax_per_s=c.softmax_per_s and three(c.softmax_per_s),
        handed_per_s=c.handed_per_s and three(c.handed_per_s),
        activation_byte_per_s=three(c.activation_byte_per_s),
        ahead_byte_per_s=three(c.ahead_byte_per_s),
        flight=c.flight and msgspec.structs.replace(c.flight, fed=three(c.flight.fed)),
    )


def classes_of(fitted: Sequence[TiledConstants]) -> tuple[TiledClass, ...]:
    """What a datasheet tells, from chips that have rows and published roofs."""
    found = []
    for name in dict.fromkeys(
        c.runtime for c in fitted if c.cores is None and c.flight is None and c.runtime not in ALONE
    ):
        known = [
            (c, roof.flop_per_s / 2, memory.byte_per_s)
            for c in fitted
            if c.runtime == name
            and "int8" in c.macs_per_s
            and (roof := resolve(load_device(c.device), "matrix", "int8")) is not None
            and (memory := main_memory(load_device(c.device))) is not None
            and memory.byte_per_s
        ]
        if not known:
            continue
        every = [c for c in fitted if c.runtime == name and "int8" in c.macs_per_s]
        formats = sorted({f for c in every for f in c.macs_per_s if f != "int8"})
        found.append(
            TiledClass(
                runtime=name,
                int8_share=_middle(c.macs_per_s["int8"] / peak for c, peak, _ in known),
                formats={
                    f: _middle(
                        c.macs_per_s[f] / c.macs_per_s["int8"] for c in every if f in c.macs_per_s
                    )
                    for f in formats
                },
                ahead_share=_middle(c.ahead_byte_per_s / bw for c, _, bw in known),
                activation_share=_middle(c.activation_byte_per_s / bw for c, _, bw in known),
                vector_share=_middle(c.vector_per_s / c.macs_per_s["int8"] for c in every),
                softmax_share=_middle(c.softmax_rate / c.vector_per_s for c in every)
                if name in SOFTMAX
                else None,
                start_s={
                    f: _middle(c.start_s[f] for c in every if f in c.start_s)
                    for f in sorted({f for c in every for f in c.start_s})
                },
                handed_per_s=_middle(c.handed_per_s for c in every if c.handed_per_s)
                if name in HANDED
                else None,
                chips=len(known),
                low=0.4,
                high=2.5,
            )
        )
    return tuple(found)


def _middle(values: object) -> float:
    return float(f"{statistics.median(values):.4g}")  # type: ignore[type-var]


def line(c: TiledConstants) -> str:
    """One line per set."""
    h = c.held_out
    macs = " ".join(f"{k}={v / 1e12:.2f}T" for k, v in c.macs_per_s.items())
    assert h is not None
    return (
        f"{c.runtime:12} {c.device:26} n={h.points:3} models={c.models:3} MAPE {h.mape:.1%} "
        f"median {h.median:.1%} inside {h.inside:.0%} {c.low}..{c.high} | "
        f"t0={max(c.start_s.values()) * 1e3:.2f}ms {macs} V={c.vector_per_s / 1e9:.2f}G "
        f"S={c.softmax_rate / 1e9:.2f}G A={c.activation_byte_per_s / 1e9:.1f}G "
        f"W={c.ahead_byte_per_s / 1e9:.1f}G"
    )


def write(
    sets: Sequence[TiledConstants],
    classes: Sequence[TiledClass],
    streams: Sequence[StreamConstants],
) -> None:
    """Replaces what the file holds of NPUs."""
    content = constants_file.read()
    content["tiled"] = msgspec.to_builtins(tuple(sets))
    content["tiled_classes"] = msgspec.to_builtins(tuple(classes))
    content["streams"] = msgspec.to_builtins(tuple(streams))
    constants_file.write(content)
    print(f"wrote {TARGET}", file=sys.stderr)


if __name__ == "__main__":
    main()
