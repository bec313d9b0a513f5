"""Outputs that nothing uses are not compulsory traffic."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gambrel.workload.model import Op, Role, Workload


def drop_unused_outputs(workload: Workload) -> Workload:
    """Removes auxiliary outputs that no op reads and the model does not return.

    Frameworks hand out more than a model asks for: the indices of a max-pooling, the statistics of
    a normalization, the log-sum-exp of an attention, a last hidden state. Which of them come out
    depends on the framework's version, not on the model; the first output of an op always stays.

    Args:
        workload: As captured.

    Returns:
        The same ops without those outputs, tensors renumbered.
    """
    tensors = workload.tensors
    used = {tensors[i].storage for op in workload.ops for i in op.inputs}
    used |= {tensors[i].storage for i in workload.outputs}

    def kept(op: Op) -> tuple[int, ...]:
        return op.outputs[:1] + tuple(
            i
            for i in op.outputs[1:]
            if tensors[i].storage in used or tensors[i].role is not Role.ACTIVATION
        )

    ops = [msgspec.structs.replace(op, outputs=kept(op)) for op in workload.ops]
    return renumbered(workload, ops, unread=True)


def renumbered(workload: Workload, ops: Sequence[Op], *, unread: bool = False) -> Workload:
    """The workload with these ops, without tensors that no op and no output refers to.

    Args:
        workload: Its tensors and outputs.
        ops: Those that are kept.
        unread: Keep what the model owns or is given, read or not.
    """
    referred = {i for op in ops for i in (*op.inputs, *op.outputs)} | set(workload.outputs)
    keep = [
        i
        for i, t in enumerate(workload.tensors)
        if i in referred or (unread and t.role is not Role.ACTIVATION)
    ]
    index = {old: new for new, old in enumerate(keep)}
    return msgspec.structs.replace(
        workload,
        tensors=tuple(workload.tensors[i] for i in keep),
        ops=tuple(
            msgspec.structs.replace(
                op,
                inputs=tuple(index[i] for i in op.inputs),
                outputs=tuple(index[i] for i in op.outputs),
            )
            for op in ops
        ),
        outputs=tuple(index[i] for i in workload.outputs),
    )
