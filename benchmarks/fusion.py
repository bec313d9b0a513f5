"""Kernels and traffic of ``torch-compile`` against torch's own compiler.

Compares with the stored observations in ``data/fusion`` (see `fusion_oracle.py`, which takes 10 to
60 s a model to make them anew). No torch is needed here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from common import report
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.fusion import Kernel, group
from gambrel.ops import Conventions
from gambrel.runtimes import Kernels
from gambrel.workload import Workload
from gambrel.workload.serialize import load_workload

DATA = Path(__file__).resolve().parent / "data" / "fusion"

#: Why a figure is not the compiler's, where it is not.
REASONS = {
    "convnext_tiny": "torch copies the first norm's result to another layout (2.4 MB)",
    "sd15_unet": "activations of the time embedding fuse in larger groups here; torch computes "
    "residual sums again when it copies them into a concatenation",
    "swin_t": "kernels for the cyclic shift's mask; norms that are recomputed",
    "t5_small": "the position bias is copied once for several layers in torch",
}

#: Added after the rules were written. One rule was found on densenet121 later: concatenations.
HELD_OUT = ("densenet121", "efficientnet_b0", "whisper_base")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both sides of one model."""

    model: str
    ops: int
    extern: tuple[int, int]
    fused: tuple[int, int]
    fused_bytes: tuple[int, int]
    total_bytes: tuple[int, int]
    eager_bytes: int
    eager_kernels: int
    ms: float

    @property
    def fused_ratio(self) -> float:
        return self.fused_bytes[0] / self.fused_bytes[1]

    @property
    def total_ratio(self) -> float:
        return self.total_bytes[0] / self.total_bytes[1]


def models(flavour: str = "gpu") -> list[str]:
    """The models with a stored observation."""
    return sorted(p.name.removesuffix(f".{flavour}.json") for p in DATA.glob(f"*.{flavour}.json"))


def program(model: str) -> tuple[Workload, Evaluator]:
    """The program that the compiler was given."""
    workload = load_workload(DATA / f"{model}.workload.json.gz")
    return workload, Evaluator(workload, {}, {}, Conventions())


def compare(model: str, flavour: str = "gpu") -> Comparison:
    """Groups a stored program and holds the result against the stored observation."""
    oracle = msgspec.json.decode((DATA / f"{model}.{flavour}.json").read_bytes())
    workload, evaluator = program(model)
    priced = tuple(evaluator.costs())
    seconds = []
    for _ in range(5):
        start = time.process_time()
        kernels = group(workload, priced, Kernels.POINTWISE)
        seconds.append(time.process_time() - start)
    eager = group(workload, priced, Kernels.OP)
    fused = [k for k in kernels if k.kind.startswith("fused")]
    extern = [k for k in kernels if not k.kind.startswith("fused")]
    copies = _copies(extern, eager)
    theirs = sum(k["read_bytes"] + k["write_bytes"] for k in oracle["fused"])
    return Comparison(
        model=model,
        ops=len(workload.ops),
        extern=(len(extern), sum(oracle["extern"].values())),
        fused=(sum(k.launches for k in (*fused, *extern)) - len(extern), len(oracle["fused"])),
        fused_bytes=(_bytes(fused) + copies, theirs),
        # The library kernels are the same on both sides; their bytes are counted in one way.
        total_bytes=(_bytes(fused) + _bytes(extern), theirs + _bytes(extern) - copies),
        eager_bytes=_bytes(eager),
        eager_kernels=len(eager),
        ms=min(seconds) * 1e3,
    )


def _copies(extern: list[Kernel], eager: tuple[Kernel, ...]) -> int:
    """Bytes that copies of weights take before library kernels: no library kernels themselves."""
    alone = {k.ops: k.traffic_bytes for k in eager}
    return sum(max(0, k.traffic_bytes - alone[k.ops]) for k in extern)


def _bytes(kernels: list[Kernel] | tuple[Kernel, ...]) -> int:
    return sum(k.traffic_bytes for k in kernels)


def main() -> None:
    found = [compare(model) for model in models()]
    report(
        "fusion",
        "Kernels of torch-compile against torch.compile",
        [
            "model",
            "ops",
            "library kernels, own / torch",
            "fused kernels, own / torch",
            "fused MB, own / torch",
            "ratio",
            "all MB, op by op -> compiled",
            "ratio of all",
            "CPU ms",
            "what differs",
        ],
        [row(c) for c in found],
        notes=[
            "torch's groups: its scheduler with the rules for GPUs, on fake tensors, stopped after "
            "fusion (`python benchmarks/fusion_oracle.py`); attention is one opaque kernel.",
            "Bytes of a fused kernel: each distinct access once, only looked-up rows of a table; "
            "torch's own figure counts whole tables.",
            "Goal: library kernels equal, traffic of all kernels within 5 %, fused kernels within "
            "20 %.",
            f"Added after the rules were written: {', '.join(HELD_OUT)}. The rule for "
            "concatenations was found on densenet121, and holds on the others.",
            "CPU ms: least of five groupings, on a machine that others shared.",
        ],
        packages=("gambrel", "torch", "transformers", "diffusers"),
    )
    missed = [c.model for c in found if not within(c)]
    if missed:
        raise SystemExit(f"outside the goal: {', '.join(missed)}")


def within(c: Comparison) -> bool:
    """Whether a model reaches the goal."""
    kernels = c.fused[0] / c.fused[1]
    return c.extern[0] == c.extern[1] and abs(c.total_ratio - 1) <= 0.05 and 0.8 <= kernels <= 1.2


def row(c: Comparison) -> list[object]:
    own, torch = c.fused_bytes
    return [
        c.model,
        c.ops,
        f"{c.extern[0]} / {c.extern[1]}",
        f"{c.fused[0]} / {c.fused[1]}",
        f"{own / 1e6:,.1f} / {torch / 1e6:,.1f}",
        f"{c.fused_ratio:.3f}",
        f"{c.eager_bytes / 1e6:,.0f} -> {c.total_bytes[0] / 1e6:,.0f}",
        f"{c.total_ratio:.3f}",
        f"{c.ms:.1f}",
        REASONS.get(c.model, ""),
    ]


if __name__ == "__main__":
    main()
