"""What would hold a model that nothing asked for holds: more devices, or narrower formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gambrel.llm.layouts import candidates
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.question import Requests
from gambrel.llm.serving.steps import Setup, memory
from gambrel.llm.sharding import Sharding
from gambrel.llm.topology import Topology

#: Schemes to look at, widest first.
_NARROWER: Final = ("fp8", "w4a16")
#: Most devices of one replica that are looked at.
_MOST: Final = 1024
#: Devices of a node where its size is not known.
_NODE: Final = 8


def what_fits(
    setups: Sequence[Setup], requests: Requests, shardings: Sequence[Sharding] | None
) -> tuple[str, ...]:
    """The fewest devices of each kind, and the widest format, that would hold the model.

    Args:
        setups: All that were asked for, none of which holds it.
        requests: What is served.
        shardings: Layouts that were asked for; None: all.

    Returns:
        Up to two sentences a kind of device; memory alone is looked at, not the target.
    """
    found: list[str] = []
    for device in dict.fromkeys(s.device.id for s in setups):
        own = [s for s in setups if s.device.id == device]
        first = own[0]
        if shardings is None:
            found += _more(first, max(s.sharding.devices for s in own), requests)
        found += _narrower(own, requests)
    return tuple(found)


def _more(setup: Setup, tried: int, requests: Requests) -> Iterable[str]:
    number = 1 << tried.bit_length()
    node = setup.topology.devices_per_node or _NODE
    while number <= _MOST:
        layouts = [x for x in candidates(setup.spec, number) if x.devices == number]
        # As wide as a node first: wider ones send every layer over the network.
        for layout in sorted(layouts, key=lambda x: (x.tensor > node, -x.tensor)):
            if _holds(setup, requests, sharding=layout):
                yield (
                    f"{number} x {setup.device.id} in {setup.precisions.name} would hold it, "
                    f"split as {layout}."
                )
                return
        number *= 2


def _narrower(setups: Sequence[Setup], requests: Requests) -> Iterable[str]:
    for scheme in _NARROWER:
        formats = Precisions.parse(scheme, setups[0].spec.dtype)
        for setup in setups:
            if _holds(setup, requests, precisions=formats):
                number = setup.sharding.devices
                yield f"{number} x {setup.device.id} in {scheme} would hold it."
                return


def _holds(setup: Setup, requests: Requests, **changes: Sharding | Precisions) -> bool:
    """Whether one request fits; links between the devices play no part."""
    from msgspec.structs import replace

    changed = replace(setup, topology=Topology(), built={}, **changes)
    return memory(changed, requests).limit >= 1
