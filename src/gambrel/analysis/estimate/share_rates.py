"""The rates of a device that shares of its roofs are taken of, looked up once; or of several.

Several stand side by side, so that one call of a formula serves all of them: `ops_together`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from gambrel.analysis.roofs import Roofs
from gambrel.device.cores import held_share
from gambrel.device.model import Device
from gambrel.ops.base import Engine, Size

Value = TypeVar("Value")


class ShareRates:
    """Rates of one device, or a column of one rate for each of several.

    Args:
        devices: Roofs, and the share of its highest clock that a processor holds; 0 where nothing
            but its clocks tells it. Several are of one `kind`.
    """

    def __init__(self, devices: Sequence[tuple[Roofs, float]]) -> None:
        self.devices = devices
        self._known: dict[Any, Any] = {}
        self.memory_byte_per_s: Size = self._column(r.memory_byte_per_s for r, _ in devices)
        self.link_byte_per_s: Size | None = self._column(r.link_byte_per_s for r, _ in devices)

    def kind(self, lanes_per_byte: float, work: Iterable[tuple[str, str, bool]]) -> tuple[Any, ...]:
        """Equal for devices that may stand side by side: they have roofs for the same work.

        Args:
            lanes_per_byte: As in `lanes`.
            work: Class of work, number format and whether it is prunable.
        """
        roofs = (
            (self.peak(Engine(engine), dtype, prunable) is None, self.beside(dtype))
            for engine, dtype, prunable in work
        )
        lanes = bool(self.lanes(None)), bool(self.lanes(lanes_per_byte))
        return (bool(self.link_byte_per_s), *lanes, *roofs)

    def lanes(self, per_byte: float | None) -> Size | None:
        """As `lanes_of`."""
        return self._once(
            ("lanes", per_byte),
            lambda: self._column(lanes_of(r, per_byte, clock) for r, clock in self.devices),
        )

    def peak(self, engine: Engine, dtype: str, prunable: bool) -> Size | None:
        """As `peak_of` of the least time's roof; None where there is none."""

        def of(roofs: Roofs, clock: float) -> float | None:
            roof = roofs.least_time_roof(engine.value, dtype, prunable)
            return None if roof is None else peak_of(roofs, engine, dtype, roof[1], clock)

        return self._once(
            (engine, dtype, prunable), lambda: self._column(of(*one) for one in self.devices)
        )

    def beside(self, dtype: str) -> bool:
        """Whether a matrix engine has a roof of its own for a format."""
        device = self.devices[0][0].device
        return self._once(("beside", dtype), lambda: device.ceiling("matrix", dtype) is not None)

    @property
    def units(self) -> Size:
        """Units of the device; 1 where their number is not published."""
        return self._once(
            "units", lambda: self._column(units_of(r.device) for r, _ in self.devices)
        )

    def _once(self, key: Any, make: Callable[[], Value]) -> Value:
        if key not in self._known:
            self._known[key] = make()
        found: Value = self._known[key]
        return found

    @staticmethod
    def _column(values: Iterable[float | None]) -> Size | None:
        first, *others = found = list(values)
        if all(value == first for value in others):
            return first
        from gambrel.analysis.estimate.side_by_side import column

        return column([value for value in found if value is not None])


def units_of(device: Device) -> float:
    """Units of a device; 1 where their number is not published."""
    units = device.fact("num_units")
    return units.value if units else 1.0


def lanes_of(roofs: Roofs, per_byte: float | None, clock: float = 0.0) -> float | None:
    """FLOP/s of the vector units: the device's own, else what its class has per byte/s.

    Args:
        roofs: Of the device.
        per_byte: FLOP/s per byte/s of the class.
        clock: As in `Shares`.
    """
    own = roofs.vector_peak("fp32")
    if own:
        return own * (clock or held_share(roofs.device))
    return per_byte * (roofs.memory_byte_per_s or 0.0) if per_byte else own


def peak_of(roofs: Roofs, engine: Engine, dtype: str, roof: float, clock: float = 0.0) -> float:
    """FLOP/s of an engine whatever format its sums have; of a processor at the clock it holds."""
    narrow = roofs.device.ceiling(engine.value, dtype, "fp16") if engine is Engine.MATRIX else None
    return (max(roof, narrow.flop_per_s) if narrow else roof) * (clock or held_share(roofs.device))
