"""Workloads: tensors, ops and symbolic sizes, independent of machine and framework."""

from gambrel.workload.model import (
    PERSISTENT,
    SCHEMA_VERSION,
    Attributes,
    Op,
    Phase,
    Role,
    Sizes,
    Tensor,
    Workload,
    WorkloadSummary,
)
from gambrel.workload.structure import once
from gambrel.workload.symbols import Dim, Polynomial, Symbol, evaluate, parse, symbols_of

__all__ = [
    "PERSISTENT",
    "SCHEMA_VERSION",
    "Attributes",
    "Dim",
    "Op",
    "Phase",
    "Polynomial",
    "Role",
    "Sizes",
    "Symbol",
    "Tensor",
    "Workload",
    "WorkloadSummary",
    "evaluate",
    "once",
    "parse",
    "symbols_of",
]
