"""Holding the cost of an op against the roofs of a device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from gambrel.analysis.estimate.estimator import total as expected_total
from gambrel.analysis.levels import add_levels
from gambrel.analysis.measures import Bound, EngineWork, Estimate, Measures, ResourceTime
from gambrel.device.model import Device
from gambrel.device.roofs import (
    NETWORK,
    Roof,
    host_link,
    main_memory,
    network_link,
    peer_link,
    resolve,
)
from gambrel.ops import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """The roofs of one device as an analysis uses them.

    Attributes:
        memory: Name of the memory resource; empty when no bandwidth is known.
        memory_byte_per_s: Its bandwidth; None when unknown.
        memory_bound: What a limit by it is called (a device that lives off its host link is
            network-bound).
        link: Name of the link to peers or host; empty when none is known.
        link_byte_per_s: Its bandwidth one way.
        network_byte_per_s: Bandwidth of the network between nodes, a device's share, one way;
            None where the device is not placed in a network.
        notes: What the user must know about these roofs.
        engines: (class of work, number format, sparse) → roof, filled as they are asked for.
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
    engines: dict[tuple[str, str, bool], Roof | None] = field(default_factory=dict)

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
                self.device, work_class, dtype, sparsity=key[2], engine=self.engine
            )
        return self.engines[key]

    def vector_peak(self, dtype: str) -> float | None:
        """FLOP/s of the vector units, for kernels that could run there; None when unknown.

        Asking does not make the roof one that the analysis stands on.
        """
        roof = resolve(self.device, "vector", dtype)
        return roof.flop_per_s if roof else None

    def engine_notes(self) -> tuple[str, ...]:
        """Notes of the roofs that were used: fallbacks, sparse figures, whole-module peaks."""
        notes = [roof.note for roof in self.engines.values() if roof is not None and roof.note]
        return tuple(dict.fromkeys(notes))

    def unknown_engines(self) -> tuple[str, ...]:
        """Classes of work for which the device publishes no roof (special functions apart)."""
        missing = [
            f"{work_class} {dtype}"
            for (work_class, dtype, _), roof in self.engines.items()
            if roof is None and work_class != "special"
        ]
        return tuple(dict.fromkeys(missing))


def roofs_of(device: Device, *, sparsity: bool = False, engine: str | None = None) -> Roofs:
    """Chooses the memory roof and the link of a device.

    DRAM where there is one; on-chip SRAM where that is all there is and its bandwidth is
    published; else the host link, over which weights that do not fit and all inputs and outputs
    must pass.
    """
    memory, link = main_memory(device), host_link(device)
    rate = link.byte_per_s_per_direction if link else None
    sram = device.level("SRAM")
    off_chip_only = (memory is None or memory.byte_per_s is None) and rate is not None
    peer = None if off_chip_only else peer_link(device)
    network = network_link(device)
    if off_chip_only and link is not None:
        name, byte_per_s, bound = link.name, rate, Bound.NETWORK
        capacity = sram.capacity_bytes if sram else None
        notes: tuple[str, ...] = (
            f"{device.id} publishes no memory bandwidth: traffic is what crosses its {link.name} "
            "link (inputs, outputs, and weights beyond its on-chip memory).",
        )
    else:
        name = memory.name if memory else ""
        byte_per_s = memory.byte_per_s if memory else None
        capacity = memory.capacity_bytes if memory else None
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
        notes=notes,
        network_byte_per_s=network.byte_per_s_per_direction if network else None,
    )


def bound_op(cost: Cost, roofs: Roofs, count: int = 1) -> Measures:
    """The measures of one op executed ``count`` times.

    Args:
        cost: Work and traffic of one execution.
        roofs: Of the device.
        count: Executions.
    """
    work = tuple(
        _engine_work(engine.value, dtype, round(flops) * count, roofs, cost.prunable)
        for (engine, dtype), flops in cost.work.items()
        if flops
    )
    read, write = round(cost.read_bytes) * count, round(cost.write_bytes) * count
    link, network = round(cost.link_bytes) * count, round(cost.network_bytes) * count
    seconds: dict[tuple[str, Bound], float] = {}
    for w in work:
        if w.time_s is not None:
            key = (w.engine, Bound.COMPUTE)
            seconds[key] = seconds.get(key, 0.0) + w.time_s
    if roofs.memory_byte_per_s is not None and read + write:
        key = (roofs.memory, roofs.memory_bound)
        seconds[key] = (read + write) / roofs.memory_byte_per_s
    if roofs.link_byte_per_s is not None and link:
        seconds[(roofs.link, Bound.NETWORK)] = link / roofs.link_byte_per_s
    if roofs.network_byte_per_s is not None and network:
        seconds[(NETWORK, Bound.NETWORK)] = network / roofs.network_byte_per_s
    bound_time = max(seconds.values(), default=None)
    return _measures(work, read, write, link + network, seconds, bound_time, roofs)


