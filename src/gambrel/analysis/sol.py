"""The speed of light: what no run of the same work on a device can beat, whatever the runtime.

Of every resource, the total work over the fastest ceiling that any runtime may use for that number
format; all resources overlap, so the slowest one sets the time. Traffic is compulsory: weights once
per pass, inputs, outputs, caches and states, never intermediates; what fits on chip may stay there
between runs. Passes that depend on each other (denoising steps) add.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gambrel import roofline
from gambrel.analysis.compulsory import SolPart, add_work, fastest_way, least_sent
from gambrel.analysis.costs import CostTable, Place
from gambrel.analysis.evaluation import Busy, binding_of
from gambrel.analysis.measures import Bound
from gambrel.analysis.plan import OR
from gambrel.analysis.roofs import Roofs
from gambrel.analysis.shortcuts import LENGTHS, fewest_operations, shortcuts, without_tokens
from gambrel.device.fastest import fastest, fastest_memory
from gambrel.device.onchip import OnChip, on_chip
from gambrel.device.roofs import NETWORK
from gambrel.ops.base import Size
from gambrel.units import format_capacity
from gambrel.workload import Role


class Sol(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of light of a workload in a precision on a device.

    Attributes:
        time_s: No run of the same work is faster; None when no roof is known.
        bound: The resource that sets it.
        traffic_bytes: Bytes that must cross the memory, before what stays on chip between runs.
        resources: Name → seconds that each resource needs at the least.
        unknown: Resources without a known ceiling, which are left out.
        notes: Ceilings and assumptions worth knowing.
        caveats: Why fewer operations than counted may do (Winograd, padding, masks): a target
            below the speed of light, and not below ``floor_time_s``, is then not proved impossible.
        proves: Whether a target below it is impossible: the ceilings are published ones.
        counted_floor_s: No run is faster, even where every caveat that can be counted saves all
            that it may.
        floor_time_s: The same where tokens are masked or padded too.
    """

    time_s: float | None
    bound: Bound | None
    traffic_bytes: int
    resources: dict[str, float]
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    proves: bool = True
    counted_floor_s: float | None = None
    floor_time_s: float | None = None


class SolRoofs(msgspec.Struct, frozen=True, kw_only=True):
    """The ceilings of the speed of light of one device; looked up once for each number format."""

    roofs: Roofs
    kept: OnChip
    memory_byte_per_s: float | None
    memory_proves: bool
    rates: dict[tuple[str, str, bool], Any]

    def rate(self, work_class: str, dtype: str, prunable: bool) -> float | None:
        """FLOP/s that any runtime may reach; None when unknown."""
        key = self._key(work_class, dtype, prunable)
        if key not in self.rates:
            formats = dtype.split(OR)
            self.rates[key] = fastest(self.roofs.device, work_class, formats, sparsity=key[2])
        found = self.rates[key]
        return None if found is None else found.flop_per_s

    def engine(self, work_class: str, dtype: str, prunable: bool) -> str:
        """Name of the resource that the work keeps busy.

        Formats share an engine. Where engines run side by side (GPU and DLA), different formats
        may run on different ones at the same time, so each format counts by itself.
        """
        found = self.rates.get(self._key(work_class, dtype, prunable))
        beside = found is not None and len(found.parts) > 1
        return f"{work_class} {dtype}" if beside else work_class

    def proves(self, parts: Sequence[SolPart]) -> bool:
        """Whether all ceilings that the parts are held against are published ones."""
        return self.memory_proves and all(found.proves for found in self.used(parts))

    def used(self, parts: Sequence[SolPart]) -> list[Any]:
        """The known rates that the parts are held against, and no other question's."""
        for key in (key for part in parts for key in part.work):
            self.rate(*key)
        used = (self.rates[self._key(*key)] for part in parts for key in part.work)
        return [found for found in used if found is not None]

    def _key(self, work_class: str, dtype: str, prunable: bool) -> tuple[str, str, bool]:
        return work_class, dtype, prunable and self.roofs.sparsity


def sol_roofs(roofs: Roofs) -> SolRoofs:
    """The ceilings of the speed of light.

    Args:
        roofs: Of the device, for its links and choices.
    """
    memory = fastest_memory(roofs.device)
    rate = None if memory is None else memory.byte_per_s
    if roofs.off_chip_only:
        rate = roofs.memory_byte_per_s
    return SolRoofs(
        roofs=roofs,
        kept=on_chip(roofs.device),
        memory_byte_per_s=rate,
        memory_proves=memory is None or memory.proves,
        rates={},
    )


def sol_time(parts: Sequence[SolPart], limits: SolRoofs) -> Size | None:
    """The time alone, for one point or an array of them."""
    times = [_time(part, limits) for part in parts]
    known = [t for t in times if t is not None]
    if not known:
        return None
    whole = sum(known)
    return roofline.positive(whole) if any(_unbounded(p, limits) for p in parts) else whole


def _unbounded(part: SolPart, limits: SolRoofs) -> bool:
    """Whether nothing is known of the rate of some work: no time at all is no limit then."""
    rates = (limits.rate(*key) for key in part.work)
    return limits.memory_byte_per_s is None or None in rates


def resources_of(parts: Sequence[SolPart], limits: SolRoofs) -> Busy:
    """Seconds that each resource is busy at the least, all parts together."""
    resources: Busy = {}
    for part in parts:
        for key, seconds in _busy(part, limits, limits.kept.capacity_bytes).items():
            resources[key] = resources.get(key, 0.0) + seconds * part.passes
    return resources


