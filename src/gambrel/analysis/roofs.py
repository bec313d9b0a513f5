"""The roofs of one device as an analysis uses them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from gambrel.analysis.measures import Bound
from gambrel.device.fastest import fastest as fastest_rate
from gambrel.device.model import Ceiling, Device, MemoryLevel
from gambrel.device.roofs import (
    Roof,
    host_link,
    main_memory,
    network_link,
    peer_link,
    resolve,
)


class Roofs(msgspec.Struct, frozen=True, kw_only=True):
    """The roofs of one device as an analysis uses them.

    Attributes:
        memory: Name of the memory resource; empty when no bandwidth is known.
        memory_byte_per_s: Its bandwidth; None when unknown.
        memory_bound: What a limit by it is called (a device that lives off its host link is
            network-bound).
        flash_bytes: The part of it that is flash and holds the weights; None where all is one.
        link: Name of the link to peers or host; empty when none is known.
        link_byte_per_s: Its bandwidth one way.
        network_byte_per_s: Bandwidth of the network between nodes, a device's share, one way;
            None where the device is not placed in a network.
        notes: What the user must know about these roofs.
        narrow_sums: Whether GEMMs in fp16 are summed in fp16 where that is faster.
        engines: (class of work, number format, sparse) → roof, filled as they are asked for.
        least: (class of work, number format, prunable) → `least_time_roof`, likewise.
    """

    device: Device
    sparsity: bool
    engine: str | None
    memory: str
    memory_byte_per_s: float | None
    memory_bound: Bound
    capacity_bytes: int | None
    link: str
    link_byte_per_s: float | None
    off_chip_only: bool
    notes: tuple[str, ...]
    network_byte_per_s: float | None = None
    flash_bytes: int | None = None
    narrow_sums: bool = False
    engines: dict[tuple[str, str, bool], Roof | None] = msgspec.field(default_factory=dict)
    least: dict[tuple[str, str, bool], tuple[str, float] | None] = msgspec.field(
        default_factory=dict
    )

    def engine_roof(self, work_class: str, dtype: str, prunable: bool = False) -> Roof | None:
        """The roof that serves a class of work in a number format; None when unknown.

        Args:
            work_class: ``matrix``, ``vector`` or ``special``.
            dtype: Number format.
            prunable: Whether the work multiplies by weights: only that reaches a sparse peak.
        """
        key = (work_class, dtype, prunable and self.sparsity)
        if key not in self.engines:
            self.engines[key] = resolve(
                self.device,
                work_class,
                dtype,
                sparsity=key[2],
                engine=self.engine,
                narrow_sums=self.narrow_sums,
            )
        return self.engines[key]

    def least_time_roof(
        self, work_class: str, dtype: str, prunable: bool = False
    ) -> tuple[str, float] | None:
        """Engine and FLOP/s of the least time that work can take; None when unknown.

        Work without a published roof is held against the rate of the speed of light, if that knows
        one (demonstrated, or of a narrower format), so that no roofline time is below it. It stays
        without a roof, and the verdict without an answer.
        """
        key = (work_class, dtype, prunable)
        if key not in self.least:
            self.least[key] = self._least_time_roof(*key)
        return self.least[key]

    def _least_time_roof(
        self, work_class: str, dtype: str, prunable: bool
    ) -> tuple[str, float] | None:
        roof = self.engine_roof(work_class, dtype, prunable)
        if roof is not None:
            return roof.engine, roof.flop_per_s
        if work_class != "matrix":
            return None
        found = fastest_rate(self.device, work_class, dtype, sparsity=prunable and self.sparsity)
        return None if found is None else (work_class, found.flop_per_s)

    def vector_peak(self, dtype: str) -> float | None:
        """FLOP/s of the vector units, for kernels that could run there; None when unknown."""
        roof = resolve(self.device, "vector", dtype)
        return roof.flop_per_s if roof else None

    def engine_notes(self, work: Iterable[tuple[str, str, bool]]) -> tuple[str, ...]:
        """Notes of the roofs that serve some work: fallbacks, sparse figures, whole-module peaks.

        Args:
            work: (class of work, number format, prunable), as `engine_roof` takes them.
        """
        roofs = (self.engine_roof(*key) for key in work)
        return tuple(dict.fromkeys(r.note for r in roofs if r is not None and r.note))

    def unknown_engines(self, work: Iterable[tuple[str, str, bool]]) -> tuple[str, ...]:
        """Classes of work for which the device publishes no roof (special functions apart)."""
        missing = [
            f"{key[0]} {key[1]}"
            for key in work
            if key[0] != "special" and self.engine_roof(*key) is None
        ]
        return tuple(dict.fromkeys(missing))


def _bytes_of(device: Device, fact: str) -> int | None:
    known = device.fact(fact)
    return int(known.value) if known is not None and known.value else None


def roofs_of(device: Device, *, sparsity: bool = False, engine: str | None = None) -> Roofs:
    """Chooses the memory roof and the link of a device.

    DRAM where there is one; on-chip SRAM where that is all there is and its bandwidth is
    published; else the host link, over which weights that do not fit and all inputs and outputs
    must pass.
    """
    memory, link = main_memory(device), host_link(device)
    rate = link.byte_per_s_per_direction if link else None
    off_chip_only = (memory is None or memory.byte_per_s is None) and rate is not None
    peer = None if off_chip_only else peer_link(device)
    network = network_link(device)
    flash, sram = _bytes_of(device, "flash_capacity"), _bytes_of(device, "sram_capacity")
    if off_chip_only and link is not None:
        name, byte_per_s, bound = link.name, rate, Bound.NETWORK
        capacity = None  # what does not fit in its on-chip memory is streamed from the host
        notes: tuple[str, ...] = (
            f"{device.id} publishes no memory bandwidth: traffic is what crosses its {link.name} "
            "link (inputs, outputs, and weights beyond its on-chip memory).",
        )
    else:
        name = memory.name if memory else ""
        byte_per_s = memory.byte_per_s if memory else None
        capacity = memory.capacity_bytes if memory else None
        if flash is not None and sram is not None:
            capacity = flash + sram
        bound = Bound.MEMORY
        notes = () if byte_per_s else (f"{device.id}: memory bandwidth unknown.",)
    return Roofs(
        device=device,
        sparsity=sparsity,
        engine=engine,
        memory=name,
        memory_byte_per_s=byte_per_s,
        memory_bound=bound,
        capacity_bytes=capacity,
        link=peer.name if peer else "",
        link_byte_per_s=peer.byte_per_s_per_direction if peer else None,
        off_chip_only=off_chip_only,
        flash_bytes=flash,
        notes=notes,
        network_byte_per_s=network.byte_per_s_per_direction if network else None,
    )


def under(roofs: Roofs, *, narrow_sums: bool) -> Roofs:
    """The roofs of kernels that sum as a runtime's do."""
    if narrow_sums == roofs.narrow_sums:
        return roofs
    return replace(roofs, narrow_sums=narrow_sums, engines={}, least={})


