"""docs/accuracy.md: the summary of all scores that are stored in results/accuracy.json."""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy import Score
from benchmarks.common import RESULTS

STORED = RESULTS / "accuracy.json"
PAGE = Path(__file__).parents[2] / "docs/accuracy.md"
HEAD = """# How far expected times are off

Every row was predicted by constants that saw neither its model nor its shape (*held out* says
which). *Inside* is the share of measured times inside the predicted range, which aims at 90 %. The
last columns are what the roofline and the speed of light alone would say: they are limits, not
estimates. {faster}

"""
FOOT = """
Written by `python -m benchmarks.accuracy FOLDER`, where FOLDER has the collected tables that
[estimates.md](estimates.md) names; with names behind it (`{names}`) only these are run
again. Last run: {dates}.

The lines of each device, model and op are in [benchmarks/results](../benchmarks/results); what a
prediction under one runtime rests on is shown by `gambrel runtimes show NAME`.
"""
COLUMNS = (
    "what", "rows", "mean error", "median", "inside", "held out", "target", "roofline",
    "speed of light",
)  # fmt: skip


def store(scores: dict[str, Sequence[Score]]) -> None:
    """Keeps the scores of the modules that ran, and writes the page from all."""
    kept = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else {}
    kept = {n: one for n, one in kept.items() if Path(__file__).with_name(f"{n}.py").is_file()}
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    for name, own in scores.items():
        kept[name] = {"date": date, "lines": summary(own)}
    kept = dict(sorted(kept.items()))
    STORED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


def summary(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """One line for each family and way of holding out."""
    groups: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for score in scores:
        groups[score.family or score.what, score.held_out].append(score)
    return [_line(*key, own) for key, own in groups.items()]


def _line(what: str, held_out: str, own: Sequence[Score]) -> dict[str, Any]:
    runs = [r for s in own for r in s.runs]
    whole = Score(what=what, runs=runs, held_out=held_out)
    targets = dict.fromkeys(s.target for s in own if s.target)
    return {
        "what": what,
        "rows": len(runs),
        "mean": _rounded(whole.mean()),
        "median": _rounded(whole.median()),
        "inside": _rounded(whole.inside),
        "held_out": held_out,
        "target": ", ".join(targets),
        "roofline": _rounded(whole.mean("roofline")),
        "sol": _rounded(whole.mean("sol")),
        "below_sol": whole.below_sol,
    }


def page(kept: dict[str, Any]) -> str:
    """The text of docs/accuracy.md."""
    lines = [line for one in kept.values() for line in one["lines"]]
    cells = [_cells(line) for line in lines]
    table = "\n".join([_row(COLUMNS), _row(["---"] * len(COLUMNS)), *(_row(row) for row in cells)])
    dates = ", ".join(f"{name} {one['date']}" for name, one in kept.items())
    below = sum(line["below_sol"] for line in lines)
    rows = f"{below or 'No'} row{'s are' if below > 1 else ' is'}"
    faster = f"{rows} faster than a speed of light whose clocks and rates are published."
    foot = FOOT.format(names=" ".join(kept), dates=dates)
    return f"{HEAD.format(faster=faster)}{table}\n{foot}"


def _cells(line: dict[str, Any]) -> list[str]:
    return [
        line["what"], f"{line['rows']:,}", _percent(line["mean"]), _percent(line["median"]),
        _percent(line["inside"]), line["held_out"], line["target"], _percent(line["roofline"]),
        _percent(line["sol"]),
    ]  # fmt: skip


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}".replace("%", " %")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
