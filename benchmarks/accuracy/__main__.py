"""Scores every class of runs, or the named ones, and writes their tables and docs/accuracy.md."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from pathlib import Path

import benchmarks.accuracy as package
from benchmarks.accuracy import Score
from benchmarks.accuracy.page import store
from benchmarks.common import report

#: Not of runs.
OTHERS = ("__main__", "page")
MODULES = [m.name for m in pkgutil.iter_modules(package.__path__) if m.name not in OTHERS]

COLUMNS = (
    "what", "rows", "no time", "expected: mean", "median", "inside", "roofline: mean",
    "SOL: mean", "below SOL", "held out", "target",
)  # fmt: skip


def main(folder: Path, names: list[str]) -> None:
    """Scores and writes."""
    scores: dict[str, list[Score]] = {}
    for name in names or MODULES:
        module = importlib.import_module(f"benchmarks.accuracy.{name}")
        scores[name] = list(module.score(folder))
        title = "Errors of expected times"
        report(f"accuracy_{name}", title, COLUMNS, [row(s) for s in scores[name]])
    store(scores)


def row(score: Score) -> list[str]:
    """One line of the table."""
    missing = sum(r.expected is None for r in score.runs)
    return [
        score.what, str(len(score.runs)), str(missing), percent(score.mean()),
        percent(score.median()), percent(score.inside), percent(score.mean("roofline")),
        percent(score.mean("sol")), str(score.below_sol), score.held_out, score.target,
    ]  # fmt: skip


def percent(share: float | None) -> str:
    """A share as people read it."""
    return "unknown" if share is None else f"{share:.1%}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Errors of expected times, class by class.")
    parser.add_argument("facts", type=Path, help="the folder that holds truth/ and measured/")
    parser.add_argument("names", nargs="*", help="classes to score; all without any")
    given = parser.parse_args()
    main(given.facts, given.names)
