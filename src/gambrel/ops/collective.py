"""Collectives: bytes that each device sends over its link, by the ring algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gambrel.dtypes import width_bytes
from gambrel.ops.base import Cost, OpView, Size, formula, minimum, rounded, work

_Sent = Callable[[Size, Size], Size]


def _all_but_own(payload: Size, devices: Size) -> Size:
    """(d - 1)/d of the payload: d - 1 steps, a d-th of it each."""
    return rounded(payload * (devices - 1) / devices)


#: Function → bytes sent by each of d devices. Payload: the whole vector, that is the input of
#: all_reduce, reduce_scatter and all_to_all, the output of all_gather, the message otherwise.
#: Rings: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (JPDC 69, 2009).
_SENT: Final[Mapping[str, _Sent]] = {
    "all_gather": _all_but_own,
    "reduce_scatter": _all_but_own,
    "all_to_all": _all_but_own,
    # A reduce-scatter followed by an all-gather.
    "all_reduce": lambda payload, devices: 2 * _all_but_own(payload, devices),
    # A pipeline: each device passes the message on, whole, to the next, if there is one.
    **dict.fromkeys(("broadcast", "reduce", "send"), lambda n, d: n * minimum(d - 1, 1)),
}

_REDUCING: Final = frozenset({"all_reduce", "reduce_scatter"})


@formula("collective")
def collective(op: OpView) -> Cost | None:
    """All-gather, reduce-scatter, all-to-all: (d - 1)/d of the payload; all-reduce twice that.

    A device adds every chunk that it receives while reducing: (d - 1)/d of the elements. Its memory
    reads the inputs and writes the outputs once.

    Sizes: payload_bytes, devices. Attrs: function. On one device nothing is sent.
    """
    name = str(op.attrs.get("function"))
    sent = _SENT.get(name)
    if sent is None:
        return None
    payload, devices = op.size("payload_bytes"), op.size("devices")
    additions: Size = 0
    if name in _REDUCING:
        additions = rounded(_all_but_own(payload, devices) / width_bytes(op.dtype))
    return Cost(work=work(op.dtype, vector=additions), link_bytes=sent(payload, devices))
