"""The pytest plugin: the option ``--gambrel`` and the fixture ``roofline``."""

from __future__ import annotations

from dataclasses import dataclass
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
    analysis: Analysis

    @property
    def efficiency(self) -> float:
        """Roofline time over measured time; zero where no roofline is known."""
        return (self.roofline_s or 0.0) / self.measured_s


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
    return measure


def measure(
    model: Any,
    inputs: Any,
    hardware: Any = None,
    *,
    device: str = "cpu",
    steps: int = 20,
    warmup: int = 5,
) -> MeasuredEfficiency:
    """Profiles a model.

    Args:
        model: A ``torch.nn.Module``.
        inputs: What it is called with: a tensor, a tuple or a dict.
        hardware: Whose roofs count; None measures this machine's.
        device: Where it runs.
        steps: Steps that are measured.
        warmup: Steps before.
    """
    import gambrel

    analyzer = gambrel.RooflineAnalyzer(model, inputs, hardware)
    analyzer.profile(device, warmup=warmup, steps=steps)
    record = analyzer.record
    analysis = gambrel.analyze(model, record.hardware, inputs=inputs, runtime="pytorch")
    return MeasuredEfficiency(
        measured_s=record.totals.plain_s,
        roofline_s=analysis.roofline_time_s,
        sol_s=analysis.sol_time_s,
        analysis=analysis,
    )
