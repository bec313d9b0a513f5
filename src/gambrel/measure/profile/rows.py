"""The rows of a profile: the ops of an analysis, with the optimizer's updates as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gambrel.analysis.bounding import Roofs, add
from gambrel.analysis.result import OpResult
from gambrel.measure.profile.join import short_name

#: Under this name a row is joined with the call of the whole optimizer.
OPTIMIZER_NAME: Final = "optimizer"


def rows_of(ops: Sequence[OpResult], roofs: Roofs) -> tuple[OpResult, ...]:
    """One row an op; all updates of an optimizer are one, since they run as one call.

    Args:
        ops: Of an analysis.
        roofs: Of its device.
    """
    updates = [op for op in ops if op.phase == OPTIMIZER_NAME]
    if not updates:
        return tuple(ops)
    others = tuple(op for op in ops if op.phase != OPTIMIZER_NAME)
    name = updates[0].op or OPTIMIZER_NAME
    return (*others, merged(updates, roofs, f"{name} ({len(updates)} updates)", updates[0].kind))


def merged(parts: Sequence[OpResult], roofs: Roofs, name: str, kind: str) -> OpResult:
    """Several ops as one row: work, traffic and times add.

    Args:
        parts: At least one.
        roofs: Of the device.
        name: Of the row.
        kind: Of the row.
    """
    return msgspec.structs.replace(
        parts[0],
        name=name,
        kind=kind,
        module=common_module([p.module for p in parts]),
        count=sum(p.count for p in parts),
        shapes=parts[0].shapes if len(parts) == 1 else "",
        measures=add((p.measures for p in parts), roofs),
        launches=sum(p.launches for p in parts),
    )


def join_name(op: OpResult) -> str:
    """The name under which the profiler has the call of a row."""
    return OPTIMIZER_NAME if op.phase == OPTIMIZER_NAME else short_name(op.op)


def common_module(paths: Sequence[str]) -> str:
    """The innermost module that holds all of them; empty for the model itself."""
    split = [path.split(".") if path else [] for path in paths]
    shared = []
    for names in zip(*split, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return ".".join(shared)
