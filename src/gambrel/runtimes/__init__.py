"""Runtimes: how a workload is executed. One TOML file each; see docs/runtimes.md."""

from gambrel.runtimes.catalog import (
    RuntimeChoice,
    candidates,
    check_runs,
    choose,
    following,
    named,
    on_device,
    runtime,
    runtimes,
    takes,
)
from gambrel.runtimes.model import (
    FrontEnd,
    Host,
    HostOps,
    Kernels,
    Residency,
    Runtime,
    Service,
    UnitTiling,
    Workspace,
    matches,
)

__all__ = [
    "FrontEnd",
    "Host",
    "HostOps",
    "Kernels",
    "Residency",
    "Runtime",
    "RuntimeChoice",
    "Service",
    "UnitTiling",
    "Workspace",
    "candidates",
    "check_runs",
    "choose",
    "following",
    "matches",
    "named",
    "on_device",
    "runtime",
    "runtimes",
    "takes",
]
