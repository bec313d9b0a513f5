"""Fitted constants: what a set holds, and reading the packaged file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from gambrel.analysis.estimate.engine_constants import EngineConstants
from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.language_constants import LanguageRates
from gambrel.analysis.estimate.probed import Probed
from gambrel.analysis.estimate.tiled_constants import StreamConstants, TiledClass, TiledConstants

#: Edges of the bins of predicted time in which ranges are given, s.
EDGES_S: Final = (2e-5, 2e-4, 2e-3)

#: Range (high / low) beyond which a prediction is not called "high", one a bin of `EDGES_S`: short
#: kernels differ more, and matter less.
WIDE: Final = (2.0, 1.5, 1.5, 1.5)


class Slower(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels that take longer than the same runtime's in a wider format on the same shapes.

    Attributes:
        than: The wider format.
        by: Ratio of the times, the median over shapes.
        shapes: Shapes that were measured in both.
    """

    than: str
    by: float
    shapes: int


class Set(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of one formula for one group of number formats on one device.

    Attributes:
        framework: Framework whose kernels were measured; ``any``: all of them, each weighing alike.
        form: Name of the formula.
        formats: Number formats.
        device: Id of the device measured.
        constants: By name; see `forms`.
        points: Number of measurements fitted.
        low: Lower end of measured / predicted, one a bin of `EDGES_S`.
        high: Upper end.
        held_out: Errors on shapes not fitted; None for a user's own small calibration.
        confidence: ``high``, or ``medium`` where too few points are behind it.
        describes: Framework whose kernels the constants describe; ``any``: an average.
        slower: Where the kernels are slower than a wider format's: no other device or format takes
            the set, and a report says so.
    """

    framework: str
    form: str
    formats: tuple[str, ...]
    device: str
    constants: dict[str, float]
    points: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    held_out: HeldOut | None = None
    confidence: str = ""
    describes: str = "any"
    slower: Slower | None = None


class Kin(msgspec.Struct, frozen=True, kw_only=True):
    """A class of devices and whose constants they borrow.

    Attributes:
        match: Texts, any of which the device's architecture, vendor or category must contain; an
            empty tuple matches every device.
        borrow: Id of the device whose constants are used.
        before: Ids of nearer devices, of which few constants are known, taken as they are.
        confidence: Of what is borrowed: ``medium`` or ``low``.
        why: The reason, for the reader.
        factors: Constant, or form and constant with a dot between → what to multiply it with.
        low: Further factor on the lower end of ranges.
        high: Further factor on the upper end.
        units: Number of units where the device publishes none; None: do not use its own either,
            because its units are not like those that were measured.
        clock_hz: Clock where the device publishes none.
        nearest: Formula → id of the device whose constants it takes before those of ``borrow``.
        near: Factors on both ends of ranges where constants come from ``nearest`` or ``before``, in
            place of ``low`` and ``high``; the confidence is medium then.
        alone: Constants of other classes of devices are never taken; what was not measured in the
            class is not known.
        per_unit: Formula → FLOP per cycle of the matrix engine of a unit of ``borrow``, 16 bits,
            where what a unit does besides takes the cycles that it takes there.
    """

    match: tuple[str, ...]
    borrow: str
    confidence: str
    why: str
    low: float
    high: float
    factors: dict[str, float] = {}
    before: tuple[str, ...] = ()
    units: float | None = None
    clock_hz: float = 1.7e9
    nearest: dict[str, str] = {}
    near: tuple[float, float] | None = None
    alone: bool = False
    per_unit: dict[str, float] = {}


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """What a class of devices attains of its roofs under a runtime; see `shares`.

    Attributes:
        runtime: Id of the runtime.
        match: Patterns of the devices, as in `Runtime.runs_on`.
        memory: Share of the bandwidth.
        cached: Bytes that an op reads and writes per FLOP of the vector peak, where they lie in the
            caches of the cores; None: the memory alone decides.
        power: Runtime whose engine constants have the energy of a FLOP of a processor: it holds the
            clock that its power allows. Empty: halfway between its base clock and its highest.
        clock: Share of its highest clock that a processor holds so; 0 where it is not known. Not
            stored: `shares.shares_of` finds it for a device.
        compute: Share of the peak, weights of 16 bits and more.
        compute_stored: Share of the peak where weights are unpacked.
        unpack: Lane cycles to unpack a weight.
        unpack_few: Those of a weight of fewer than four bits; None: as of any.
        tile: Rows to which products of several rows with unpacked weights are filled up.
        expert_tile: Those to which the rows of each expert are.
        grid_rows: Rows that the units of the device take at a time in a product of more rows than
            one tile has: with fewer, some of them idle.
        start_s: Launch of a kernel.
        pieces: Kind of op → kernels that one is written with, and those that a bias adds; of others
            one.
        matrix: Share of the peak of a matrix engine beside vector units (AMX); 0 where it was not
            measured, None where there is no such class.
        formats: Number formats of products that were measured; of others nothing is known. Empty:
            any.
        lanes_per_byte: FLOP of the vector units per byte of bandwidth, for devices of the class
            that publish no vector peak; 0 where unpacking never decides.
        attention: Share of the bandwidth in attention; None: as elsewhere.
        by_head: Whether each query head of a new token reads the cache by itself.
        attention_compute: Share of the peak in attention; None: as elsewhere.
        convolution: Share of the peak in convolutions; None: as elsewhere.
        link: Share of the rate of the link in a collective.
        exchange_s: Start of a collective; None: as of any op.
        step_s: Fixed time of a run, in which the host starts it and takes its results.
        apart: Whether each unit of the device runs the network by itself: fewer inputs than units
            leave the others idle.
        low: Lower end of measured / predicted.
        high: Upper end.
        prompt: Both ends for products of many rows, as of prompts; as ``low`` and ``high`` when
            None.
        confidence: ``medium`` or ``low``.
        rows: Measured runs of this runtime on this class behind it.
        error: Their mean absolute error on models that were not fitted, 1; None without any.
        why: For the reader.
        source: Of the measurements.
    """

    runtime: str
    match: tuple[str, ...]
    memory: float
    cached: float | None = None
    power: str = ""
    clock: float = 0.0
    compute: float
    compute_stored: float
    unpack: float = 0.0
    unpack_few: float | None = None
    start_s: float
    pieces: dict[str, tuple[int, int]] = {}
    tile: int = 1
    expert_tile: int = 1
    grid_rows: int = 1
    matrix: float | None = None
    formats: tuple[str, ...] = ()
    lanes_per_byte: float = 0.0
    attention: float | None = None
    by_head: bool = False
    attention_compute: float | None = None
    convolution: float | None = None
    link: float = 1.0
    exchange_s: float | None = None
    step_s: float = 0.0
    apart: bool = False
    low: float
    high: float
    prompt: tuple[float, float] | None = None
    confidence: str
    rows: int
    error: float | None = None
    why: str
    source: str


class Cycles(msgspec.Struct, frozen=True, kw_only=True):
    """Cycles that a core spends on a network's layers under a runtime; see `cycles`.

    Attributes:
        runtime: Id of the runtime.
        match: Patterns of the devices, as in `Runtime.runs_on`.
        dtype: Number format.
        window: Of a multiply-add of a convolution, or of a linear layer with many rows.
        depthwise: Of one whose group is a single channel.
        linear: Of one whose weight is used once.
        finish: Of an element that a layer writes: scaling, rounding, storing.
        low: Lower end of measured / predicted.
        high: Upper end.
        confidence: ``medium`` or ``low``.
        rows: Measured runs behind it.
        error: Mean absolute error on boards that were not fitted, else on models, 1.
        why: For the reader.
        source: Of the measurements.
    """

    runtime: str
    match: tuple[str, ...]
    dtype: str
    window: float
    depthwise: float
    linear: float
    finish: float
    low: float
    high: float
    confidence: str
    rows: int
    error: float | None = None
    why: str
    source: str
    start_s: float = 0.0


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """Factors on the times of one runtime on one device; see `adjust`.

    Attributes:
        runtime: Id.
        device: Id.
        factors: Of computing, of moving data and of launches; larger is slower.
        rows: Measured runs behind them.
        models: Different models among these.
        low: Lower end of measured / predicted.
        high: Upper end.
        confidence: ``medium`` or ``low``.
        held_out: Errors on models that were left out; None for a single one.
    """

    runtime: str
    device: str
    factors: dict[str, float]
    rows: int = 0
    models: int = 0
    low: float = 1.0
    high: float = 1.0
    confidence: str = "low"
    held_out: HeldOut | None = None

    @property
    def why(self) -> str:
        """Whose factors they are, for the reader."""
        error = f", {self.held_out.mape:.0%} mean error on others" if self.held_out else ""
        return f"scaled to {self.rows} of your own runs of {self.models} models{error}"


class Calibration(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All constants. Two are the same only if they are one object, so that tables can be kept.

    Attributes:
        source: Where the measurements come from, with licence and date.
        kin: Classes of devices, the first match counts.
        sets: Fitted sets.
        probed: Classes of ops that were measured on a machine itself; they come first.
        shares: Shares of the roofs, of classes of which only whole runs were measured.
        cycles: Of single cores, by class of op.
        tiled: Constants of whole runs on NPUs, by chip; a user's own come first.
        tiled_classes: The same from a datasheet.
        streams: Constants of chips that stream frames.
        engines: Constants of engines, by class of devices.
        language: What NPUs attain of language models.
        adjusted: A user's factors on all these, by runtime and device.
    """

    source: dict[str, str]
    kin: tuple[Kin, ...]
    sets: tuple[Set, ...]
    probed: tuple[Probed, ...] = ()
    shares: tuple[Shares, ...] = ()
    cycles: tuple[Cycles, ...] = ()
    tiled: tuple[TiledConstants, ...] = ()
    tiled_classes: tuple[TiledClass, ...] = ()
    streams: tuple[StreamConstants, ...] = ()
    engines: tuple[EngineConstants, ...] = ()
    language: tuple[LanguageRates, ...] = ()
    adjusted: tuple[Adjustment, ...] = ()


@lru_cache(maxsize=1)
def packaged() -> Calibration:
    """The constants that come with gambrel, read once."""
    path = Path(__file__).parents[1] / "calibration" / "constants.json"
    return msgspec.json.decode(path.read_bytes(), type=Calibration)