def overlapped(parts: Iterable[Measures], roofs: Roofs) -> Measures:
    """The bound and the busy times of ops that run at the same time, as one kernel.

    Args:
        parts: Of the ops.
        roofs: Of the device.
    """
    parts = tuple(parts)
    seconds: dict[tuple[str, Bound], float] = defaultdict(float)
    for part in parts:
        for t in part.times:
            seconds[t.resource, t.bound] += t.time_s
    read, write = sum(p.read_bytes for p in parts), sum(p.write_bytes for p in parts)
    bound_time = max(seconds.values(), default=None)
    return _measures((), read, write, sum(p.link_bytes for p in parts), seconds, bound_time, roofs)


def add(parts: Iterable[Measures], roofs: Roofs, total_time_s: float | None = None) -> Measures:
    """The measures of ops that run one after another: work, traffic and times add.

    Args:
        parts: Of the ops.
        roofs: Of the device.
        total_time_s: Bound time of the whole, for the share; None leaves the share out.
    """
    merged: dict[tuple[str, str, float | None], EngineWork] = {}
    seconds: dict[tuple[str, Bound], float] = defaultdict(float)
    read = write = link = 0
    bound_time, known = 0.0, False
    estimates: list[tuple[Estimate | None, float | None]] = []
    parts = tuple(parts)
    for part in parts:
        estimates.append((part.expected_time_s, part.roofline_time_s))
        read, write, link = read + part.read_bytes, write + part.write_bytes, link + part.link_bytes
        if part.roofline_time_s is not None:
            bound_time, known = bound_time + part.roofline_time_s, True
        for t in part.times:
            seconds[(t.resource, t.bound)] += t.time_s
        for w in part.work:
            key = (w.work_class, w.dtype, w.peak_flop_per_s)  # dense and sparse stay apart
            merged[key] = _plus(merged[key], w) if key in merged else w
    result = _measures(
        tuple(merged.values()), read, write, link, seconds, bound_time if known else None, roofs
    )
    result = msgspec.structs.replace(
        result,
        expected_time_s=expected_total(estimates),
        levels=add_levels(parts, result.flops),
    )
    return result if total_time_s is None else share_of(result, total_time_s)


def share_of(measures: Measures, total_time_s: float) -> Measures:
    """The same measures with their share of the whole's bound time."""
    if not total_time_s or measures.roofline_time_s is None:
        return measures
    return msgspec.structs.replace(measures, time_share=measures.roofline_time_s / total_time_s)


def fused_bound(total: Measures, ideal_traffic_bytes: int, roofs: Roofs) -> float | None:
    """Bound of the whole as one perfectly fused kernel: all resources overlap, ideal traffic."""
    seconds = [t.time_s for t in total.times if t.resource != roofs.memory]
    if roofs.memory_byte_per_s is not None:
        seconds.append(ideal_traffic_bytes / roofs.memory_byte_per_s)
    return max(seconds, default=None)


def _engine_work(
    work_class: str, dtype: str, flops: int, roofs: Roofs, prunable: bool
) -> EngineWork:
    roof = roofs.engine_roof(work_class, dtype, prunable)
    if roof is None:
        return EngineWork(work_class=work_class, dtype=dtype, flops=flops)
    return EngineWork(
        work_class=work_class,
        dtype=dtype,
        flops=flops,
        engine=roof.engine,
        engine_dtype=roof.dtype,
        peak_flop_per_s=roof.flop_per_s,
        time_s=flops / roof.flop_per_s,
    )


def _plus(a: EngineWork, b: EngineWork) -> EngineWork:
    time_s = None if a.time_s is None or b.time_s is None else a.time_s + b.time_s
    return msgspec.structs.replace(a, flops=a.flops + b.flops, time_s=time_s)


def _measures(
    work: tuple[EngineWork, ...],
    read: int,
    write: int,
    link: int,
    seconds: dict[tuple[str, Bound], float],
    bound_time: float | None,
    roofs: Roofs,
) -> Measures:
    by_class: dict[str, int] = defaultdict(int)
    for w in work:
        by_class[w.work_class] += w.flops
    main_class = "matrix" if by_class["matrix"] else "vector"
    main = max((w for w in work if w.work_class == main_class), key=_weight, default=None)
    # Compute first: `max` keeps the first of equals, so a tie at the ridge is compute-bound.
    ranked = sorted(seconds.items(), key=lambda item: item[0][1] is not Bound.COMPUTE)
    return Measures(
        matrix_flops=by_class["matrix"],
        vector_flops=by_class["vector"],
        special_ops=by_class["special"],
        read_bytes=read,
        write_bytes=write,
        link_bytes=link,
        work=work,
        times=tuple(
            ResourceTime(
                resource=name,
                bound=bound,
                time_s=time_s,
                utilization=time_s / bound_time if bound_time else 0.0,
            )
            for (name, bound), time_s in ranked
        ),
        bound=max(ranked, key=lambda item: item[1])[0][1] if ranked else None,
        roofline_time_s=bound_time,
        peak_flop_per_s=main.peak_flop_per_s if main else None,
        peak_byte_per_s=roofs.memory_byte_per_s,
    )


def _weight(work: EngineWork) -> tuple[float, int]:
    return (work.time_s or 0.0, work.flops)
