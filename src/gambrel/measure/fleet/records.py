"""What a worker says of its devices, and what the comparison of all of them says."""

from __future__ import annotations

import msgspec

from gambrel.measure.gpu.board import BoardState
from gambrel.views import Viewed


class FleetFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One ceiling of one device.

    Attributes:
        name: What was measured, e.g. ``"gemm fp32"``.
        value: The rate, of the faster half of the slices.
        unit: ``FLOP/s`` or ``B/s``.
        spread: How far the slices are apart, as a share of the value.
    """

    name: str
    value: float
    unit: str
    spread: float = 0.0


class FleetLag(msgspec.Struct, frozen=True, kw_only=True):
    """A device that was slower than all peers beside it in every one of several rounds.

    Attributes:
        figure: In which figure.
        share: How far below the median of its peers, in the middle one of the rounds.
        rounds: How many.
        peers: Devices beside it.
    """

    figure: str
    share: float
    rounds: int
    peers: int


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """One device of one worker.

    Attributes:
        worker: Its address or name.
        host: The node.
        device: ``cpu``, ``cuda:0``, ...
        sku: What it calls itself; devices of one SKU are compared.
        figures: What was measured.
        claimed_s: Seconds that the measurement took by the worker's own clock.
        waited_s: The most that the same may have been by the clock of whoever asked; None where
            nobody did.
        waited_least_s: The least; asking takes a moment too.
        ahead_s: How far the worker's wall clock is ahead of the asker's; None where unknown.
        board: What the driver said of a GPU while it was measured.
        load: Processes that wanted to run just before; None where unknown.
        stolen: Share of the time in which its process wanted to run and did not.
        problem: Why there are no figures; empty where there are.
        cleared: Slow at first, and like its peers when measured again beside them.
        lag: What rounds beside peers say where figures are too noisy for one measurement.
    """

    worker: str
    host: str
    device: str
    sku: str = ""
    figures: tuple[FleetFigure, ...] = ()
    claimed_s: float | None = None
    waited_s: float | None = None
    waited_least_s: float | None = None
    ahead_s: float | None = None
    board: BoardState | None = None
    load: float | None = None
    stolen: float | None = None
    problem: str = ""
    cleared: bool = False
    lag: FleetLag | None = None

    @property
    def name(self) -> str:
        """Worker and device."""
        return f"{self.worker} {self.device}"

    def value(self, name: str) -> float | None:
        """One figure; None where it was not measured."""
        return next((f.value for f in self.figures if f.name == name), None)


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A device that is not like its peers.

    Attributes:
        worker: Its worker.
        device: Which.
        cause: ``slow``, ``clock``, ``silent``, ``board`` or ``drift``.
        evidence: A sentence with figures.
        confidence: ``high``, ``medium`` or ``low``.
        lag_share: How much slower than the median it is; None for other causes.
    """

    worker: str
    device: str
    cause: str
    evidence: str
    confidence: str
    lag_share: float | None = None


class Peers(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over all devices of a SKU.

    Attributes:
        sku: Of the devices.
        figure: Which.
        unit: Of the figure.
        devices: How many have it.
        median: The middle one.
        mad_share: Median absolute deviation, as a share of the median.
        slowest: Of all.
        fastest: Of all.
    """

    sku: str
    figure: str
    unit: str
    devices: int
    median: float
    mad_share: float
    slowest: float
    fastest: float


class FleetReport(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A fleet.

    Attributes:
        checkups: Every device.
        peers: Each figure of each SKU.
        suspects: Devices that are not like the others, the worst first.
        warnings: What the reader should know: two groups of speeds, whole nodes that are slow.
        date: ISO date and time.
    """

    checkups: tuple[Checkup, ...]
    peers: tuple[Peers, ...]
    suspects: tuple[Suspect, ...]
    warnings: tuple[str, ...] = ()
    date: str = ""
