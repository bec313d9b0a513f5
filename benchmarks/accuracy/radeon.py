"""Networks in eager PyTorch on Radeon cards: models left out, and cards left out.

The rows come with the project (benchmarks/data/radeon); no folder is read. What the machine around
a card takes for a launch and for its images is fitted to each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_radeon
from gambrel.analysis.estimate.constants import packaged
from gambrel.device.catalog import load

FAMILY = "networks, eager PyTorch, Radeon"


def score(_folder: Path) -> Iterable[Score]:
    """By generation; the RX 6600 XT by the constants of the RX 6800 besides."""
    rows = fit_radeon.rows()
    for device in fit_radeon.GENERATIONS:
        own = [r for r in rows if fit_radeon._of_generation(r.device) == device]
        found = []
        for fold in range(fit_radeon.FOLDS):
            values = fit_radeon.fit([r for r in own if r.fold != fold])
            found += _runs([r for r in own if r.fold == fold], values, device)
        name = load(device).architecture.split()[0]
        what = f"{FAMILY}: {name}"
        yield Score(what=what, runs=found, held_out="leave one model out", family=what)
    seen = [r for r in rows if r.device == "rx-6800"]
    unseen = [r for r in rows if r.device == "rx-6600-xt"]
    runs = _runs(unseen, fit_radeon.fit(seen), "rx-6800", near=(0.8, 1.35))
    what = f"{FAMILY}: RX 6600 XT by an RX 6800"
    yield Score(what=what, runs=runs, held_out="leave one device out", family=what)


def _runs(
    rows: Sequence[fit_radeon.Run],
    values: dict[str, float],
    device: str,
    near: tuple[float, float] = (1.0, 1.0),
) -> list[Run]:
    shipped = next(
        s for s in packaged().sets if (s.form, s.device) == ("torch_convolution", device)
    )
    found = []
    for r in rows:
        seconds = r.seconds(values)
        found.append(
            Run(
                name=f"{r.problem.name} {r.precision} {r.device}",
                measured=r.problem.measured,
                expected=seconds,
                low=seconds * shipped.low[-1] * near[0],
                high=seconds * shipped.high[-1] * near[1],
                roofline=sum(p.floor * p.count for p in r.problem.parts),
                sol=None,
            )
        )
    return found
