"""Channels last: convolutions that work on the layout that their kernels and neighbours have."""

from __future__ import annotations

from typing import Final

import msgspec

from gambrel.advise.links import StorageLinks
from gambrel.errors import InputError
from gambrel.workload import Op, Role, Workload

#: What keeps the order of elements, so that a layout passes through it.
_THROUGH: Final = frozenset({"elementwise", "normalization", "pooling", "interpolation"})


#: Ops whose operands libraries turn to channels last and back.
_TURNED: Final = frozenset({"convolution", "convolution_backward"})


def channels_last(workload: Workload) -> Workload:
    """The model with the channels of images last, as its convolutions' kernels want them.

    Convolutions turn nothing then; what that saves is known where their library's passes are. The
    copies go that bring the output of a convolution into another layout: those that change neither
    shape nor format and stand between a convolution and what reads its pixels as rows (or the
    other way round), with only element-wise ops, norms, pooling and interpolation between.

    Raises:
        InputError: It has no convolutions of images, or their channels are last already.
    """
    gone = _layout_copies(workload)
    if not gone and not has_turned(workload):
        raise InputError(
            f"{workload.name} has no convolutions of images with channels first, and no copies "
            "beside them that change the layout."
        )
    # Who reads a copy reads its source instead.
    source = {
        workload.tensors[workload.ops[i].outputs[0]].storage: workload.tensors[
            workload.ops[i].inputs[0]
        ].storage
        for i in gone
    }

    def origin(storage: int) -> int:
        while storage in source:
            storage = source[storage]
        return storage

    tensors = tuple(
        msgspec.structs.replace(t, storage=origin(t.storage)) if t.storage in source else t
        for t in workload.tensors
    )
    ops = tuple(_last(op) for i, op in enumerate(workload.ops) if i not in gone)
    return msgspec.structs.replace(workload, tensors=tensors, ops=ops)


def has_turned(workload: Workload) -> bool:
    """Whether it has convolutions of images whose channels are not known to be last.

    Kernels of one pixel or one channel are the same in both layouts: they say nothing.
    """
    return any(_is_of_images(op) and not op.attrs.get("channels_last") for op in workload.ops)


def _is_of_images(op: Op) -> bool:
    kernel, channels = op.sizes.get("kernel"), op.sizes.get("in_channels")
    if op.kind not in _TURNED or not isinstance(kernel, tuple) or len(kernel) < 2:
        return False
    return any(side != 1 for side in kernel) and channels != op.sizes.get("groups", 1)


def _last(op: Op) -> Op:
    if op.kind not in _TURNED:
        return op
    return msgspec.structs.replace(op, attrs={**op.attrs, "channels_last": True})


def has_layout_copies(workload: Workload) -> bool:
    """Whether `channels_last` would drop a copy."""
    return not workload.training and bool(_layout_copies(workload))


def _layout_copies(workload: Workload) -> frozenset[int]:
    if not any(op.kind == "convolution" for op in workload.ops):
        return frozenset()
    links = StorageLinks(workload)
    found = set()
    for index, op in enumerate(workload.ops):
        if not _is_layout_copy(workload, op):
            continue
        source, target = (workload.tensors[op.inputs[0]], workload.tensors[op.outputs[0]])
        above = _above(workload, links.writer, source.storage)
        below = _below(workload, links.readers, target.storage)
        if above == "convolution" or "convolution" in below:
            found.add(index)
    return frozenset(found)


def _is_layout_copy(workload: Workload, op: Op) -> bool:
    if op.kind != "copy" or op.attrs.get("function") != "clone" or len(op.inputs) != 1:
        return False
    source, target = workload.tensors[op.inputs[0]], workload.tensors[op.outputs[0]]
    moved = {source.role, target.role} <= {Role.ACTIVATION}
    same = (source.shape, source.dtype) == (target.shape, target.dtype)
    return moved and same and source.elements is None and len(source.shape) >= 3


def _above(workload: Workload, writer: dict[int, int], storage: int) -> str:
    """Kind of the op that a storage comes from, through those that keep the layout."""
    for _ in range(len(workload.ops)):
        index = writer.get(storage)
        if index is None:
            return ""
        op = workload.ops[index]
        if op.kind not in _THROUGH or not op.inputs:
            return op.kind
        storage = workload.tensors[op.inputs[0]].storage
    return ""


def _below(workload: Workload, readers: dict[int, list[int]], storage: int) -> set[str]:
    """Kinds of the ops that read a storage, through those that keep the layout."""
    kinds, seen, waiting = set(), {storage}, [storage]
    while waiting:
        for index in readers[waiting.pop()]:
            op = workload.ops[index]
            kinds.add(op.kind)
            for i in op.outputs if op.kind in _THROUGH else ():
                if workload.tensors[i].storage not in seen:
                    seen.add(workload.tensors[i].storage)
                    waiting.append(workload.tensors[i].storage)
    return kinds
