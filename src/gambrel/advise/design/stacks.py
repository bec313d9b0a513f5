"""How deep consecutive layers fuse: those whose weights and rows in flight stay on chip together.

In a fused group only its input and output and the weights cross the DRAM interface. Of each
intermediate image the group keeps the rows that the next filter needs (Alwani, Chen, Ferdman and
Milder, "Fused-layer CNN accelerators", MICRO 2016), of each intermediate of a GEMM one row; weights
of all its layers stay. Groups are formed greedily in the order of the layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gambrel.advise.design.record import FusionDepth
from gambrel.analysis.fusion import Kernel
from gambrel.ops import OpView, is_free
from gambrel.ops.base import TensorView


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedStep:
    """A layer in a chain.

    Attributes:
        resident_bytes: Weights, and rows of its input that it needs at once.
        traffic_bytes: That it moves alone.
        inner_bytes: Saved where the layer before is on chip with it: its result is not read, nor
            written where nothing else reads it.
    """

    resident_bytes: float
    traffic_bytes: float
    inner_bytes: float


def fused_groups(steps: Sequence[FusedStep], on_chip_bytes: float) -> list[list[FusedStep]]:
    """Consecutive layers that stay on chip together; a layer that does not fit is alone."""
    groups: list[list[FusedStep]] = []
    held = 0.0
    for step in steps:
        if groups and held + step.resident_bytes <= on_chip_bytes:
            groups[-1].append(step)
            held += step.resident_bytes
        else:
            groups.append([step])
            held = step.resident_bytes
    return groups


def fusion_depth(name: str, chain: Sequence[FusedStep], on_chip_bytes: float) -> FusionDepth | None:
    """The groups of a model; None without layers."""
    groups = fused_groups(chain, on_chip_bytes)
    if not groups:
        return None
    kept = sum(step.inner_bytes for group in groups for step in group[1:])
    return FusionDepth(
        model=name,
        stacks=len(groups),
        deepest=max(map(len, groups)),
        mean=len(chain) / len(groups),
        traffic_bytes=sum(step.traffic_bytes for step in chain) - kept,
    )


def chain_of(kernels: Sequence[Kernel], priced: Sequence[Any]) -> tuple[FusedStep, ...]:
    """The kernels of a model in order, as steps that may fuse."""
    views = [
        [priced[i][1] for i in kernel.ops if not is_free(priced[i][0].kind)] for kernel in kernels
    ]
    readers = Counter(t for own in views for t in {t.storage for v in own for t in v.inputs})
    steps, written = [], dict[int, float]()
    for kernel, own in zip(kernels, views, strict=True):
        read = {t.storage for view in own for t in view.inputs}
        shared = {s: n for s, n in written.items() if s in read}
        saved = sum(n * (2 if readers[s] == 1 else 1) for s, n in shared.items())
        traffic = float(kernel.traffic_bytes)
        steps.append(
            FusedStep(
                resident_bytes=sum(map(_resident, own)),
                traffic_bytes=traffic,
                inner_bytes=min(saved * kernel.repeat, traffic),
            )
        )
        written = {t.storage: float(t.nbytes) for view in own for t in view.outputs}
    return tuple(steps)


def _resident(view: OpView) -> float:
    """Weights, and what is needed at once of the first input."""
    weights = sum(float(t.nbytes) for t in view.inputs if t.role in ("weight", "buffer"))
    if view.kind == "attention":
        return weights + sum(float(t.nbytes) for t in view.inputs[1:3])
    return weights + (_rows(view, view.inputs[0]) if view.inputs else 0.0)


def _rows(view: OpView, image: TensorView) -> float:
    """The rows that a filter needs at once; of anything else one row."""
    lines = [int(n) for n in image.shape]
    if image.role in ("weight", "buffer") or not lines:
        return 0.0
    each = float(image.nbytes) / max(1, int(image.elements))
    if view.kind != "convolution" or len(lines) != 4:
        return lines[-1] * each
    kernel = [int(n) for n in view.size("kernel")]
    channels = int(view.size("in_channels"))
    width = lines[3] if lines[1] == channels else lines[2]
    return (1, *kernel)[-2] * width * channels * each
