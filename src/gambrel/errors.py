"""The exceptions of gambrel, one tree.

    GambrelError
    ├── InputError            what the user gave cannot be used
    │   ├── UnknownNameError  no such model, device, precision, ...; carries the closest names
    │   └── FileFormatError   a file is missing, truncated, of another type, or hostile
    ├── WorkloadError         a workload contradicts itself or cannot be bound to these sizes
    ├── DeviceError           a device lacks a ceiling that the question needs
    ├── CaptureError          a model could not be turned into a workload
    └── MissingExtraError     an optional dependency is not installed

A message says what was seen, where, and what to do, on one line.
"""

from __future__ import annotations

from collections.abc import Iterable


class GambrelError(Exception):
    """Base of every error that gambrel raises on purpose."""


class InputError(GambrelError):
    """What the user gave cannot be used as it stands."""


class UnknownNameError(InputError):
    """A name matches nothing that is known.

    Attributes:
        kind: What was looked up, e.g. ``"device"``.
        name: The name as given.
        closest: The nearest known names, best first.
    """

    def __init__(self, kind: str, name: str, closest: Iterable[str] = (), hint: str = "") -> None:
        self.kind = kind
        self.name = name
        self.closest = tuple(closest)
        parts = [f"unknown {kind} {name!r}"]
        if self.closest:
            parts.append(f"closest: {', '.join(self.closest)}")
        message = "; ".join(parts) + "."
        super().__init__(f"{message} {hint}".rstrip())


class FileFormatError(InputError):
    """A file is missing, truncated, of another type than its name says, or hostile."""


class WorkloadError(GambrelError):
    """A workload contradicts itself or cannot be evaluated at the sizes asked for."""


class DeviceError(GambrelError):
    """A device lacks a figure that the question needs."""


class CaptureError(GambrelError):
    """A model could not be turned into a workload."""


class MissingExtraError(GambrelError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed. "
            f"Run: pip install 'gambrel[{extra}]'"
        )
