"""The device: its ceilings, each with where the number comes from. Unknown is absent."""

from __future__ import annotations

from enum import StrEnum

import msgspec

SCHEMA_VERSION = 1


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a number comes from.

    Attributes:
        title: Document, table, page.
        url: Its address; empty for derived, measured and user-given numbers.
        date: When it was published or read, ISO; empty where unknown.
        confidence: ``primary``, ``primary-quoted``, ``secondary``, ``derived``, ``measured`` or
            ``user``; docs/hardware.md says what each means.
    """

    title: str
    url: str = ""
    date: str = ""
    confidence: str = "user"


class CeilingKind(StrEnum):
    """How a ceiling is known."""

    DATASHEET = "datasheet"
    MEASURED = "measured"
    DERIVED = "derived"
    USER = "user"
    DEMONSTRATED = "demonstrated"  # reached by a published run; the hardware may be faster


class Ceiling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One compute roof.

    Attributes:
        engine: ``matrix``, ``vector``, ``dla``, ``npu`` or ``module`` (all engines of a
            system-on-module together).
        dtype: Number format of the operands.
        flop_per_s: Dense peak, FLOP/s (integer operations count alike).
        sparse_flop_per_s: Peak with the vendor's structured sparsity, None where none is published.
        accumulate: Accumulator format where it decides the rate, e.g. ``"fp16"``.
        kind: Datasheet, derived, measured, given by the user or demonstrated.
        source: Where the dense figure comes from.
        sparse_source: Where the sparse figure comes from.
        note: Caveats, formula.
    """

    engine: str
    dtype: str
    flop_per_s: float
    source: Source
    sparse_flop_per_s: float | None = None
    sparse_source: Source | None = None
    accumulate: str = ""
    kind: CeilingKind = CeilingKind.DATASHEET
    note: str = ""


class MemoryLevel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory level.

    A level may consist of several memories: one per die, per multiprocessor or per core. The whole
    then follows from one of them; `gambrel.device.onchip` does the arithmetic.

    Attributes:
        name: ``DRAM``, ``LLC``, ``L2``, ``L1`` (shared memory or first-level cache),
            ``registers``, ``TMEM`` (operands of a matrix engine) or ``SRAM`` (software-managed).
        capacity_bytes: The whole level, byte; None where not published, or where it follows from
            ``instance_bytes``, ``per_unit`` and the number of units.
        byte_per_s: Read bandwidth of the whole level, None where not published.
        technology: E.g. ``"HBM3"``.
        capacity_source: Source of the capacity, of the whole or of one instance.
        bandwidth_source: Source of the bandwidth, of the whole or of one instance.
        kind: Of the bandwidth.
        note: Caveats.
        instance_bytes: Capacity of one of the memories that make up the level, byte; None where
            the level is one memory.
        per_unit: How many of them each unit of the fact ``num_units`` has for itself; None for a
            level that the units share.
        byte_per_clock: Bandwidth of one of them, byte per cycle of the boost clock.
    """

    name: str
    capacity_bytes: int | None = None
    byte_per_s: float | None = None
    technology: str = ""
    capacity_source: Source | None = None
    bandwidth_source: Source | None = None
    kind: CeilingKind = CeilingKind.DATASHEET
    note: str = ""
    instance_bytes: int | None = None
    per_unit: int | None = None
    byte_per_clock: int | None = None


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A link to the host or to other devices.

    Attributes:
        name: E.g. ``"nvlink"``, ``"pcie"``, ``"usb3"``.
        byte_per_s: Bandwidth in the sense of ``direction``.
        direction: ``"per direction"``, ``"bidirectional total"`` or ``"unknown"``.
        source: Where it comes from.
        note: Caveats.
    """

    name: str
    byte_per_s: float
    direction: str
    source: Source
    note: str = ""

    @property
    def byte_per_s_per_direction(self) -> float | None:
        """Bandwidth one way; None when the direction is unknown."""
        if self.direction == "bidirectional total":
            return self.byte_per_s / 2
        return self.byte_per_s if self.direction == "per direction" else None


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another number about the device: a clock, a count of units, a rate, a second reading.

    Attributes:
        name: E.g. ``"boost_clock"``, ``"num_units"``, ``"dram_bandwidth_alt"``.
        value: In ``unit``.
        unit: ``Hz``, ``SM``, ``FLOP/clk/unit``, ...
        source: Where it comes from.
        note: Caveats.
    """

    name: str
    value: float
    unit: str
    source: Source
    note: str = ""


class Cores(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kind of the cores of a hybrid processor.

    Attributes:
        name: As its makers call it, e.g. ``"P"``, ``"E"``.
        count: How many there are.
        flop_per_clock: Of one core, in fp32.
        base_clock_hz: At which they run within the processor's base power.
        boost_clock_hz: The highest.
        source: Where the figures come from.
        note: Caveats.
    """

    name: str
    count: int
    flop_per_clock: float
    base_clock_hz: float
    boost_clock_hz: float
    source: Source
    note: str = ""


