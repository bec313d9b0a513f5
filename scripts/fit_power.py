"""Fits the shares of design power in ``analysis/energy_constants.toml`` to measured watts.

    python scripts/fit_power.py

Reads ``tests/data/power.csv``. Prints the shares, each row beside what they say of it, and the
errors of shares that were fitted to the other device alone.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gambrel
from gambrel.analysis.result import Analysis

ROWS = Path(__file__).parent.parent / "tests" / "data" / "power.csv"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A task on a device.

    Attributes:
        device: Id.
        task: What ran.
        low: 10th percentile over the median.
        high: 90th percentile over the median.
        tdp_w: Design power, W.
        share: Median over design power.
        use: Mean share of the time with kernels, of the bandwidth and of the arithmetic in use.
    """

    device: str
    task: str
    low: float
    high: float
    tdp_w: float
    share: float
    use: tuple[float, float, float]


def runs(text: str, device: str) -> list[Analysis]:
    """The analyses that a row is held against: ``model name=value ...``, several with ``;``."""
    found = []
    for run in text.split(";"):
        model, *sizes = run.split()
        given = {name: int(value) for name, value in (s.split("=") for s in sizes)}
        more = {"phase": "decode"} if "context" in given else {"precision": "bf16"}
        batch = given.pop("batch")
        found.append(gambrel.analyze(model, device, batch_size=batch, **given, **more))
    return found


def use_of(analysis: Analysis) -> tuple[float, float, float]:
    """Share of the expected time with kernels, and of both roofs in use."""
    time, busy = analysis.expected_time_s, analysis.total
    assert time is not None
    memory = max(t.time_s for t in busy.times if t.bound == "memory")
    compute = sum(w.time_s or 0.0 for w in busy.work if w.work_class != "special")
    return 1 - time.host_share, memory / time.value, compute / time.value


def read() -> list[Measured]:
    """All rows."""
    with ROWS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    found = []
    for row in rows:
        analyses = runs(row["runs"], row["device"])
        uses = np.mean([use_of(a) for a in analyses], axis=0)
        tdp, median = analyses[0].hardware.tdp_w, float(row["median_w"])
        assert tdp is not None
        found.append(
            Measured(
                device=row["device"],
                task=row["task"],
                low=float(row["low_w"]) / median,
                high=float(row["high_w"]) / median,
                tdp_w=tdp,
                share=median / tdp,
                use=(float(uses[0]), float(uses[1]), float(uses[2])),
            )
        )
    return found


def fit(rows: Sequence[Measured]) -> np.ndarray:
    """Shares with the least squared relative errors."""
    share = np.array([r.share for r in rows])
    use = np.array([r.use for r in rows])
    return np.linalg.lstsq(use / share[:, None], np.ones(len(rows)), rcond=None)[0]


def left_out(rows: Sequence[Measured]) -> list[float]:
    """The share of each row by what the rows of other devices say."""
    return [float(np.dot(r.use, fit([o for o in rows if o.device != r.device]))) for r in rows]


def main() -> None:
    """Prints the table."""
    rows = read()
    shares = fit(rows)
    print("busy, memory, compute:", shares.round(3))
    print("low, high:", min(r.low for r in rows), max(r.high for r in rows))
    errors, held_out = [], []
    for row, own in zip(rows, left_out(rows), strict=True):
        errors.append(np.dot(row.use, shares) / row.share - 1)
        held_out.append(own / row.share - 1)
        print(f"{row.device:16} {row.task:28} {errors[-1]:+.0%}, held out {held_out[-1]:+.0%}")
    print(f"mean error {np.mean(np.abs(errors)):.1%}, held out {np.mean(np.abs(held_out)):.1%}")


if __name__ == "__main__":
    main()
