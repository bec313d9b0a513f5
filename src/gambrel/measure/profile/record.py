"""A profile as a record: what `RooflineAnalyzer.save` writes, and reading it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.analysis.result import ModelInfo
from gambrel.device.model import Device
from gambrel.errors import FileFormatError
from gambrel.fileio import file_size, read_json
from gambrel.measure.profile import memory_level
from gambrel.measure.profile.modules import ModulePoint
from gambrel.measure.profile.points import RooflinePoint, Totals

SCHEMA_VERSION: Final = 2
#: Says what the JSON is.
TYPE: Final = "gambrel/profile"
#: Bytes of a file that are enough to find its type, and of a saved profile at most.
_HEAD, _MOST = 1 << 16, 256 << 20


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A finished profile.

    Attributes:
        model: What ran.
        hardware: What it was held against.
        totals: The whole.
        ops: One entry an op, or a kernel of a compiled model, in execution order.
        modules: Sums by module.
        unmatched: Calls that are no op of the capture, with their seconds.
        runtime: ``pytorch`` or ``torch-compile``.
    """

    model: ModelInfo
    hardware: Device
    totals: Totals
    ops: tuple[RooflinePoint, ...]
    modules: tuple[ModulePoint, ...] = ()
    unmatched: tuple[tuple[str, float], ...] = ()
    runtime: str = "pytorch"

    @property
    def served(self) -> dict[str, int]:
        """Ops that moved data faster than main memory can, by the cache that served them."""
        return memory_level.counts(self.ops, self.hardware)


class ProfileComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Measured beside expected and roofline times.

    Attributes:
        points: One an op or kernel.
    """

    points: tuple[RooflinePoint, ...]

    @property
    def measured_s(self) -> float:
        """Sum over the ops that have a measured, an expected and a roofline time."""
        return sum(p.time_s or 0.0 for p in self._known())

    @property
    def expected_s(self) -> float:
        """The same ops as expected."""
        return sum(p.expected_time_s or 0.0 for p in self._known())

    @property
    def roofline_s(self) -> float:
        """The same ops at their rooflines."""
        return sum(p.roofline_time_s or 0.0 for p in self._known())

    def text(self, top: int = 10) -> str:
        """As a table; ``top`` rows, 0 for all."""
        from gambrel.report.builders.profile import compared
        from gambrel.report.options import Options
        from gambrel.report.terminal import render_block

        return render_block(compared(self.points), Options(width=160, top=top)).rstrip("\n")

    def __str__(self) -> str:
        return self.text()

    def _known(self) -> list[RooflinePoint]:
        return [p for p in self.points if p.time_s and p.expected_time_s and p.roofline_time_s]


def to_json(profile: Profile) -> str:
    """The profile as indented JSON, base SI units."""
    from gambrel.report import json_text
    from gambrel.report.answers import Profiled

    return json_text(Profiled(profile=profile))


def is_of(path: Path, kind: str = TYPE) -> bool:
    """Whether a file says in its beginning that it holds such a result."""
    file_size(path)
    with path.open("rb") as file:
        return f'"{kind}"'.encode() in file.read(_HEAD)


def saved_profile(path: Path) -> Profile | None:
    """The profile in a file; None where it holds something else.

    Raises:
        FileFormatError: A profile that is damaged or of a later version, or no readable file.
    """
    return from_data(read_json(path, _MOST, "a saved profile"), path) if is_of(path) else None


def from_data(data: dict[str, Any], path: Path) -> Profile:
    """A profile from decoded JSON.

    Raises:
        FileFormatError: It is none, is damaged, or is of a later version.
    """
    if data.get("schema_version") != SCHEMA_VERSION:
        raise FileFormatError(
            f"{path} is a profile of version {data.get('schema_version')!r}; this gambrel reads "
            f"version {SCHEMA_VERSION}."
        )
    try:
        calls = tuple((str(u["name"]), float(u["time_s"])) for u in data.get("unmatched", ()))
        plain = {**data, "ops": [_infinite(op) for op in data["ops"]], "unmatched": calls}
        return msgspec.convert(plain, Profile)
    except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is a damaged profile: {error}.") from None


def _infinite(op: dict[str, Any]) -> dict[str, Any]:
    return {**op, "arithmetic_intensity": float(op["arithmetic_intensity"])}