class PowerMode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A setting that caps clocks and units so that a device stays within a power budget.

    Attributes:
        name: As its makers call it, e.g. ``"7W"``.
        tdp_w: The budget, W: what `Device.tdp_w` is in this mode.
        boost_clock_hz: Of the units that the ceilings belong to (a GPU's).
        num_units: Of these, how many are powered; None for all.
        dla_clock_hz: Of the accelerators beside it; None where there are none.
        byte_per_s: Of the main memory; None where the mode leaves it alone.
        source: Where the figures come from.
        note: Caveats.
    """

    name: str
    tdp_w: float
    boost_clock_hz: float
    source: Source
    num_units: int | None = None
    dla_clock_hz: float | None = None
    byte_per_s: float | None = None
    note: str = ""


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine that runs models.

    Attributes:
        id: Short unique name, e.g. ``"h100-sxm5-80gb"``.
        name: Full name, e.g. ``"NVIDIA H100 SXM5 80GB"``.
        vendor: Maker.
        category: ``"datacenter gpu"``, ``"edge gpu"``, ``"tpu"``, ``"npu"``, ``"cpu"``, ...;
            docs/hardware.md lists them.
        architecture: E.g. ``"Hopper (GH100, sm_90)"``.
        year: Of introduction, None where unknown.
        ceilings: Compute roofs, dense.
        demonstrated: Rates that published runs reached where no roof is published, or above it.
            No analysis takes them for a roof; `gambrel.device.fastest` says what they are good for.
        memory: Levels, outermost first: DRAM (if any), then caches or SRAM, then what each unit
            has for itself.
        links: To host and peers.
        tdp_w: The most power that it draws, W: thermal design power, or the limit that the maker
            sets to board, module or power mode; None where not published.
        tdp_source: Its source.
        typical_power_w: What its maker, or a measurement, says that it draws while it works, W;
            proves nothing.
        typical_power_source: Its source.
        idle_power_w: The least that was measured while it was ready to work, W.
        idle_power_source: Its source.
        cores: Kinds of cores of a hybrid processor, the fastest first; empty where all are alike.
        modes: Settings with a lower power budget; `gambrel.device.modes` makes devices of them.
        facts: Clocks, unit counts, rates per clock, second readings.
        aliases: Other names by which people and drivers call it.
        unknown: Names of quantities that were looked for and are not published.
        notes: Sentences that a user must know (sparse figures, disagreements).
    """

    id: str
    name: str
    vendor: str = ""
    category: str = ""
    architecture: str = ""
    year: int | None = None
    ceilings: tuple[Ceiling, ...] = ()
    demonstrated: tuple[Ceiling, ...] = ()
    memory: tuple[MemoryLevel, ...] = ()
    links: tuple[Link, ...] = ()
    tdp_w: float | None = None
    tdp_source: Source | None = None
    typical_power_w: float | None = None
    typical_power_source: Source | None = None
    idle_power_w: float | None = None
    idle_power_source: Source | None = None
    cores: tuple[Cores, ...] = ()
    modes: tuple[PowerMode, ...] = ()
    facts: tuple[Fact, ...] = ()
    aliases: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def ceiling(self, engine: str, dtype: str, accumulate: str = "") -> Ceiling | None:
        """The roof of an engine for a number format; None where it is not published."""
        for c in self.ceilings:
            if (c.engine, c.dtype, c.accumulate) == (engine, dtype, accumulate):
                return c
        return None

    def level(self, name: str) -> MemoryLevel | None:
        """A memory level by name; None where the device has none of that name."""
        return next((m for m in self.memory if m.name == name), None)

    def fact(self, name: str) -> Fact | None:
        """A fact by name."""
        for found in self.facts:
            if found.name == name:
                return found
        return None
