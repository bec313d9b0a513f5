"""llama.cpp on processors and GPUs: whole runs that people published."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))


def score(_: Path) -> Iterable[Score]:
    """The rows come with the project: no folder is read."""
    from fit_shares import CLASSES, left_out, runs_of
    from gambrel.analysis.estimate import packaged

    ends = {s.match: s for s in packaged().shares if s.runtime == "llama-cpp"}
    for one in CLASSES:
        runs, shares = runs_of(one), ends[one.match]
        for by in one.by:
            found = left_out(runs, by, one)
            for prompt, kind in ((False, "text"), (True, "prompts")):
                text = (shares.low, shares.high)
                low, high = (shares.prompt or text) if prompt else text
                own = [
                    Run(
                        name=f"{runs[i].device} {runs[i].model} {runs[i].precision}",
                        measured=runs[i].seconds,
                        expected=t,
                        low=t * low,
                        high=t * high,
                        roofline=float((runs[i].count * runs[i].floor).sum()),
                    )
                    for i, t in found.items()
                    if runs[i].prompt is prompt and not runs[i].beside
                ]
                if own:
                    yield Score(
                        what=f"llama.cpp, {one.name}: {kind}",
                        runs=own,
                        held_out=f"leave one {by} out",
                    )
