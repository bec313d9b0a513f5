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


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
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
        "Take the measured time from a profiler's export; with --kernel.",
        "--recording",
    )
    kernel: str | None = field(
        *(f.TEXT, JUDGED, f"{JUDGE} limits"),
        "The kernel of --recording whose name contains this text; without --recording, MODEL is "
        "what a profiler wrote, and the work of that kernel is the reference.",
        "--kernel",
    )
    baseline: float | None = field(
        *(f.TIME, JUDGED, f"{JUDGE} {GAP}"),
        "Baseline time for the relative score, e.g. 2ms; by default the expected time of the "
        "library kernel.",
        "--baseline",
    )
    whole: float | None = field(
        *(f.TIME, JUDGED, f"{JUDGE} {GAP}"),
        "Time of the whole model, to state the headroom as a share of it; estimated with --op.",
        "--whole",
    )
    problems: str | None = field(
        *(f.TEXT, JUDGED, JUDGE),
        "A folder of problems as KernelBench has them (Model, get_inputs, get_init_inputs): the "
        "limits of each; code, so it needs --trust.",
        "--jsonl",
        absent=CODE,
    )
