"""One step on one device, prepared once and then answered in under a millisecond.

The figures are those of `gambrel.analysis.analyze`: the same formulas, roofs and constants, without
the records of each op.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gambrel.analysis.analyze import choose_precision
from gambrel.analysis.bounding import Roofs, roofs_of
from gambrel.analysis.estimate import Calibration, Estimator
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.precision import casts_of
from gambrel.device.model import Device
from gambrel.errors import InputError
from gambrel.ops import Conventions, Cost, cost
from gambrel.workload import Workload


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """What one step takes.

    Attributes:
        flops: Work on the matrix engine, FLOP.
        traffic_bytes: Eager traffic, byte.
        roofline_time_s: Bound, s; None where no roof is known.
        expected_time_s: Expected time, s; an op without constants counts with its bound.
    """

    flops: int
    traffic_bytes: int
    roofline_time_s: float | None
    expected_time_s: float | None


class Prepared:
    """A workload on a device; call it with values for the sizes that are open.

    Args:
        workload: From `gambrel.llm.build.build`, with symbols or without.
        device: The machine.
        precision: A number format that replaces the workload's own; None keeps it.
        framework: Whose kernels the expected time describes.
        calibration: Constants of the expected time; None for those that come with gambrel.
        conventions: How to count where the field disagrees.

    Raises:
        InputError: The device has no memory roof.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        *,
        precision: str | None = None,
        framework: str = "any",
        calibration: Calibration | None = None,
        conventions: Conventions | None = None,
    ) -> None:
        self._workload = workload
        self._roofs = roofs_of(device)
        if self._roofs.off_chip_only:
            raise InputError(f"{device.id} lives off its host link: analyze it step by step.")
        chosen, _ = choose_precision(workload, device, precision)
        self._casts = casts_of(workload, chosen)
        self._estimator = Estimator(self._roofs, calibration, framework)
        self._conventions = conventions or Conventions()
        self._defaults = {s.name: s.default for s in workload.symbols}

    def __call__(self, **sizes: int) -> StepTime:
        """The step at these sizes; others keep their defaults.

        Raises:
            WorkloadError: A size that the workload does not have, or out of its range.
        """
        values = self._workload.resolve_symbols(sizes) if sizes else self._defaults
        evaluator = Evaluator(self._workload, values, self._casts, self._conventions)
        flops = traffic = 0
        bound, expected, known = 0.0, 0.0, False
        for op in self._workload.ops:
            view = evaluator.op(op)
            found = cost(view)
            if found is None:
                continue
            moved = found.read_bytes + found.write_bytes
            flops += op.repeat * _matrix(found)
            traffic += op.repeat * moved
            seconds = slowest(found, self._roofs)
            if seconds is None:
                continue
            known = True
            bound += op.repeat * seconds
            one = self._estimator.seconds(view, found, seconds)
            expected += op.repeat * (seconds if one is None else one.seconds)
        return StepTime(
            flops=flops,
            traffic_bytes=traffic,
            roofline_time_s=bound if known else None,
            expected_time_s=expected if known else None,
        )


def slowest(found: Cost, roofs: Roofs) -> float | None:
    """Seconds of the resource that one execution of an op keeps busy longest."""
    seconds: Mapping[str, Any] = _busy(found, roofs)
    return max(seconds.values(), default=None)


def _busy(found: Cost, roofs: Roofs) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for (engine, dtype), work in found.work.items():
        roof = roofs.engine_roof(engine.value, dtype)
        if roof is not None and work:
            seconds[roof.engine] = seconds.get(roof.engine, 0.0) + work / roof.flop_per_s
    moved = found.read_bytes + found.write_bytes
    if roofs.memory_byte_per_s is not None and moved:
        seconds["memory"] = moved / roofs.memory_byte_per_s
    if roofs.link_byte_per_s is not None and found.link_bytes:
        seconds["link"] = found.link_bytes / roofs.link_byte_per_s
    if roofs.network_byte_per_s is not None and found.network_bytes:
        seconds["network"] = found.network_bytes / roofs.network_byte_per_s
    return seconds


def _matrix(found: Cost) -> int:
    return sum(int(work) for (engine, _), work in found.work.items() if engine.value == "matrix")
