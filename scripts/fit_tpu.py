"""Fit the constants of training steps on TPUs to published ones: ``python scripts/fit_tpu.py``.

Rows are those of benchmarks/data/tpu. Seven constants are fitted to TPU7x (Ironwood), the share of
GEMMs to v6e, where the others are those of TPU7x; each model is left out in turn for the errors
that are printed. TPU v5p is not fitted. With ``--write`` they are stored in
src/gambrel/llm/training_tpu.toml; what no row determines stays as it is there.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from scipy.optimize import least_squares

from fit_training import toml
from gambrel.device.catalog import load
from gambrel.llm import training, training_time
from gambrel.llm.known import spec_of
from gambrel.llm.precision import Precisions
from gambrel.llm.sharding import Sharding
from gambrel.llm.training_plan import TrainingPlan
from gambrel.llm.training_time import Parts, Stack

ROWS = Path(__file__).parents[1] / "benchmarks/data/tpu/training.csv"
TARGET = Path(training_time.__file__).with_name("training_tpu.toml")
NEWEST = "tpu-v7x"
#: Attention sinks without a fused kernel, as on GPUs.
HELD = ("gpt-oss-120b",)
#: Start and limits.
FIRST = {
    "gemm.bf16": (0.75, 0.2, 0.95), "gemm.fp8": (0.62, 0.2, 0.95), "attention": (0.5, 0.1, 0.9),
    "expert_share": (0.6, 0.1, 1.0), "expert_shown": (0.35, 0.02, 1.0),
    "passes": (20, 5, 100), "expert_passes": (40, 5, 200),
}  # fmt: skip
#: What is fitted to each generation, the others after the first.
FREE = {NEWEST: tuple(FIRST), "tpu-v6e": ("gemm.bf16",)}
#: How firmly constants stay where they start, for a unit of error.
STIFF = 0.1


@dataclass(frozen=True, kw_only=True)
class Row:
    """One published step."""

    model: str
    device: str
    name: str
    parts: Parts
    measured_s: float
    sol_s: float

    def seconds(self, stack: Stack) -> float:
        """Expected, never below the speed of light."""
        return max(training_time.step_s(self.parts, stack, 1, 0.0), self.sol_s)


def rows() -> Iterator[Row]:
    """All of them: parameters sharded over the chips, sequences longer than a chip shared."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        for r in csv.DictReader(file):
            chips, batch, seq = int(r["chips"]), int(r["global_batch"]), int(r["seq"])
            tensor, shared = int(r["tensor"]), max(1, chips // batch)
            replicas = chips // (tensor * shared)
            plan = TrainingPlan(
                sequences=batch // replicas,
                seq=seq,
                sharding=Sharding(tensor=tensor, data=replicas, context=shared),
                zero=3,
                recompute=r["recompute"],
            )
            device = load(r["device"])
            precisions = Precisions.parse(r["precision"])
            step = training.train(spec_of(r["model"]), device, plan, precisions=precisions)
            assert step.parts is not None
            yield Row(
                model=r["model"],
                device=r["device"],
                name=f"{r['device']} x{chips} {r['model']} {r['precision']} seq {seq}",
                parts=step.parts,
                measured_s=batch * seq / chips / float(r["tokens_per_s"]),
                sol_s=step.sol_step_s or 0.0,
            )


def stored(device: str) -> Stack:
    """The stack that is stored for a generation."""
    found = training_time.stack_of(load(device))
    assert found is not None
    return found


def fit(data: Sequence[Row]) -> dict[str, Stack]:
    """The constants of each generation with the least error in logarithms."""
    found: dict[str, Stack] = {}
    for device, names in FREE.items():
        own = [r for r in data if r.device == device and r.model not in HELD]
        first = found[NEWEST] if found else stored(device)
        kept = stored(device)
        shared = {n: getattr(first, n) for n in FIRST if not n.startswith("gemm.")}
        begin = msgspec.structs.replace(kept, **shared)
        found[device] = _fitted(own, begin, names)
    return found


def _fitted(data: Sequence[Row], begin: Stack, names: Sequence[str]) -> Stack:
    start, low, high = (np.log(np.array(v)) for v in zip(*(FIRST[n] for n in names), strict=True))

    def stack(logs: np.ndarray) -> Stack:
        values = dict(zip(names, np.exp(logs).tolist(), strict=True))
        gemm = {k: values.pop(f"gemm.{k}", v) for k, v in begin.gemm.items()}
        return msgspec.structs.replace(begin, gemm=gemm, **values)

    def residuals(logs: np.ndarray) -> np.ndarray:
        one = stack(logs)
        errors = [np.log(row.seconds(one) / row.measured_s) for row in data]
        return np.concatenate([errors, STIFF * (logs - start)])

    return stack(least_squares(residuals, start, bounds=(low, high)).x)


def left_out(data: Sequence[Row]) -> list[tuple[Row, float]]:
    """Each row with its time by constants that did not see its model."""
    pairs = []
    for model in sorted({r.model for r in data}):
        own = fit([r for r in data if r.model != model])
        pairs += [(r, r.seconds(own.get(r.device, own[NEWEST]))) for r in data if r.model == model]
    return pairs


def main() -> None:
    """Fits, prints the errors, and stores the constants where asked."""
    data = list(rows())
    pairs = left_out(data)
    for row, seconds in pairs:
        print(f"{row.name:45} {row.measured_s:8.2f} s  x {seconds / row.measured_s:.2f}")
    text = TARGET.read_text(encoding="utf-8").partition("[[stacks]]")[0].rstrip() + "\n"
    for device, one in fit(data).items():
        own = [(r, s) for r, s in pairs if r.device == device and r.model not in HELD]
        inverse = np.array([r.measured_s / s for r, s in own])
        error = float(np.mean(np.abs(1 / inverse - 1)))
        print(f"{device}: {error:.1%} over {len(own)} rows")
        fields = msgspec.to_builtins(one) | {
            "low": min(0.95, float(np.quantile(inverse, 0.05))),
            "high": max(1.05, float(np.quantile(inverse, 0.95))),
            "rows": len(own),
            "error": error,
        }
        text += "\n[[stacks]]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in fields.items())
    if "--write" in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
