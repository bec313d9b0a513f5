"""Constants of engines: what is stored of a class of devices under a runtime."""

from __future__ import annotations

import msgspec

from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.dtypes import width_bytes


class EngineConstants(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of a class of devices under a runtime; see `gambrel.analysis.estimate.engine`.

    Attributes:
        runtime: Name under which the runtime's TOML lists them.
        match: Patterns of the devices, as in `Runtime.runs_on`.
        constants: Of the formulas, by name.
        flop_energy: Text in the architecture → energy per FLOP in int8, J; the first counts.
        lanes_per_unit: Vector lanes of a unit where a device publishes no number of units.
        formats: Number formats that were measured → energy per FLOP relative to int8.
        devices: Ids of the devices measured.
        rows: Measured runs behind them.
        models: Different models among these.
        low: Lower end of measured / predicted, on models that were left out.
        high: Upper end.
        ranges: Number formats with models enough for ends of their own → low, high.
        far_low: Lower end on devices that were not measured.
        far_high: Upper end.
        confidence: Of runs on measured devices in measured formats.
        why: For the reader.
        source: Of the measurements, with licence.
        held_out: Errors on models that were left out.
    """

    runtime: str
    match: tuple[str, ...]
    constants: dict[str, float]
    flop_energy: dict[str, float]
    lanes_per_unit: float
    formats: dict[str, float]
    devices: tuple[str, ...]
    rows: int
    models: int
    low: float
    high: float
    far_low: float
    far_high: float
    confidence: str
    why: str
    source: str
    ranges: dict[str, tuple[float, float]] = {}
    held_out: HeldOut | None = None

    @property
    def measured_formats(self) -> set[str]:
        """Formats in which runs were measured."""
        return set(self.formats)

    def range_of(self, dtype: str) -> tuple[float, float]:
        """Both ends of measured / predicted, on models that were left out."""
        return self.ranges.get(dtype, (self.low, self.high))

    def of_another(self) -> EngineConstants:
        """For a runtime that has the same kernels: as of a device that was not measured."""
        return msgspec.structs.replace(
            self, low=self.far_low, high=self.far_high, ranges={}, confidence="low"
        )

    def energy_of(self, dtype: str) -> float:
        """Energy per FLOP relative to int8; in a format that was not measured, by its width."""
        if not dtype:
            return 0.0
        return self.formats.get(dtype, float(width_bytes(dtype)))

    def flop_energy_of(self, architecture: str) -> float:
        """Energy per FLOP in int8, J; 0 where the process was not measured."""
        found = (j for name, j in self.flop_energy.items() if name in architecture)
        return next(found, 0.0)
