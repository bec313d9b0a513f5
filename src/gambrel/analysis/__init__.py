"""A workload on a device: work, traffic, bounds, memory, and what would change them."""

from gambrel.analysis.measures import Bound, EngineWork, Estimate, Measures, ResourceTime, State
from gambrel.analysis.needs import Footprint
from gambrel.analysis.result import Analysis, Group, ModelInfo, OpResult
from gambrel.analysis.units_of import UNITS

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
