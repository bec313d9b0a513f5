"""Pruning channels: the same model with a share of its inner channels taken out, exactly.

Channels can go where everything that carries them is known: a *group* of tensors joined by
element-wise ops, norms, pooling and depthwise convolutions, written only by matmuls with weights
and read only by matmuls with weights. A hidden layer of a feed-forward block is such a group, the
inner channels of a bottleneck, and the channels of a whole residual stage. Groups that meet
anything else (attention, concatenation, inputs, outputs) stay as they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import msgspec

from gambrel.errors import InputError
from gambrel.workload import Op, Role, Tensor, Workload
from gambrel.workload.symbols import Dim, Polynomial, parse

_THROUGH: Final = frozenset({"elementwise", "normalization", "pooling", "interpolation"})
#: Sizes that count values, and so scale with the channels.
_COUNTS: Final = ("elements", "outputs", "covered")
#: Pruned channels come in multiples of this, as matrix engines want them.
_MULTIPLE: Final = 8


@dataclass(slots=True)
class _Group:
    """Tensors that share channels.

    Attributes:
        channels: How many; 0 until known.
        is_open: Whether anything touches them that pruning does not understand.
        storages: Of activations.
        ops: Index → how it meets the group: ``out``, ``in`` or ``through``.
    """

    channels: int = 0
    is_open: bool = False
    storages: set[int] = field(default_factory=set)
    ops: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))


def pruned(workload: Workload, share: float) -> Workload:
    """The model with a share of the channels of every closed group taken out.

    Args:
        workload: Of inference.
        share: Between 0 and 1, e.g. 0.3; rounded so that multiples of 8 channels stay.

    Raises:
        InputError: A share that is none, or no group of channels that can go.
    """
    if not 0 < share < 1:
        raise InputError(f"prune={share:.0%}: give a share between 0 and 1, e.g. prune=30%.")
    kept = {
        id(group): (group, new)
        for group in _groups(workload)
        if (new := _kept(group.channels, share)) < group.channels
    }
    if not kept:
        raise InputError(f"{workload.name} has no inner channels that could be pruned alone.")
    rewriter = _Rewriter(workload)
    for group, new in kept.values():
        rewriter.shrink(group, new)
    return rewriter.done()


def prunable(workload: Workload) -> bool:
    """Whether `pruned` would take out anything."""
    return not workload.training and any(g.channels > _MULTIPLE for g in _groups(workload))


def _kept(channels: int, share: float) -> int:
    multiple = _MULTIPLE if channels % _MULTIPLE == 0 else 1
    return max(multiple, round(channels * (1 - share) / multiple) * multiple)


def _groups(workload: Workload) -> list[_Group]:
    """The closed groups of channels."""
    joined = _Joined()
    tensors = workload.tensors
    for op in workload.ops:
        if op.kind in _THROUGH or _is_depthwise(op):
            joined.unite(tensors[i].storage for i in _carried(op, tensors))
    groups: dict[int, _Group] = defaultdict(_Group)
    for index, op in enumerate(workload.ops):
        for i, way, channels in _meetings(op, tensors):
            group = groups[joined.root(tensors[i].storage)]
            group.ops[index].add(way)
            if channels:
                group.is_open |= group.channels not in (0, channels)
                group.channels = channels
    shared = _shared_weights(workload)
    for group in list(groups.values()):
        group.is_open |= any(
            tensors[i].storage in shared for o in group.ops for i in workload.ops[o].inputs
        )
    for index, t in enumerate(tensors):
        group = groups[joined.root(t.storage)]
        group.storages.add(t.storage)
        outside = t.role not in (Role.ACTIVATION,) or index in workload.outputs
        group.is_open |= outside or t.elements is not None or t.offset != 0
    closed = [g for g in groups.values() if _is_closed(g)]
    of: dict[int, list[Tensor]] = defaultdict(list)
    for t in tensors:
        of[t.storage].append(t)
    return [
        g
        for g in closed
        if all(_place(t, g.channels) is not None for s in g.storages for t in of[s])
    ]


def _shared_weights(workload: Workload) -> set[int]:
    """Storages of parameters that more than one op reads."""
    reads: Counter[int] = Counter()
    for op in workload.ops:
        reads.update({workload.tensors[i].storage for i in op.inputs})
    return {t.storage for t in workload.tensors if t.role == Role.WEIGHT and reads[t.storage] > 1}


def _is_closed(group: _Group) -> bool:
    ways = [way for found in group.ops.values() for way in found]
    return (
        not group.is_open
        and group.channels > 0
        and {"out", "in"} <= set(ways)
        and ("other" not in ways)
    )


def _meetings(op: Op, tensors: tuple[Tensor, ...]) -> list[tuple[int, str, int]]:
    """(activation, how the op meets its channels, their number where the op tells)."""
    if op.kind in _THROUGH or _is_depthwise(op):
        channels = _int(op.sizes.get("in_channels")) if _is_depthwise(op) else 0
        return [(i, "through", channels) for i in _carried(op, tensors)]
    known = _channels(op, tensors)
    if known is None or op.phase != "forward":
        return [(i, "other", 0) for i in (*op.inputs, *op.outputs)]
    found = [(op.inputs[0], "in", known[0])]
    found += [(i, "out", known[1]) for i in op.outputs]
    return found + [(i, "other", 0) for i in op.inputs[1:] if tensors[i].role != Role.WEIGHT]


def _channels(op: Op, tensors: tuple[Tensor, ...]) -> tuple[int, int] | None:
    """Channels in and out of a product with a weight; None for anything else."""
    if len(op.inputs) < 2 or tensors[op.inputs[1]].role != Role.WEIGHT:
        return None
    if tensors[op.inputs[0]].role == Role.WEIGHT:
        return None
    names = {"matmul": ("k", "n"), "convolution": ("in_channels", "out_channels")}.get(op.kind)
    plain = not op.attrs.get("transposed") and op.sizes.get("groups", 1) == 1
    if names is None or not plain or op.sizes.get("b", 1) != 1 or op.attrs.get("dequantize"):
        return None
    into, out = (_int(op.sizes.get(name)) for name in names)
    return (into, out) if into and out else None


def _carried(op: Op, tensors: tuple[Tensor, ...]) -> list[int]:
    """The tensors of an op that carry channels: not its parameters, not scalars."""
    inputs = op.inputs[:1] if op.kind != "elementwise" else op.inputs
    skip = (Role.WEIGHT, Role.BUFFER, Role.CONSTANT)
    return [i for i in (*inputs, *op.outputs) if tensors[i].shape and tensors[i].role not in skip]


def _is_depthwise(op: Op) -> bool:
    groups = _int(op.sizes.get("groups"))
    both = (op.sizes.get("in_channels"), op.sizes.get("out_channels"))
    return op.kind == "convolution" and groups > 1 and both == (groups, groups)


def _place(tensor: Tensor, channels: int) -> int | None:
    """The dimension that holds the channels; None where it is not clear."""
    found = [d for d, size in enumerate(tensor.shape) if size == channels]
    return found[0] if len(found) == 1 else None


def _int(dim: object) -> int:
    return dim if isinstance(dim, int) else 0


class _Joined:
    """Disjoint sets of storages."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def root(self, storage: int) -> int:
        parent = self._parent
        while (above := parent.get(storage, storage)) != storage:
            # A residual stream joins hundreds of storages: each step halves the path behind it.
            parent[storage] = parent.get(above, above)
            storage = parent[storage]
        return storage

    def unite(self, storages: Iterable[int]) -> None:
        roots = [self.root(s) for s in storages]
        for other in roots[1:]:
            if (a := self.root(other)) != (b := self.root(roots[0])):
                self._parent[a] = b