def of_one_die(roofs: Roofs) -> Roofs:
    """What a process has of a package whose dies are devices of their own to a runtime (MI250)."""
    dies = roofs.device.fact("dies")
    if dies is None:
        return roofs
    share = 1 / dies.value

    def part(rate: float | None) -> float | None:
        return None if rate is None else rate * share

    def ceiling(c: Ceiling) -> Ceiling:
        sparse = part(c.sparse_flop_per_s)
        return replace(c, flop_per_s=c.flop_per_s * share, sparse_flop_per_s=sparse)

    def level(m: MemoryLevel) -> MemoryLevel:
        capacity = None if m.capacity_bytes is None else int(m.capacity_bytes * share)
        return replace(m, capacity_bytes=capacity, byte_per_s=part(m.byte_per_s))

    device = replace(
        roofs.device,
        ceilings=tuple(map(ceiling, roofs.device.ceilings)),
        memory=tuple(map(level, roofs.device.memory)),
        tdp_w=part(roofs.device.tdp_w),
        facts=tuple(
            replace(f, value=f.value * share) if f.name == "num_units" else f
            for f in roofs.device.facts
        ),
    )
    rate = part(roofs.memory_byte_per_s)
    return replace(roofs, device=device, memory_byte_per_s=rate, engines={}, least={})
