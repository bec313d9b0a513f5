"""Ops grouped into kernels as runtimes do it, and what that leaves of the traffic."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gambrel.analysis.fusion.costs import cost_within, fused_costs, kernel_costs, launches
    from gambrel.analysis.fusion.grouping import Grouping, group
    from gambrel.analysis.fusion.kernel import Kernel
    from gambrel.analysis.fusion.onchip import Allowance

#: What is loaded from where once it is used: most runs need the classes of ops alone.
_HOMES = {
    "costs": "cost_within fused_costs kernel_costs launches",
    "grouping": "Grouping group",
    "kernel": "Kernel",
    "onchip": "Allowance",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Allowance",
    "Grouping",
    "Kernel",
    "cost_within",
    "fused_costs",
    "group",
    "kernel_costs",
    "launches",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found  # asked once
    return found
