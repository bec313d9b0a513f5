"""A workload on a device: work, traffic, roofline, speed of light, expected time, memory.

Names are loaded on first use: help texts and errors of the command line need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gambrel.analysis.measures import Bound, EngineWork, Estimate, Limiter, Measures, State
    from gambrel.analysis.measures import ResourceTime as ResourceTime
    from gambrel.analysis.needs import Footprint
    from gambrel.analysis.result import Analysis, Group, ModelInfo, OpResult

_HOMES = {
    "measures": "Bound EngineWork Estimate Limiter Measures ResourceTime State",
    "needs": "Footprint",
    "result": "Analysis Group ModelInfo OpResult",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Analysis",
    "Bound",
    "EngineWork",
    "Estimate",
    "Footprint",
    "Group",
    "Limiter",
    "Measures",
    "ModelInfo",
    "OpResult",
    "ResourceTime",
    "State",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
