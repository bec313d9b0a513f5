"""Fit the constants of training steps on TPUs to published ones: ``python scripts/fit_tpu.py``.

Rows are those of benchmarks/data/tpu. Five constants are fitted to TPU7x (Ironwood), each model
left out in turn for the errors that are printed; TPU v6e and v5p are not fitted. With ``--write``
they are stored in src/gambrel/llm/training_tpu.toml; what no row determines stays as it is there.
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
FITTED_ON = "tpu-v7x"
#: Attention sinks without a fused kernel, as on GPUs.
HELD = ("gpt-oss-120b",)
#: Start and limits.
FIRST = {
    "gemm.bf16": (0.75, 0.2, 0.95), "gemm.fp8": (0.62, 0.2, 0.95), "attention": (0.5, 0.1, 0.9),
    "expert_share": (0.6, 0.1, 1.0), "expert_shown": (0.35, 0.02, 1.0),
}  # fmt: skip
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
            shared = max(1, chips // batch)
            plan = TrainingPlan(
                sequences=max(1, batch // chips),
                seq=seq,
                sharding=Sharding(data=chips // shared, context=shared),
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


def base() -> Stack:
    """The stack that is stored."""
    found = training_time.stack_of(load(FITTED_ON))
    assert found is not None
    return found


def fit(data: Sequence[Row]) -> Stack:
    """The constants with the least error in logarithms."""
    start, low, high = (np.log(np.array(v)) for v in zip(*FIRST.values(), strict=True))
    own = base()

    def stack(logs: np.ndarray) -> Stack:
        values = dict(zip(FIRST, np.exp(logs).tolist(), strict=True))
        gemm = {k: values.pop(f"gemm.{k}") for k in own.gemm}
        return msgspec.structs.replace(own, gemm=gemm, **values)

    def residuals(logs: np.ndarray) -> np.ndarray:
        one = stack(logs)
        errors = [np.log(row.seconds(one) / row.measured_s) for row in data]
        return np.concatenate([errors, STIFF * (logs - start)])

    return stack(least_squares(residuals, start, bounds=(low, high)).x)


def left_out(data: Sequence[Row]) -> list[tuple[Row, float]]:
    """Each row with its time by constants that saw neither its model nor another generation."""
    fitted = [r for r in data if r.device == FITTED_ON and r.model not in HELD]
    pairs = []
    for model in sorted({r.model for r in data}):
        one = fit([r for r in fitted if r.model != model])
        pairs += [(r, r.seconds(one)) for r in data if r.model == model]
    return pairs


def main() -> None:
    """Fits, prints the errors, and stores the constants where asked."""
    data = list(rows())
    one = fit([r for r in data if r.device == FITTED_ON and r.model not in HELD])
    pairs = left_out(data)
    for row, seconds in pairs:
        print(f"{row.name:45} {row.measured_s:8.2f} s  x {seconds / row.measured_s:.2f}")
    near = [(r, s) for r, s in pairs if r.model not in HELD]
    own = [abs(s / r.measured_s - 1) for r, s in near if r.device == FITTED_ON]
    others = [abs(s / r.measured_s - 1) for r, s in near if r.device != FITTED_ON]
    print(f"{FITTED_ON} {np.mean(own):.1%}; other generations {np.mean(others):.1%}")
    if "--write" in sys.argv[1:]:
        inverse = np.array([r.measured_s / s for r, s in near])
        fields = msgspec.to_builtins(one) | {
            "low": min(0.95, float(np.quantile(inverse, 0.05))),
            "high": max(1.05, float(np.quantile(inverse, 0.95))),
            "rows": len(own),
            "error": float(np.mean(own)),
        }
        head = TARGET.read_text(encoding="utf-8").partition("[[stacks]]")[0]
        body = "".join(f"{k} = {toml(v)}\n" for k, v in fields.items())
        TARGET.write_text(f"{head}[[stacks]]\n{body}", encoding="utf-8")


if __name__ == "__main__":
    main()
