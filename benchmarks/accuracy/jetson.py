"""TensorRT and eager PyTorch on Jetson modules.

The rows come with the project (benchmarks/data/jetson); no folder is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.accuracy import Run, Score
from benchmarks.accuracy.mlperf import Ends, Row, held_out, run

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_engines
import fit_orin
import jetson_rows
from gambrel.analysis.estimate.adjust import adjusted_engine
from gambrel.analysis.estimate.adjust_fit import fitted
from gambrel.analysis.estimate.constants import Adjustment, packaged
from gambrel.analysis.estimate.engine_constants import EngineConstants

#: Models of a new module that are measured → the error to be reached on the others.
ANCHORS = {1: "25 %", 4: "18 %"}
WORDS = {1: "one model measured", 4: "four models measured"}
RANGE = (0.6, 1.9)
PRECISIONS = ("int8", "fp16", "tf32")


def score(_: Path) -> Iterable[Score]:
    """By device and number format."""
    yield from held_out(jetson_rows.rows(), _scores)
    yield from _new()
    yield from _eager()


def _eager() -> Iterable[Score]:
    """PyTorch in fp32; the ends are those of convolutions of such a length."""
    runs = fit_orin.rows()
    one = next(
        s
        for s in packaged().sets
        if (s.form, s.device) == (fit_orin.FORMS[0], fit_orin.HOLDER) and s.framework == "torch"
    )
    low, high = min(one.low), max(one.high)
    for by, how in (("family", "leave one model out"), ("device", "leave one device out")):
        times = fit_orin.left_out(runs, by)
        yield Score(
            what="PyTorch eager on Jetson Orin, fp32",
            runs=[
                Run(
                    name=f"{r.model} {r.device} {r.release}",
                    measured=r.measured, expected=float(t), low=t * low, high=t * high,
                )
                for r, t in zip(runs, times, strict=True)
            ],
            held_out=how,
            family="PyTorch eager on Jetson Orin, fp32",
            target="25 %",
        )  # fmt: skip


def _new() -> Iterable[Score]:
    """Each module as a new one: constants of the others, scaled to one or four of its models."""
    found = jetson_rows.rows()
    one = next(c for c in fit_engines.CLASSES if c.match == ("jetson",))
    every = fit_engines.rows_of(one, found)
    for device in sorted({r.device for r in every}):
        own = [r for r in every if r.device == device]
        if len({r.model for r in own}) <= max(ANCHORS):
            continue
        base = fit_engines.fit(one, [r for r in every if r.device != device])
        for count in ANCHORS:
            yield _scaled(base, fit_engines.Runs(own, one), count)


def _scaled(base: EngineConstants, runs: fit_engines.Runs, count: int) -> Score:
    """The other rows of a module, by so many models that are spread over its times."""
    times: dict[tuple[float, ...], Sequence[float]] = {}

    def predict(factors: Mapping[str, float], index: int) -> float:
        key = tuple(factors.values())
        if key not in times:
            own = Adjustment(runtime="tensorrt", device="", factors=dict(factors))
            times[key] = runs.predicted(adjusted_engine(base, own)).tolist()
        return times[key][index]

    models = [r.model for r in runs.rows]
    by_time = sorted(set(models), key=lambda m: min(r.seconds for r in runs.rows if r.model == m))
    chosen = {by_time[round((i + 0.5) / count * len(by_time) - 0.5)] for i in range(count)}
    near = [i for i, m in enumerate(models) if m in chosen]
    factors = fitted(near, models, [r.seconds for r in runs.rows], predict)
    return Score(
        what=f"{runs.rows[0].device}, {WORDS[count]}, TensorRT",
        runs=[
            run(r, predict(factors, i), lambda _: RANGE)
            for i, r in enumerate(runs.rows)
            if i not in near
        ],
        held_out="leave one device out",
        family=f"a new Jetson module, {WORDS[count]}",
        target=ANCHORS[count],
    )


def _scores(
    name: str, own: Sequence[Row], times: Sequence[float], how: str, ends: Ends
) -> Iterable[Score]:
    del name
    for device in sorted({r.device for r in own}):
        for precision in PRECISIONS:
            pairs = zip(own, times, strict=True)
            chosen = [(r, t) for r, t in pairs if (r.device, r.precision) == (device, precision)]
            if chosen:
                yield Score(
                    what=f"{device} {precision}, TensorRT",
                    runs=[run(r, t, ends) for r, t in chosen],
                    held_out=how,
                    family=f"Jetson modules {precision}, TensorRT",
                    target="25 %",
                )
