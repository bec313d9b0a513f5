"""What a training plan takes for granted, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gambrel.llm.training_plan import TrainingPlan
from gambrel.llm.training_time import Parts

_OFFLOADED: Final = {
    name: tuple(
        text
        for part, text in (
            ("optimizer", "the host's own time for the update is unknown and not counted."),
            ("activations", "activations of all layers but two lie in the host's memory."),
        )
        if name in (part, "all")
    )
    for name in ("optimizer", "activations", "all")
}


_TUNED: Final[dict[str, tuple[str, ...]]] = {
    "tuned": (),
    "kernels": ("kernels run one after another, each as fast as alone; no exchange is hidden.",),
    "unfused": (
        "kernels run one after another, each as fast as alone; no exchange is hidden; attention "
        "writes its scores to memory and computes masked positions.",
    ),
}
#: Of tuned stacks, which follow the kernels of no runtime.
_FUSED: Final = (
    "kernels are fused, as by torch.compile or in Megatron-LM; runtime pytorch counts one for each "
    "op."
)
_EAGER: Final = "every op is a kernel of its own, as in PyTorch that is not compiled."


def assumed(plan: TrainingPlan, parts: Parts | None, layers: int) -> Iterator[str]:
    """What is taken for granted of the plan."""
    yield _hidden(plan, parts)
    pieces = plan.sharding.pipeline * plan.virtual
    if layers % pieces:
        yield (
            f"{layers} layers do not divide into {pieces} pieces: some have one more than others; "
            "the slowest stage and the fullest one count."
        )
    yield from _TUNED[plan.tuning]
    if plan.tuning == "tuned" and parts is not None:
        yield _EAGER if parts.eager else _FUSED
    yield from _OFFLOADED.get(plan.offload, ())
    yield (
        "weights, gradients and activations in the formats given; sums of gradients, master "
        "weights and both moments of AdamW in fp32; the allocator may reserve a few percent more."
    )


def _hidden(plan: TrainingPlan, parts: Parts | None) -> str:
    if plan.overlap is None and parts is not None:
        return "backward hides as much of the exchange of gradients as in the tuned runs."
    return f"{plan.overlap or 0.0:.0%} of the exchange of gradients is hidden behind backward."
