"""A profile as a record: what `RooflineAnalyzer.save` writes, and reading it back."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.analysis.result import ModelInfo
from gambrel.device.model import Device
from gambrel.errors import FileFormatError
from gambrel.measure.profile.modules import ModulePoint
from gambrel.measure.profile.points import RooflinePoint, Totals

SCHEMA_VERSION: Final = 1
#: Says what the JSON is.
TYPE: Final = "gambrel/profile"

_UNITS: Final = {
    "flops": "FLOP",
    "traffic_bytes": "byte",
    "arithmetic_intensity": "FLOP/byte",
    "time_s": "s",
    "achieved_flop_per_s": "FLOP/s",
    "achieved_byte_per_s": "byte/s",
    "utilization": "1",
}


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


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Measured beside expected and bound times.

    Attributes:
        points: One an op or kernel.
        totals: The whole.
    """

    points: tuple[RooflinePoint, ...]
    totals: Totals

    @property
    def measured_s(self) -> float:
        """Sum over the ops that have a measured, an expected and a bound time."""
        return sum(p.time_s or 0.0 for p in self._known())

    @property
    def expected_s(self) -> float:
        """The same ops as expected."""
        return sum(p.expected_time_s or 0.0 for p in self._known())

    @property
    def roofline_s(self) -> float:
        """The same ops at their bounds."""
        return sum(p.roofline_time_s or 0.0 for p in self._known())

    def text(self, top: int = 10) -> str:
        """As a table; ``top`` rows, 0 for all."""
        from gambrel.measure.profile import text

        return text.comparison(self, top)

    def __str__(self) -> str:
        return self.text()

    def _known(self) -> list[RooflinePoint]:
        return [p for p in self.points if p.time_s and p.expected_time_s and p.roofline_time_s]


def to_json(profile: Profile) -> str:
    """The profile as indented JSON, base SI units; an infinite figure is null."""
    from gambrel.measure.profile import text

    whole = profile.totals
    record = {
        "type": TYPE,
        "schema_version": SCHEMA_VERSION,
        "gambrel_version": __version__,
        "units": _UNITS,
        "model": profile.model,
        "hardware": profile.hardware,
        "runtime": profile.runtime,
        "totals": msgspec.to_builtins(whole)
        | {"gap_s": whole.gap_s, "instrumentation_s": whole.instrumentation_s},
        "no_bound_share": text.no_bound_share(profile.ops),
        "unmatched": [{"name": n, "time_s": t} for n, t in profile.unmatched],
        "modules": profile.modules,
        "ops": [_finite(p) for p in profile.ops],
    }
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode()


def is_profile(data: Any) -> bool:
    """Whether decoded JSON is a profile."""
    return isinstance(data, dict) and data.get("type") == TYPE


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


def _finite(point: RooflinePoint) -> dict[str, object]:
    """An infinite intensity has no place in JSON: it is null there."""
    plain = msgspec.structs.asdict(point)
    return {k: None if v in (math.inf, -math.inf) else v for k, v in plain.items()}


def _infinite(op: dict[str, Any]) -> dict[str, Any]:
    known = op["arithmetic_intensity"] is not None
    return op if known else {**op, "arithmetic_intensity": math.inf}
