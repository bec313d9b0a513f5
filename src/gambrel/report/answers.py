"""Results that several records make up together, or that are a plain list of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from gambrel.views import Viewed

if TYPE_CHECKING:
    from gambrel.advise.recommend import Recommendation
    from gambrel.advise.whatif import WhatIf
    from gambrel.analysis.result import Analysis
    from gambrel.analysis.samples import Standing
    from gambrel.analysis.samples.join import Joined
    from gambrel.analysis.samples.movement import Movement
    from gambrel.device.listing import DeviceRow
    from gambrel.device.model import Device
    from gambrel.measure.profile.record import Profile
    from gambrel.measure.records import HardwarePeaks
    from gambrel.runtimes.model import Runtime
    from gambrel.workload import WorkloadSummary


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Analyses(Viewed):
    """Several analyses side by side, e.g. of one model at several batch sizes."""

    analyses: tuple[Analysis, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Changes(Viewed):
    """Recommendations alone."""

    recommendations: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Changed(Viewed):
    """A what-if with the analyses of both sides, for its charts."""

    found: WhatIf
    before: Analysis
    after: Analysis


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Devices(Viewed):
    """Rows of the list of devices."""

    devices: tuple[DeviceRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sheet(Viewed):
    """One device with all its sources.

    Attributes:
        device: The device.
        notes: How its name was understood.
    """

    device: Device
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Models(Viewed):
    """Rows of the list of models.

    Attributes:
        models: Of the zoo.
        language: Names of language models that are built from their published configuration.
    """

    models: tuple[WorkloadSummary, ...]
    language: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Runtimes(Viewed):
    """Rows of the list of runtimes."""

    runtimes: tuple[Runtime, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Peaks(Viewed):
    """Measured ceilings, beside a datasheet where one was named.

    Attributes:
        peaks: What was measured.
        other: The published device.
        precision: Number format whose roof a chart draws strong.
    """

    peaks: HardwarePeaks
    other: Device | None = None
    precision: str = "fp32"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Calibrated(Viewed):
    """Constants that were fitted and stored.

    Attributes:
        stored: Path.
        classes: Key, points and range of measured / expected of each class.
        warnings: What casts doubt on them.
        notes: What else was found, e.g. the error on models that were left out.
    """

    stored: str
    classes: tuple[CalibratedClass, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class CalibratedClass(msgspec.Struct, frozen=True, kw_only=True):
    """One fitted class.

    Attributes:
        name: Device, form and number format.
        points: Measurements behind it.
        low_ratio: Measured / expected, lower end.
        high_ratio: Upper end.
        confidence: ``high``, ``medium`` or ``low``; empty where it is not graded.
    """

    name: str
    points: int
    low_ratio: float
    high_ratio: float
    confidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Profiled(Viewed):
    """A measured run of a model.

    Attributes:
        profile: What was measured.
        analysis: Of the same capture on the measured device, one row a row of the profile.
        by: Rows of the table: ``op`` or ``module``.
        compared: Show measured beside expected and roofline times.
        notes: What else the reader should know.
    """

    profile: Profile
    analysis: Analysis | None = None
    by: str = "op"
    compared: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Recorded(Viewed):
    """Kernels that a profiler recorded.

    Attributes:
        standing: Under the roofs.
        joined: Under the prediction of a model.
        movement: Beside another run.
    """

    standing: Standing
    joined: Joined | None = None
    movement: Movement | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Memory(Viewed):
    """Memory over a run.

    Attributes:
        analysis: With its workload.
        checkpoint: Recompute activations in backward; a text names the blocks.
    """

    analysis: Analysis
    checkpoint: bool | str = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pictures(Viewed):
    """The pictures of a language model: intensity over batch and context, time, cache."""

    analysis: Analysis
