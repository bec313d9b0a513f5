"""The rows of a profile: the ops of an analysis, with the optimizer's updates as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gambrel.analysis.result import OpResult
from gambrel.analysis.roofs import Roofs
from gambrel.analysis.scopes import add
from gambrel.measure.profile.join import ProfiledCall, short_name, wholes

#: Under this name a row is joined with the call of the whole optimizer.
OPTIMIZER_NAME: Final = "optimizer"


def rows_of(ops: Sequence[OpResult], roofs: Roofs) -> tuple[OpResult, ...]:
    """One row per op; all updates of an optimizer are one, since they run as one call.

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


def as_run(
    rows: Sequence[OpResult], calls: Sequence[ProfiledCall], roofs: Roofs, *, device: bool
) -> tuple[OpResult, ...]:
    """The rows, with those as one that ran as one call of another name.

    Args:
        rows: As `rows_of` gives them.
        calls: The outermost calls of one step.
        roofs: Of the device.
        device: Whether times are those of kernels.
    """
    groups = wholes(calls, [join_name(row) for row in rows], device=device)
    first = {positions[0]: (positions, name) for positions, name in groups}
    inside = {i for positions, _ in groups for i in positions}
    found = []
    for i, row in enumerate(rows):
        if i in first:
            positions, name = first[i]
            found.append(_whole([rows[p] for p in positions], roofs, name))
        elif i not in inside:
            found.append(row)
    return tuple(found)


def _whole(parts: Sequence[OpResult], roofs: Roofs, name: str) -> OpResult:
    """Ops as one row that is joined with the calls of a name."""
    if len(parts) == 1:
        return msgspec.structs.replace(parts[0], op=name)
    module = common_module([p.module for p in parts])
    title = f"{module}.{name}" if module else name
    row = merged(parts, roofs, f"{title} ({len(parts)} ops)", "fused kernel")
    return msgspec.structs.replace(row, op=name)


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
