"""What would make a model fit that does not fit into its device."""

from __future__ import annotations

import math
from typing import Final

from gambrel.advise.changes import CATALOGUE, Effort
from gambrel.advise.explore import Explorer
from gambrel.advise.fleet import Point
from gambrel.units import format_capacity
from gambrel.workload import Role

_LISTED: Final = 3


def fitting(explorer: Explorer) -> tuple[str, ...]:
    """Sentences for a model that does not fit: single changes with which it does, and splitting."""
    start = explorer.start
    if start.fits is not False or start.capacity_bytes is None:
        return ()
    changes = _smaller(explorer)
    listed = ", ".join(f"{text} ({format_capacity(need, 3)})" for need, text in changes)
    need = format_capacity(start.facts.memory_bytes, 3)
    head = f"It needs {need} and does not fit into {format_capacity(start.capacity_bytes, 3)}: "
    fits = f"it fits with {listed}." if changes else "no single change makes it fit."
    return (f"{head}{fits}{_split(explorer, start)}",)


def _smaller(explorer: Explorer) -> list[tuple[int, str]]:
    """Changes of software with which it fits, by the memory that remains needed."""
    names = [name for name, kind in CATALOGUE.items() if kind.effort is Effort.SOFTWARE]
    found = [
        (point.facts.memory_bytes, text)
        for name in names
        for text in explorer.proposals(name)
        if (point := explorer.tried((text,))) is not None and point.fits
    ]
    return sorted(found)[:_LISTED]


def _split(explorer: Explorer, start: Point) -> str:
    """How many devices hold it at the least, for language models: those can be planned."""
    workload = explorer.case.workload
    cached = any(t.role is Role.KV_CACHE for t in workload.tensors)
    causal = any(op.attrs.get("causal") for op in workload.ops)
    if not (cached or causal) or workload.training or not start.capacity_bytes:
        return ""
    count = math.ceil(start.facts.memory_bytes / start.capacity_bytes)
    return (
        f" Unchanged it takes at least {count} devices of this kind; 'gambrel serve-plan' plans "
        "how to split it (--help has examples)."
    )
