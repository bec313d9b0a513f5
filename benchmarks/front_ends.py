"""First tokens of requests alone: measured, and as `serve-plan` expects them.

    python benchmarks/front_ends.py

With no other request in flight nothing queues, so that what is left beside the prompt's step is the
front end of the engine. Its constants for such a request rest on these rows; what it takes beside
others on served runs (`benchmarks/served.py`). Errors of a publisher are those with ``alone_s`` and
``token_s`` as they are: three numbers and one for 27 rows of six publishers.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import report

import gambrel
from gambrel.analysis.measures import Estimate
from gambrel.llm.sharding import Sharding

ROWS = Path(__file__).parent / "data" / "alone" / "rows.csv"


def expected(row: dict[str, str], frontend: float | None = None) -> Estimate:
    """The time to the first token of a row, with the engine's front end or another."""
    tensor = int(row["tensor"])
    plan = gambrel.serve_plan(
        row["model"],
        row["device"],
        input=int(row["input"]),
        output=int(row["output"]),
        precision=[row["precision"]],
        concurrency=1,
        runtime=row["engine"],
        sharding=Sharding(tensor=tensor),
        max_devices=tensor,
        frontend=frontend,
    )
    found = plan.best[0].ttft
    assert found is not None  # all of these devices have constants
    return found


def rows() -> Iterator[dict[str, str]]:
    """The published runs."""
    with ROWS.open(newline="") as file:
        yield from csv.DictReader(file)


def main() -> None:
    """Prints the table and stores it."""
    groups = defaultdict[tuple[str, str], list[tuple[float, float, bool]]](list)
    for row in rows():
        measured, found = float(row["ttft_ms"]) / 1e3, expected(row)
        rest = measured - expected(row, 0.0).value
        inside = found.low <= measured <= found.high
        groups[row["engine"], row["source"]].append((found.value / measured, rest, inside))
    report(
        "front_ends",
        "Time to the first token of a request alone, expected against published",
        ["engine", "publisher", "rows", "mean error", "median ratio", "inside", "beside the step"],
        [
            [
                *(engine, source, str(len(seen))),
                f"{statistics.mean(abs(ratio - 1) for ratio, _, _ in seen):.0%}",
                f"{statistics.median(ratio for ratio, _, _ in seen):.2f}",
                f"{statistics.mean(inside for _, _, inside in seen):.0%}",
                f"{statistics.median(rest for _, rest, _ in seen) * 1e3:.0f} ms",
            ]
            for (engine, source), seen in sorted(groups.items())
        ],
        notes=("*Beside the step*: median of the measured time less that of the prompt's step.",),
    )


if __name__ == "__main__":
    main()
