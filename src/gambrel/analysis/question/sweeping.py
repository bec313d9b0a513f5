"""Which points of a sweep are kept, and who computes them."""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import POINTS, SWEPT, field

_HERE = "runs on the machine of whoever asks"


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SweepFields:
    """Which points of a sweep are kept, and who computes them."""

    where: str | None = field(
        *(f.TEXT, SWEPT, POINTS),
        "Keep only points that are known to satisfy this: columns, numbers with units, and, "
        "or, not, e.g. 'fits and expected_time_s < 33ms'.",
        "--where",
    )
    pareto: tuple[str, ...] = field(
        *(f.TEXT, SWEPT, POINTS),
        "Keep the Pareto front over these: latency, throughput, energy, memory, work, "
        "traffic, or columns (max:COLUMN where more is better).",
        "--pareto",
        several=POINTS,
        default=(),
    )
    jobs: int = field(
        *(
            f.whole("processes"),
            SWEPT,
            POINTS,
            "Number of local worker processes.",
            "--jobs",
            "-j",
        ),
        default=1,
        absent={"mcp": _HERE},
    )
    scheduler: Any = field(
        *(f.ANY, SWEPT, POINTS),
        "Address of a dask.distributed scheduler, e.g. tcp://10.0.0.1:8786; or joblib:NAME for a "
        "backend of joblib (loky, dask, ray).",
        "--scheduler",
        absent={"mcp": _HERE},
    )
    save: str | None = field(
        *(f.TEXT, SWEPT, POINTS),
        "Write the points as they are computed: .parquet (a folder), .csv or .jsonl; an "
        "interrupted run resumes from what is there.",
        absent={"mcp": _HERE, "cli": "--output"},
    )
