"""A workload on a device: work, traffic, bounds, memory, and what would change them."""

from gambrel.analysis.result import (
    UNITS,
    Analysis,
    Bound,
    EngineWork,
    Estimate,
    Footprint,
    Group,
    Measures,
    ModelInfo,
    OpResult,
    ResourceTime,
    State,
)

__all__ = [
    "UNITS",
    "Analysis",
    "Bound",
    "EngineWork",
    "Estimate",
    "Footprint",
    "Group",
    "Measures",
    "ModelInfo",
    "OpResult",
    "ResourceTime",
    "State",
]