def sol_of(table: CostTable, limits: SolRoofs) -> Sol:
    """The speed of light with what it rests on, at one point.

    Args:
        table: What the workload asks for.
        limits: Of the device.
    """
    resources = resources_of(table.sol_parts, limits)
    limit = binding_of(resources)
    time_s = sol_time(table.sol_parts, limits)
    bound = limit[1] if limit and time_s is not None else None
    computes = bound is Bound.COMPUTE
    caveats = shortcuts(table) if computes else _packed(table, limits.roofs)
    least: Sequence[SolPart] = table.sol_parts
    if caveats:
        least = fewest_operations(table) if computes else _unloaded(table)
    masked = without_tokens(least) if LENGTHS in caveats else least
    return Sol(
        time_s=time_s,
        bound=bound,
        traffic_bytes=round(sum(p.traffic_bytes * p.passes for p in table.sol_parts)),
        resources={name: seconds for (name, _), seconds in resources.items()},
        unknown=_unknown(table, limits),
        notes=_notes(table, limits),
        caveats=caveats,
        proves=limits.proves(table.sol_parts),
        counted_floor_s=_one(sol_time(least, limits)),
        floor_time_s=_one(sol_time(masked, limits)),
    )


def sol_of_op(place: Place, cost: Any, limits: SolRoofs) -> tuple[float | None, Bound | None]:
    """An op's own part: its work at the fastest rates against the bytes that it first touches.

    Args:
        place: The op with its compulsory bytes.
        cost: Of one execution.
        limits: Of the device.
    """
    work: dict[tuple[str, str, bool], Size] = {}
    repeat = place.op.repeat
    add_work(work, fastest_way(place.view, cost), repeat)
    link, network = least_sent(cost)
    part = SolPart(
        name="",
        passes=1,
        work=work,
        traffic_bytes=place.sol_bytes,
        link_bytes=link * repeat,
        network_bytes=network * repeat,
    )
    busy = {key: seconds for key, seconds in _busy(part, limits, kept_bytes=0).items() if seconds}
    limit = binding_of(busy)
    return roofline.slowest(busy), limit[1] if limit else None


def _time(part: SolPart, limits: SolRoofs) -> Size | None:
    slowest = roofline.slowest(_busy(part, limits, limits.kept.capacity_bytes))
    return None if slowest is None else slowest * part.passes


def _busy(part: SolPart, limits: SolRoofs, kept_bytes: int) -> Busy:
    """Seconds that each resource needs for one pass."""
    roofs = limits.roofs
    found: Busy = {}
    for (work_class, dtype, prunable), flops in part.work.items():
        rate = limits.rate(work_class, dtype, prunable)
        if rate is not None:
            key = limits.engine(work_class, dtype, prunable), Bound.COMPUTE
            found[key] = found.get(key, 0.0) + roofline.seconds(flops / part.passes, rate)
    if limits.memory_byte_per_s is not None:
        left = part.traffic_bytes
        if not roofs.off_chip_only:
            left = roofline.maximum(left - kept_bytes, 0.0)
        seconds = roofline.seconds(left, limits.memory_byte_per_s)
        found[roofs.memory, roofs.memory_bound] = seconds
    for name, nbytes, rate in (
        (roofs.link, part.link_bytes, roofs.link_byte_per_s),
        (NETWORK, part.network_bytes, roofs.network_byte_per_s),
    ):
        if rate is not None and not (isinstance(nbytes, (int, float)) and not nbytes):
            found[name, Bound.NETWORK] = roofline.seconds(nbytes / part.passes, rate)
    return found


def _unknown(table: CostTable, limits: SolRoofs) -> tuple[str, ...]:
    missing = [
        f"{work_class} {dtype}"
        for part in table.sol_parts
        for (work_class, dtype, prunable), flops in part.work.items()
        if flops and limits.rate(work_class, dtype, prunable) is None
    ]
    if limits.memory_byte_per_s is None:
        missing.append("memory")
    return tuple(dict.fromkeys(missing))


def _notes(table: CostTable, limits: SolRoofs) -> tuple[str, ...]:
    said = [found.note for found in limits.used(table.sol_parts) if found.note]
    if not limits.roofs.off_chip_only and table.sol_parts and limits.kept.capacity_bytes:
        kept = format_capacity(limits.kept.capacity_bytes)
        said.append(f"up to {kept} may stay on chip between runs. {limits.kept.note}".strip())
    return tuple(dict.fromkeys(said))


def _packed(table: CostTable, roofs: Roofs) -> tuple[str, ...]:
    """Where weights cross the link to the host at each run: they may do so in fewer bytes.

    Google's table has Inception-ResNet V2 at 57 ms on a Coral Edge TPU: its 56 MB of weights less
    the 8 MiB that stay would take 95 ms over the link.
    """
    sram = roofs.device.level("SRAM")
    if not roofs.off_chip_only or sram is None:
        return ()
    held = {t.storage: t for p in table.places for t in p.view.inputs if t.role == Role.WEIGHT}
    weights = sum(float(t.nbytes) for t in held.values())
    return (_PACKED,) if weights > (sram.capacity_bytes or 0) else ()


def _unloaded(table: CostTable) -> list[SolPart]:
    """The parts with weights that take no time to load: how far they can be packed is not known."""
    return [msgspec.structs.replace(p, traffic_bytes=0, link_bytes=0) for p in table.sol_parts]


def _one(time_s: Size | None) -> float | None:
    return None if time_s is None else float(time_s)


_PACKED = (
    "weights may cross the link in fewer bytes than they are counted with: one published time is "
    "shorter than that takes"
)
