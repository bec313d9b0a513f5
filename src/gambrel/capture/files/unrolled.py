"""Recurrent layers that an export spelled out step by step."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec.structs import replace

from gambrel.workload import Role, Workload

#: From so many steps on, and with a tanh each, what reads one weight again is a recurrence; shared
#: layers and heads are read less often or by modules of several names.
_STEPS: Final = 8


def mention_unrolled(workload: Workload) -> Workload:
    """The workload with a sentence on layers whose weights every step reads, if any."""
    bends = Counter(op.module for op in workload.ops if op.name == "aten.tanh")
    reads: Counter[tuple[str, int]] = Counter()
    for op in workload.ops:
        if op.kind == "matmul" and bends[op.module] >= _STEPS:
            reads.update((op.module, s) for s in _weights(workload, op.inputs))
    steps: dict[str, int] = {}
    for (module, _), count in reads.items():
        if count >= _STEPS:
            steps[module] = max(count, steps.get(module, 0))
    if not steps:
        return workload
    sentence = (
        f"{', '.join(m or 'the model' for m in list(steps)[:3])}: a recurrent layer is spelled out "
        f"in {max(steps.values())} steps, each of which reads the weights again; export without "
        "run_decompositions() to keep it one op."
    )
    return replace(workload, assumptions=(*workload.assumptions, sentence))


def _weights(workload: Workload, indices: tuple[int, ...]) -> set[int]:
    tensors = (workload.tensors[i] for i in indices)
    return {t.storage for t in tensors if t.role is Role.WEIGHT}
