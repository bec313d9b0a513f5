"""Work and traffic of all items of a table together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gambrel.ops.base import Engine

if TYPE_CHECKING:
    from gambrel.analysis.costs import Item


class TableSums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over a table: (class of work, number format, prunable) → FLOP, and bytes."""

    work: dict[tuple[str, str, bool], int]
    read_bytes: int
    write_bytes: int
    link_bytes: int


def sums_of(items: Sequence[Item]) -> TableSums:
    """The sums of a run, at one point.

    Args:
        items: Of the table.
    """
    work: dict[tuple[Engine, str, bool], int] = defaultdict(int)
    for item in items:
        for key, flops in item.cost.work.items():
            work[(*key, item.cost.prunable)] += round(flops) * item.count
    sent = (i.cost.link_bytes + i.cost.network_bytes for i in items)
    return TableSums(
        work={(e.value, d, p): n for (e, d, p), n in work.items() if n},
        read_bytes=sum(round(i.cost.read_bytes) * i.count for i in items),
        write_bytes=sum(round(i.cost.write_bytes) * i.count for i in items),
        link_bytes=sum(round(n) * i.count for n, i in zip(sent, items, strict=True)),
    )
