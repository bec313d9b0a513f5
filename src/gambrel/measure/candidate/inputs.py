"""Values on which a candidate is compared with its reference: random ones and unkind ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

#: Name of a set of inputs → what it is, for the report. The first is called twice more.
KINDS: Final = {
    "random": "random values",
    "other": "other random values in the same memory",
    "large": "values 100 times as large",
    "spikes": "zeros with a few large values",
    "narrow": "values of one sign that differ little",
}


#: Share of zeros above which they are no accident.
_ZEROS: Final = 0.01


def input_sets(example: Sequence[Any], seed: int) -> dict[str, list[Any]]:
    """Inputs like the example ones; whole numbers keep their values in another order.

    Args:
        example: Tensors on the CPU.
        seed: Nobody else knows it.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def like(tensor: Any, kind: str) -> Any:
        if not tensor.is_floating_point():
            order = torch.randperm(tensor.numel(), generator=generator)
            return tensor.reshape(-1)[order].reshape(tensor.shape) if kind != "random" else tensor
        # Inputs that are probabilities or positive stay so: values keep the sign of the example.
        random = torch.randn(tensor.shape, generator=generator)
        if tensor.numel() and bool((tensor >= 0).all()):
            random = random.abs().clamp(max=1.0)
        shaped = _shaped(random, kind, generator)
        if is_structured(tensor):
            shaped = shaped * (tensor != 0)
        return shaped.to(tensor.dtype)

    return {kind: [like(tensor, kind) for tensor in example] for kind in KINDS}


def _shaped(random: Any, kind: str, generator: Any) -> Any:
    import torch

    if kind == "large":
        return random * 100
    if kind == "spikes":
        return random * 30 * (torch.rand(random.shape, generator=generator) < 0.02)
    if kind == "narrow":
        return 1.0 + 0.01 * random
    return random


def is_structured(tensor: Any) -> bool:
    """Whether zeros are a part of what an input is: a triangle, a mask, one-hot rows."""
    zeros = int((tensor == 0).sum())
    return bool(_ZEROS * tensor.numel() < zeros < tensor.numel())


def varied(tensor: Any, number: int) -> Any:
    """Other values of the same kind for one of many calls, the same in every process.

    Args:
        tensor: The values of the first call.
        number: Says which; a candidate cannot foresee it.

    Returns:
        The values in another order; where zeros have their places, scaled by 0.5 to 1.5.
    """
    if is_structured(tensor):
        values = tensor * (0.5 + (number % 1024) / 1024)
        return values.to(tensor.dtype) if tensor.is_floating_point() else tensor
    return tensor.reshape(-1).roll(number % max(tensor.numel(), 1)).reshape(tensor.shape)


def smaller(example: Sequence[Any]) -> list[Any] | None:
    """The same with half of the first dimension; None where the inputs share none to cut."""
    first = {t.shape[0] for t in example if t.dim()}
    if len(first) != 1 or (size := first.pop()) < 2:
        return None
    return [t[: max(1, size // 2)].contiguous() if t.dim() else t for t in example]
