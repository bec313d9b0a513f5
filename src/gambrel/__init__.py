"""gambrel: roofline analysis of machine-learning models.

The public API is loaded on first use, so that ``import gambrel`` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gambrel._version import __version__

#: Public name → the module that holds it.
_HOMES = {
    "Analysis": "gambrel.analysis.result",
    "Bound": "gambrel.analysis.measures",
    "Estimate": "gambrel.analysis.measures",
    "Measures": "gambrel.analysis.measures",
    "OpResult": "gambrel.analysis.result",
    "Ceiling": "gambrel.device.model",
    "Device": "gambrel.device.model",
    "Link": "gambrel.device.model",
    "MemoryLevel": "gambrel.device.model",
    "Source": "gambrel.device.model",
    "Op": "gambrel.workload",
    "Symbol": "gambrel.workload",
    "Tensor": "gambrel.workload",
    "Workload": "gambrel.workload",
    "GambrelError": "gambrel.errors",
    "InputError": "gambrel.errors",
    "UnknownNameError": "gambrel.errors",
    "FileFormatError": "gambrel.errors",
    "WorkloadError": "gambrel.errors",
    "DeviceError": "gambrel.errors",
    "CaptureError": "gambrel.errors",
    "MissingExtraError": "gambrel.errors",
    "HardwarePeaks": "gambrel.measure.records",
    "RooflineAnalyzer": "gambrel.measure.profile.analyzer",
    "StepTimer": "gambrel.api.serving",
    "RooflinePoint": "gambrel.measure.profile.points",
    "UnifiedAnalyzer": "gambrel.api.unified",
    "analyze": "gambrel.api.analyze",
    "calibrate": "gambrel.api.analyze",
    "check": "gambrel.api.advise",
    "clear_peaks_cache": "gambrel.measure.peaks",
    "compare": "gambrel.api.advise",
    "explain_gap": "gambrel.api.judging",
    "judge": "gambrel.api.judging",
    "limits": "gambrel.api.judging",
    "recommend": "gambrel.api.advise",
    "flops_per_token": "gambrel.api.accounting",
    "kv_cache": "gambrel.api.plans",
    "lightning_callback": "gambrel.api.callbacks",
    "mfu": "gambrel.api.accounting",
    "peak": "gambrel.api.accounting",
    "trainer_callback": "gambrel.api.callbacks",
    "load": "gambrel.api.analyze",
    "load_model": "gambrel.api.analyze",
    "design": "gambrel.api.design",
    "export": "gambrel.report.exports",
    "measure_peaks": "gambrel.measure.peaks",
    "select": "gambrel.api.advise",
    "serve_plan": "gambrel.api.plans",
    "serve_sim": "gambrel.api.serving",
    "serve_split": "gambrel.api.splitting",
    "sweep": "gambrel.api.sweep",
    "track": "gambrel.measure.tracking",
    "train_plan": "gambrel.api.plans",
    "train_search": "gambrel.api.plans",
    "profiler_handler": "gambrel.measure.profiler_handler",
    "read": "gambrel.traces",
    "what_if": "gambrel.api.advise",
}

__all__ = [
    "Analysis",
    "Bound",
    "CaptureError",
    "Ceiling",
    "Device",
    "DeviceError",
    "Estimate",
    "FileFormatError",
    "GambrelError",
    "HardwarePeaks",
    "InputError",
    "Link",
    "Measures",
    "MemoryLevel",
    "MissingExtraError",
    "Op",
    "OpResult",
    "RooflineAnalyzer",
    "RooflinePoint",
    "Source",
    "StepTimer",
    "Symbol",
    "Tensor",
    "UnifiedAnalyzer",
    "UnknownNameError",
    "Workload",
    "WorkloadError",
    "__version__",
    "analyze",
    "calibrate",
    "check",
    "clear_peaks_cache",
    "compare",
    "design",
    "explain_gap",
    "export",
    "flops_per_token",
    "judge",
    "kv_cache",
    "lightning_callback",
    "limits",
    "load",
    "load_model",
    "measure_peaks",
    "mfu",
    "peak",
    "profiler_handler",
    "read",
    "recommend",
    "select",
    "serve_plan",
    "serve_sim",
    "serve_split",
    "sweep",
    "track",
    "train_plan",
    "train_search",
    "trainer_callback",
    "what_if",
]

if TYPE_CHECKING:
    from gambrel.analysis.measures import Bound, Estimate, Measures
    from gambrel.analysis.result import Analysis, OpResult
    from gambrel.api.accounting import flops_per_token, mfu, peak
    from gambrel.api.advise import check, compare, recommend, select, what_if
    from gambrel.api.analyze import analyze, load, load_model
    from gambrel.api.callbacks import lightning_callback, trainer_callback
    from gambrel.api.design import design
    from gambrel.api.judging import explain_gap, judge, limits
    from gambrel.api.plans import kv_cache, serve_plan, train_plan, train_search
    from gambrel.api.serving import StepTimer, serve_sim
    from gambrel.api.splitting import serve_split
    from gambrel.api.sweep import sweep
    from gambrel.api.unified import UnifiedAnalyzer
    from gambrel.device.model import Ceiling, Device, Link, MemoryLevel, Source
    from gambrel.errors import (
        CaptureError,
        DeviceError,
        FileFormatError,
        GambrelError,
        InputError,
        MissingExtraError,
        UnknownNameError,
        WorkloadError,
    )
    from gambrel.measure.peaks import clear_peaks_cache, measure_peaks
    from gambrel.measure.profile.analyzer import RooflineAnalyzer
    from gambrel.measure.profile.points import RooflinePoint
    from gambrel.measure.profiler_handler import profiler_handler
    from gambrel.measure.records import HardwarePeaks
    from gambrel.measure.tracking import track
    from gambrel.report.exports import export
    from gambrel.traces import read
    from gambrel.workload import Op, Symbol, Tensor, Workload


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gambrel' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
