"""A thin, class-shaped face on `gambrel.analyze`."""

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis.result import Analysis
from gambrel.api.analyze import analyze


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineReport:
    """The figures of the roofline of one analysis.

    Attributes:
        bottleneck_type: ``"compute"``, ``"memory"``, ``"network"``; None when unknown.
        compute_utilization: Share of the busiest engine's peak in use at the bound.
        memory_utilization: Share of the memory bandwidth in use at the bound.
        arithmetic_intensity: FLOP/byte.
        ridge_point: FLOP/byte.
        attainable_flop_per_s: FLOP/s at this intensity.
        roofline_time_s: The roofline bound, s.
    """

    bottleneck_type: str | None
    compute_utilization: float
    memory_utilization: float
    arithmetic_intensity: float
    ridge_point: float | None
    attainable_flop_per_s: float | None
    roofline_time_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnifiedResult:
    """An analysis and its roofline figures."""

    analysis: Analysis

    @property
    def roofline_report(self) -> RooflineReport:
        """The roofline figures; unknown utilizations are NaN."""
        total = self.analysis.total
        return RooflineReport(
            bottleneck_type=total.bound.value if total.bound else None,
            compute_utilization=_known(total.compute_utilization),
            memory_utilization=_known(total.memory_utilization),
            arithmetic_intensity=total.arithmetic_intensity,
            ridge_point=total.ridge_point,
            attainable_flop_per_s=total.attainable_flop_per_s,
            roofline_time_s=total.roofline_time_s,
        )


class UnifiedAnalyzer:
    """Analyzes models by name; every call is one `gambrel.analyze`."""

    def analyze_model(
        self,
        model_name: str,
        hardware_name: str,
        batch_size: int = 1,
        precision: str | None = None,
    ) -> UnifiedResult:
        """Analyzes a model on a device; see `gambrel.analyze`.

        Args:
            model_name: As for `gambrel.analyze`.
            hardware_name: As for `gambrel.analyze`.
            batch_size: Items at once.
            precision: Number format; None chooses one and says why.
        """
        return UnifiedResult(
            analysis=analyze(model_name, hardware_name, batch_size=batch_size, precision=precision)
        )


def _known(value: float | None) -> float:
    return float("nan") if value is None else value
