"""Ops that a compiler leaves to the host's processor, and what crosses between the two for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import msgspec

from gambrel.ops import OpView, TensorView, is_free
from gambrel.ops.base import Size, distinct_bytes, holds
from gambrel.runtimes import HostOps
from gambrel.workload import Op, Role

if TYPE_CHECKING:
    from gambrel.analysis.fusion.program import Priced


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Which ops run on the host.

    Attributes:
        ops: Their positions.
        sent: Position of an op of the device → storages that it wrote last and the host reads.
        fetched: Position of an op of the device → storages that the host wrote and it reads first.
    """

    ops: frozenset[int] = frozenset()
    sent: dict[int, set[int]] = msgspec.field(default_factory=dict)
    fetched: dict[int, set[int]] = msgspec.field(default_factory=dict)

    def sent_bytes(self, index: int, view: OpView, apart: Collection[int] = ()) -> Size:
        """Bytes that an op's results take to the host, but for the storages in ``apart``."""
        return _bytes(view.outputs, self.sent.get(index, set()).difference(apart))

    def fetched_bytes(self, index: int, view: OpView) -> Size:
        """Bytes that an op's operands take from the host."""
        return _bytes(view.inputs, self.fetched.get(index, set()))


def split(priced: Sequence[Priced], rule: HostOps | None) -> Split:
    """Divides the ops of a run between the device and its host.

    Args:
        priced: The ops in order.
        rule: What the compiler takes; None: everything.
    """
    if rule is None:
        return Split()
    ops = frozenset(_on_host(priced, rule))
    sent: dict[int, set[int]] = defaultdict(set)
    fetched: dict[int, set[int]] = defaultdict(set)
    writer: dict[int, int] = {}
    for index, (op, view, _) in enumerate(priced):
        if is_free(op.kind):
            continue
        for storage in {t.storage for t in view.inputs if t.storage in writer}:
            before = writer[storage]
            if (index in ops) is (before in ops):
                continue
            device, into = (before, sent) if index in ops else (index, fetched)
            into[device].add(storage)
            if into is fetched:
                writer[storage] = index  # now it is on the device as well
        writer.update(dict.fromkeys((t.storage for t in view.outputs), index))
    return Split(ops=ops, sent=sent, fetched=fetched)


def _on_host(priced: Sequence[Priced], rule: HostOps) -> Iterator[int]:
    taken = frozenset(rule.supported)
    left = False
    for index, (op, view, _) in enumerate(priced):
        if is_free(op.kind):
            continue
        alone = taken.isdisjoint(words_of(view))
        left = left or alone
        if alone or (rule.rest and left):
            yield index


def words_of(view: OpView) -> tuple[str, ...]:
    """What an op may be called in a runtime's list of the ops that its compiler takes.

    Its kind; its kind with what it computes (``elementwise:relu``, ``recurrent:lstm``); a matrix
    product with ``weight`` where one operand is one; a convolution with its dimensions (``2d``).
    """
    attrs, kind = view.attrs, view.kind
    words = [kind]
    function = attrs.get("function") or attrs.get("mode") or attrs.get("cell")
    if function:
        both = "bidirectional_" if view.sizes.get("directions", 1) != 1 else ""
        words.append(f"{kind}:{both}{function}")
    if kind == "pooling" and _even(view):
        words.append(f"{kind}:{str(function).removeprefix('adaptive_')}")
    if any(t.role == Role.WEIGHT for t in view.inputs):
        words.append(f"{kind}:weight")
    kernel = view.sizes.get("kernel")
    if isinstance(kernel, tuple) and not attrs.get("deformable"):
        words.append(f"{kind}:{len(kernel)}d")
    return tuple(words)


def _even(view: OpView) -> bool:
    """Whether all windows are of one size: an adaptive pooling is an ordinary one then."""
    if "covered" not in view.sizes:
        return False
    return holds(view.size("covered") == view.size("outputs") * view.size("window"))


def sentence(ops: Sequence[Op]) -> str:
    """Which ops run on the host, the first of them by name; empty where none does."""
    if not ops:
        return ""
    first = ops[0].attrs.get("function") or ops[0].kind
    where = f" in {ops[0].module}" if ops[0].module else ""
    others = sum(op.repeat for op in ops) - 1
    more = f" and {others:,} more ops" if others else ""
    return f"{first}{where}{more}, which the compiler leaves to the host's processor"


def _bytes(tensors: tuple[TensorView, ...], storages: AbstractSet[int]) -> Size:
    return distinct_bytes(tuple(t for t in tensors if t.storage in storages))
