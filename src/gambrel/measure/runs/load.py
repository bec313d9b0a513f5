"""A saved profile or analysis as a run: the same few figures of either."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from gambrel.analysis.result import Analysis, ModelInfo
from gambrel.device.model import Device
from gambrel.measure.profile.record import Profile, saved_profile


class RunPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One op or kernel of a run.

    Attributes:
        name: Module path with the framework's op.
        kind: Neutral kind.
        flops: Work, FLOP.
        traffic_bytes: Bytes.
        time_s: Of the run's kind of time; None where unknown.
        bound: ``compute``, ``memory``, ``network`` or ``unknown``.
        matrix: Whether the work is matrix work; else it is vector work.
    """

    name: str
    kind: str
    flops: int
    traffic_bytes: int
    time_s: float | None
    bound: str
    matrix: bool = False

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP/byte; 0 without work, infinite without traffic."""
        if not self.flops:
            return 0.0
        return self.flops / self.traffic_bytes if self.traffic_bytes else math.inf

    @property
    def flop_per_s(self) -> float | None:
        """Rate; None where the time is unknown."""
        return self.flops / self.time_s if self.time_s else None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two.

    Attributes:
        label: Name of the file without its suffix.
        times: What its times are: ``measured``, ``expected`` or ``roofline``.
        model: What ran.
        hardware: What it ran on, or was predicted for.
        total_s: End to end (measured), or the sum of the ops; None where unknown.
        points: Ops in execution order.
    """

    label: str
    times: str
    model: ModelInfo
    hardware: Device
    total_s: float | None
    points: tuple[RunPoint, ...]

    @property
    def flops(self) -> int:
        """Of all ops: matrix work where there is any, never a sum of both classes."""
        return sum(p.flops for p in self.points if p.matrix) or sum(p.flops for p in self.points)

    @property
    def traffic_bytes(self) -> int:
        """Of all ops."""
        return sum(p.traffic_bytes for p in self.points)

    @property
    def whole(self) -> RunPoint:
        """All ops as one point."""
        return RunPoint(
            name=self.label,
            kind="whole model",
            flops=self.flops,
            traffic_bytes=self.traffic_bytes,
            time_s=self.total_s,
            bound="unknown",
        )


def load_run(path: Path) -> Run:
    """Reads a file that `RooflineAnalyzer.save` or `Analysis.save` wrote.

    Raises:
        FileFormatError: It is neither, or damaged.
    """
    from gambrel.report import load_analysis

    profile = saved_profile(path)
    if profile is not None:
        return of_profile(profile, path.stem)
    return of_analysis(load_analysis(path), path.stem)


def of_profile(profile: Profile, label: str) -> Run:
    """A run as it was measured."""
    return Run(
        label=label,
        times="measured",
        model=profile.model,
        hardware=profile.hardware,
        total_s=profile.totals.plain_s,
        points=tuple(
            RunPoint(
                name=p.name,
                kind=p.type,
                flops=p.flops,
                traffic_bytes=p.traffic_bytes,
                time_s=p.time_s,
                bound=p.bound,
                matrix=p.work_class == "matrix",
            )
            for p in profile.ops
        ),
    )


def of_analysis(analysis: Analysis, label: str) -> Run:
    """A run as it is predicted: expected times where all ops have one, else bounds."""
    expected = all(op.measures.expected_time_s is not None for op in analysis.ops)
    whole = analysis.total.expected_time_s
    return Run(
        label=label,
        times="expected" if expected and whole else "roofline",
        model=analysis.model,
        hardware=analysis.hardware,
        total_s=whole.value if expected and whole else analysis.roofline_time_s,
        points=tuple(
            RunPoint(
                name=op.name,
                kind=op.kind,
                flops=op.measures.flops,
                traffic_bytes=op.measures.traffic_bytes,
                time_s=float(op.measures.expected_time_s)
                if expected and op.measures.expected_time_s
                else op.measures.roofline_time_s,
                bound=op.measures.bound.value if op.measures.bound else "unknown",
                matrix=bool(op.measures.matrix_flops),
            )
            for op in analysis.ops
        ),
    )
