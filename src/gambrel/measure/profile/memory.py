"""Peak memory of a step on the CPU, from the allocations that torch's profiler records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from gambrel.measure.profile.quiet import quiet

#: What torch's profiler calls an allocation or a release.
_MEMORY: Final = "[memory]"


def peak_of(call: Callable[[], Any], held: Iterable[Any]) -> int | None:
    """Most bytes that torch's allocator held at once during one step, with what was there before.

    Memory that libraries keep for themselves (packed weights, thread stacks) is not in it.

    Args:
        call: One step.
        held: Tensors that are alive throughout: weights, buffers, inputs.

    Returns:
        None where this version of torch records no allocations.
    """
    from torch.profiler import ProfilerActivity, profile

    with quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    results = getattr(profiler.profiler, "kineto_results", None)
    if results is None:
        return None
    found = [(e.start_ns(), e.nbytes()) for e in results.events() if e.name() == _MEMORY]
    return bytes_of(held) + highest(found) if found else None


def highest(changes: Sequence[tuple[int, int]]) -> int:
    """The highest sum on the way through changes in order of time.

    Args:
        changes: Time and bytes, negative where memory is released.
    """
    now = most = 0
    for _, nbytes in sorted(changes, key=lambda change: change[0]):
        now += nbytes
        most = max(most, now)
    return most


def others_on(device: str, own: Iterable[Any]) -> int:
    """Bytes that torch holds on a GPU for something else.

    Args:
        device: As torch names it.
        own: Tensors, on any device, that do not count as something else.
    """
    import torch

    here = torch.device(device)
    index = torch.cuda.current_device() if here.index is None else here.index
    there = [t for t in own if t.device.type == here.type and t.device.index == index]
    return max(0, int(torch.cuda.memory_allocated(index)) - bytes_of(there))


def bytes_of(tensors: Iterable[Any]) -> int:
    """Bytes of the storages of tensors, each once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())
