"""The pytest plugin: the option ``--gambrel`` and the fixture ``roofline``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gambrel.analysis.result import Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEfficiency:
    """A model as it was measured in a test.

    Attributes:
        measured_s: A step without instruments.
        roofline_s: The same under the roofline of eager PyTorch on the device.
        sol_s: The speed of light.
        analysis: Everything that was predicted.
    """

    measured_s: float
    roofline_s: float | None
    sol_s: float | None
    analysis: Analysis = field(repr=False)

    @property
    def efficiency(self) -> float:
        """Roofline time over measured time.

        Raises:
            InputError: No roofline is known.
        """
        from gambrel.errors import InputError

        if self.roofline_s is None:
            raise InputError(f"{self.analysis!r} has no roofline, so its efficiency is unknown.")
        return self.roofline_s / self.measured_s


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    group = parser.getgroup("gambrel")
    group.addoption(
        "--gambrel", action="store_true", help="run tests that measure models (fixture roofline)"
    )


@pytest.fixture
def roofline(request: pytest.FixtureRequest) -> Callable[..., MeasuredEfficiency]:
    """Measures a model on this machine: ``roofline(model, inputs).efficiency``."""
    if not request.config.getoption("--gambrel"):
        pytest.skip("measures a model: pytest --gambrel")
    if doubt := _doubt(request.config):
        warnings.warn(pytest.PytestWarning(doubt), stacklevel=2)
    return measure


def _doubt(config: pytest.Config) -> str:
    """Why a measurement would come out slow here; empty where nothing is known to disturb it."""
    from gambrel.measure.machine import busy

    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    if workers > 1:
        return f"roofline: {workers} workers of pytest-xdist share the machine; measure with -n 0."
    running = busy()
    if running is None:
        return ""
    return f"roofline: the machine is busy, {running:.1f} processes want each processor."


def measure(
    model: Any,
    inputs: Any,
    hardware: Any = None,
    *,
    device: Any = None,
    steps: int = 20,
    warmup: int = 5,
) -> MeasuredEfficiency:
    """Profiles a model.

    Args:
        model: A ``torch.nn.Module``.
        inputs: What it is called with: a tensor, a tuple or a dict.
        hardware: Whose roofs count; None measures this machine's.
        device: Where it runs; by default where its parameters are.
        steps: Steps that are measured.
        warmup: Steps before.
    """
    import gambrel

    analyzer = gambrel.RooflineAnalyzer(model, inputs, hardware)
    if device is None:
        device = next((p.device for p in getattr(model, "parameters", tuple)()), "cpu")
    analyzer.profile(device, warmup=warmup, steps=steps)
    record = analyzer.record
    analysis = gambrel.analyze(model, record.hardware, inputs=inputs, runtime="pytorch")
    return MeasuredEfficiency(
        measured_s=record.totals.plain_s,
        roofline_s=analysis.roofline_time_s,
        sol_s=analysis.sol_time_s,
        analysis=analysis,
    )
