"""Results that several records make up together, or that are a plain list of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gambrel.views import Viewed

if TYPE_CHECKING:
    from gambrel.advise.recommend import Recommendation
    from gambrel.advise.whatif import WhatIf
    from gambrel.analysis.result import Analysis
    from gambrel.analysis.samples import Standing
    from gambrel.analysis.samples.join import JoinedRun
    from gambrel.analysis.samples.movement import Movement
    from gambrel.device.listing import DeviceRow
    from gambrel.device.model import Device
    from gambrel.measure.profile.record import Profile
    from gambrel.measure.records import HardwarePeaks
    from gambrel.runtimes.model import Runtime
    from gambrel.workload import WorkloadSummary


class Analyses(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """Several analyses side by side, e.g. of one model at several batch sizes."""

    analyses: tuple[Analysis, ...]


class Changes(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """Recommendations alone."""

    recommendations: tuple[Recommendation, ...]


class Changed(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """A what-if with the analyses of both sides, for its charts."""

    found: WhatIf
    before: Analysis
    after: Analysis


class Devices(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the list of devices."""

    devices: tuple[DeviceRow, ...]


class Sheet(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """One device with all its sources.

    Attributes:
        device: The device.
        notes: How its name was understood.
    """

    device: Device
    notes: tuple[str, ...] = ()


class Models(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the list of models.

    Attributes:
        models: Of the zoo.
        language: Names of language models that are built from their published configuration.
    """

    models: tuple[WorkloadSummary, ...]
    language: tuple[str, ...] = ()


class Runtimes(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the list of runtimes."""

    runtimes: tuple[Runtime, ...]


class Peaks(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """Measured ceilings, beside a datasheet where one was named.

    Attributes:
        peaks: What was measured.
        other: The published device.
        precision: Number format whose roof a chart draws strong.
    """

    peaks: HardwarePeaks
    other: Device | None = None
    precision: str = "fp32"


class Calibrated(Viewed, msgspec.Struct, frozen=True, kw_only=True):
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


class Profiled(Viewed, msgspec.Struct, frozen=True, kw_only=True):
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


class Recorded(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """Kernels that a profiler recorded.

    Attributes:
        standing: Under the roofs.
        joined: Under the prediction of a model.
        movement: Beside another run.
    """

    standing: Standing
    joined: JoinedRun | None = None
    movement: Movement | None = None


class Memory(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """Memory over a run.

    Attributes:
        analysis: With its workload.
        checkpoint: Recompute activations in backward; a text names the blocks.
    """

    analysis: Analysis
    checkpoint: bool | str = False


class Pictures(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """The pictures of a language model: intensity over batch and context, time, cache."""

    analysis: Analysis
