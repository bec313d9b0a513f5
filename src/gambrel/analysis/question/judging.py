"""What is judged: a measured time, or a candidate to run."""

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import (
    CODE,
    GAP,
    JUDGE,
    JUDGED,
    JUDGING,
    field,
)


@dataclass(frozen=True, kw_only=True)
class JudgeFields:
    """What is judged: a measured time, or a candidate to run."""

    time: float | None = field(
        *(f.TIME, JUDGED, f"{JUDGE} {GAP}", "The measured time of one run, e.g. 1.42ms.", "--time"),
        words=("measured", "took"),
    )
    op: str | None = field(
        *(f.TEXT, JUDGED, JUDGING),
        "Only this part of the model: a module path, the name of an op or node, or a kind.",
        "--op",
    )
    run: str | None = field(
        *(f.TEXT, JUDGED, JUDGE),
        "Run this candidate here and check it against the reference: file.py:function that returns "
        "what is called with the reference's inputs.",
        "--run",
        absent=CODE,
    )
    recording: str | None = field(
        *(f.TEXT, JUDGED, JUDGE),
        "Take the time from what a profiler recorded; with --kernel.",
        "--recording",
    )
    kernel: str | None = field(
        *(f.TEXT, JUDGED, JUDGE),
        *("The kernel of --recording whose name has this.", "--kernel"),
    )
    baseline: float | None = field(
        *(f.TIME, JUDGED, f"{JUDGE} {GAP}"),
        "Time that the score is relative to, e.g. 2ms; by default the expected library kernel.",
        "--baseline",
    )
    whole: float | None = field(
        *(f.TIME, JUDGED, f"{JUDGE} {GAP}"),
        "Time of the whole model, for the headroom as a share of it; with --op it is estimated.",
        "--whole",
    )
    problems: str | None = field(
        *(f.TEXT, JUDGED, JUDGE),
        "A folder of problems as KernelBench has them (Model, get_inputs, get_init_inputs): the "
        "limits of each; code, so it needs --trust.",
        "--jsonl",
        absent=CODE,
    )
