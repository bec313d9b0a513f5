"""What a design sweep gives: the points, and one design looked at layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gambrel.analysis.sweep.record import Sweep
from gambrel.views import Viewed


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignLayer:
    """A layer of a model on one design; times and bytes of all its executions.

    Attributes:
        model: The model.
        name: Of the layer.
        kind: Of its main op.
        count: Executions.
        array_time_s: Time.
        share: Of the model's time.
        array_utilization: Work over peak times time.
        traffic_bytes: Across the DRAM interface with the best tiling, without what stays on chip
            between layers.
        tiled_bytes: Of its main op alone, with the best tiling; None where it is not tiled.
        io_bound_bytes: Published lower bound of any schedule of its main op with that much memory
            on chip, at least every operand once; None where none is known.
        tiling: Best tiling of its main op; empty where every operand crosses once.
        limited_by: The busiest resource.
        parameter: The one of which 10 % more saves most of its time; empty where none saves any.
        gain: What 10 % more saves, as a share of its time; of parameters that count things, in
            proportion to what one more saves.
    """

    model: str
    name: str
    kind: str
    count: int
    array_time_s: float
    share: float
    array_utilization: float
    traffic_bytes: float
    tiled_bytes: float | None
    io_bound_bytes: float | None
    tiling: str
    limited_by: str
    parameter: str
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What 10 % more of a parameter is worth.

    Attributes:
        parameter: Which.
        now: Its value in the design, in the unit of the parameter.
        tried_value: What was tried: 10 % more, rounded where only whole numbers make sense.
        time_gain: Share of the time that it saves; negative where it costs time.
        per_tenth: The same for 10 % more, in proportion, where more was tried.
        energy_gain: The same of the energy; None where it is unknown.
        area_cost: Share of area that it adds; None where it is unknown.
    """

    parameter: str
    now: float
    tried_value: float
    time_gain: float
    per_tenth: float
    energy_gain: float | None
    area_cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionDepth:
    """How many consecutive layers of a model stay on chip together.

    Attributes:
        model: The model.
        stacks: Groups of layers whose weights and rows in flight fit on chip together.
        deepest: Layers of the deepest group.
        mean: Layers of a group on average.
        traffic_bytes: Across the DRAM interface where only ends of groups and weights cross.
    """

    model: str
    stacks: int
    deepest: int
    mean: float
    traffic_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, weakref_slot=True)
class DesignStudy(Viewed):
    """Designs under models.

    Attributes:
        name: Of the specification.
        about: Its sentence.
        sweep: All points.
        chosen: Parameters of the design that is looked at: the fastest within the budgets.
        device: What its formulas give: rows, cols, arrays, sram, dram_byte_per_s, energies ...
            in base units, and its formats and dataflow.
        totals: Its figures under all models together, by column.
        layers: Its layers, slowest first.
        sensitivities: Of its time under all models together, largest gain first.
        fusion: How deep its memory lets layers fuse.
        assumptions: What the figures rest on.
        warnings: What the reader should know.
    """

    name: str
    about: str
    sweep: Sweep
    chosen: Mapping[str, float | str]
    totals: Mapping[str, Any]
    device: Mapping[str, Any]
    layers: tuple[DesignLayer, ...]
    sensitivities: tuple[Sensitivity, ...]
    fusion: tuple[FusionDepth, ...] = ()
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dataframe(self) -> Any:
        """The points, one a row.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return self.sweep.to_dataframe()