class _Rewriter:
    """Shrinks groups one after another."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._tensors = list(workload.tensors)
        self._ops = list(workload.ops)
        self._of: dict[int, list[int]] = defaultdict(list)
        for index, t in enumerate(workload.tensors):
            self._of[t.storage].append(index)

    def done(self) -> Workload:
        return msgspec.structs.replace(
            self._workload, tensors=tuple(self._tensors), ops=tuple(self._ops)
        )

    def shrink(self, group: _Group, new: int) -> None:
        """Leaves ``new`` channels to a group."""
        old = group.channels
        for storage in group.storages:
            for index in self._of[storage]:
                self._resize(index, old, new, _place(self._tensors[index], old))
        for index, ways in group.ops.items():
            op = self._ops[index]
            if "through" in ways:
                self._ops[index] = self._through(op, old, new)
                self._parameters(op, old, new)
            if "in" in ways:
                self._product(index, new, into=True)
            if "out" in ways:
                self._product(index, new, into=False)

    def _product(self, index: int, new: int, *, into: bool) -> None:
        """A weight with fewer inputs or outputs, and its bias."""
        op = self._ops[index]
        conv = op.kind == "convolution"
        name = ("in_channels" if into else "out_channels") if conv else ("k" if into else "n")
        old = _int(op.sizes[name])
        place = (1 if into else 0) if conv else (0 if into else 1)
        self._weight(op.inputs[1], old, new, place)
        if not into:
            self._parameters(op, old, new, first=2)
        sizes = {**op.sizes, name: new}
        self._ops[index] = msgspec.structs.replace(op, sizes=sizes)

    def _weight(self, tensor: int, old: int, new: int, place: int) -> None:
        """Every view of a weight; a transposed one has its dimensions the other way round."""
        shape = self._tensors[tensor].shape
        for index in self._of[self._tensors[tensor].storage]:
            same = self._tensors[index].shape == shape
            self._resize(index, old, new, place if same else len(shape) - 1 - place)

    def _parameters(self, op: Op, old: int, new: int, first: int = 1) -> None:
        """Biases, and the parameters of norms and depthwise convolutions."""
        for tensor in op.inputs[first:]:
            if self._tensors[tensor].role in (Role.WEIGHT, Role.BUFFER):
                for index in self._of[self._tensors[tensor].storage]:
                    self._resize(index, old, new, 0)

    def _through(self, op: Op, old: int, new: int) -> Op:
        scale = Fraction(new, old)
        sizes = dict(op.sizes)
        for name in _COUNTS:
            if name in sizes:
                sizes[name] = _scaled(sizes[name], scale)  # type: ignore[arg-type]
        for name in ("groups", "in_channels", "out_channels"):
            if sizes.get(name) == old and op.attrs.get("function") != "group_norm":
                sizes[name] = new
        return msgspec.structs.replace(op, sizes=sizes)

    def _resize(self, index: int, old: int, new: int, place: int | None) -> None:
        t = self._tensors[index]
        if place is None or place >= len(t.shape) or t.shape[place] != old:
            return
        shape = (*t.shape[:place], new, *t.shape[place + 1 :])
        self._tensors[index] = msgspec.structs.replace(t, shape=shape)


def _scaled(dim: Dim, scale: Fraction) -> Dim:
    if isinstance(dim, int):
        return int(dim * scale)
    return Polynomial({m: c * scale for m, c in parse(dim).terms.items()}).as_dim()
