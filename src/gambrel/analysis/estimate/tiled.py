"""Expected times of whole runs on NPUs: groups of ops, weights loaded ahead of them.

The run takes

    t = t0 + sqrt(G² + L²) + E,   G = sum over groups of max(C, A)

C: padded multiply-adds over the matrix unit's rate, plus vector work over the vector unit's; A:
activations that do not fit on chip over their bandwidth, which passes while the group computes; L:
weights and model inputs over the bandwidth at which they are loaded ahead. Both G and L have gaps
that the other fills, partly: the root of squares lies between their maximum and their sum. E is
the same for what a single group has beyond the room on chip, for which everything waits. t0 is
what an inference costs whatever it computes, and where it was told apart what each element of the
inputs adds to it. There is no cost per op: fitted, it comes out as zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate.constants import Calibration
from gambrel.analysis.estimate.tiled_constants import (
    StreamConstants,
    TiledClass,
    TiledConstants,
)
from gambrel.analysis.estimate.tiled_work import TiledTable, TiledWork
from gambrel.analysis.measures import Estimate, Limiter
from gambrel.device.levels import device_class
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory, resolve
from gambrel.ops.base import Size, is_zero, minimum, real, root, total, where
from gambrel.roofline import maximum

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable

#: From so many blocks of attention on a network is one of them; detectors have one or two.
BLOCKS: Final = 4
#: Share of a run from which what takes it is most of it.
_MOSTLY: Final = 0.5
#: A part of a run was never measured by itself.
_PART: Final = "a share of the whole run, which is what was measured"


class WholeTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the items of a cost table and of the run.

    Attributes:
        items: One execution of each item; None for those that a compiler takes out.
        total: The run.
        limited_by: What takes the largest share of it.
        limiters: The same of each item.
    """

    items: tuple[Estimate | None, ...]
    total: Estimate
    limited_by: Limiter
    limiters: tuple[Limiter, ...]


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group's time in one execution, and its members' parts of it."""

    seconds: float
    limiter: Limiter
    parts: tuple[float, ...]


class Pace(NamedTuple):
    """How a run proceeds on a chip with several cores, by how many inputs there are.

    Attributes:
        longer: Factor on the work of groups.
        kept_bytes: Of what a group moves, what stays on chip.
        waits: Factor on the time of bytes that other calls take bandwidth from.
        rounds: Calls one after another.
        calls: In all.
        hosts: Calls that the processor prepares at the same time; 0: it does nothing beside.
    """

    longer: Size = 1.0
    kept_bytes: int = 0
    waits: Size = 1.0
    rounds: Size = 1.0
    calls: Size = 1.0
    hosts: int = 0

    def moving(self, moved_bytes: Size, byte_per_s: float) -> Size:
        """Seconds of a group's activations."""
        left = maximum(moved_bytes * self.longer - self.kept_bytes, 0)
        return roofline.seconds(left, byte_per_s) * self.waits

    def whole(self, start: Size, chip: Size) -> tuple[Size, Size]:
        """Seconds of a run, and what of them nothing but its preparation takes.

        Args:
            start: Of the preparation.
            chip: Of a call on the chip.
        """
        if not self.hosts:
            return start + chip, start
        calls = self.rounds * chip
        together = maximum(start / self.hosts, calls)
        alone = self.calls <= 1
        return where(alone, start + chip, together), where(alone, start, together - calls)


def pace(constants: TiledConstants, work: TiledTable) -> Pace:
    """How a run proceeds, relative to all cores at work on one call."""
    flight, inputs = constants.flight, work.inputs
    if flight is not None:
        calls = maximum(inputs / flight.inputs, 1.0)
        at_once = minimum(calls, flight.calls)
        return Pace(
            longer=flight.inputs / inputs,
            kept_bytes=flight.kept_bytes * flight.inputs,
            waits=maximum(at_once / flight.fed, 1.0),
            rounds=calls / at_once,
            calls=calls,
            hosts=flight.hosts,
        )
    if constants.cores is None:
        return Pace()
    alone, every = constants.cores
    return Pace(longer=every / minimum(every, maximum(alone, inputs)))


def loaded(run: Size, ahead_bytes: Size, late_bytes: Size, byte_per_s: Size) -> Size:
    """Seconds of groups and of loading ahead of them, which fill each other's gaps partly.

    Args:
        run: Seconds of the groups.
        ahead_bytes: All that is loaded.
        late_bytes: What of it everything waits for.
        byte_per_s: At which it is.
    """
    loads = roofline.seconds(ahead_bytes - late_bytes, byte_per_s)
    return root(run * run + loads * loads) + roofline.seconds(late_bytes, byte_per_s)


def start_of(constants: TiledConstants, work: TiledTable) -> Size:
    """What an inference costs whatever it computes, s."""
    starts, rate = constants.start_s, constants.handed_per_s
    start = starts.get(work.formats[0], max(starts.values(), default=0.0))
    start = start * pace(constants, work).calls
    return start + roofline.seconds(work.handed, rate) if rate else start


def suited(c: TiledConstants, work: TiledTable) -> tuple[TiledConstants, str]:
    """Constants with the range that a network asks for, and what the reader is told of it.

    Args:
        c: Of the chip.
        work: Of the network.
    """
    why = ""
    if work.attentions >= BLOCKS and c.attention_high is not None:
        c = c.of_attention()
        why = "; networks with attention differ more, by how they are exported"
    if c.room_bytes is not None and float(work.widest_bytes) > c.room_bytes:
        c = c.of_outside()
        why += "; its activations leave the chip, for a memory that was hardly measured"
    return c, why


class TiledEstimator:
    """Predicts whole runs.

    Args:
        constants: Of the chip under the runtime.
        reason: Whose constants they are, for the reader.
    """

    #: Ops are not predicted one by one.
    batched: Final = False

    def __init__(self, constants: TiledConstants, reason: str) -> None:
        self._constants = constants
        self._reason = reason

    def times(self, table: CostTable) -> WholeTimes | None:
        """The times of a table; None where a number format of it was not measured."""
        work, c = table.tiled, self._constants
        if not work.formats or not c.macs_per_s.keys() >= set(work.formats):
            return None
        c, why = suited(c, work)
        reason = self._reason + why
        at = pace(c, work)
        groups = [self._group([work.works[i] for i in g], at) for g in work.groups]
        run = sum(g.seconds * n for g, n in zip(groups, work.counts, strict=True))
        start = float(start_of(c, work))
        both = float(loaded(run, work.ahead_bytes, work.late_bytes, c.ahead_byte_per_s / at.waits))
        seconds, host = map(float, at.whole(start, both))
        shares = _shares(groups, work, both - run, host / at.rounds)
        whole = _called(ranged(seconds, c, reason, host), c.call_s)
        whole = msgspec.structs.replace(whole, streamed=c.streamed)
        return WholeTimes(
            items=self._items(work, groups, both - run, at.rounds),
            total=self._doubted(whole, work),
            limited_by=max(shares, key=lambda name: shares[name]),
            limiters=_limiters(work, groups, both - run),
        )

    def seconds(self, table: CostTable) -> tuple[Size, Size] | None:
        """Of the run and of what the host adds, at every point of a sweep."""
        work, c = table.tiled, self._constants
        if not work.formats or not c.macs_per_s.keys() >= set(work.formats):
            return None
        at, run = pace(c, work), 0.0
        for group, count in zip(work.groups, work.counts, strict=True):
            works = [work.works[i] for i in group]
            busy = total(map(self._computing, works))
            moving = at.moving(total(w.moved_bytes for w in works), c.activation_byte_per_s)
            run = run + maximum(busy * at.longer, moving) * count
        rate = c.ahead_byte_per_s / at.waits
        both = loaded(run, work.ahead_bytes, work.late_bytes, rate)
        return at.whole(start_of(c, work), both)

    def _doubted(self, whole: Estimate, work: TiledTable) -> Estimate:
        """The same; less sure where most of the run is softmax at a rate of its own.

        That rate was told from networks with rows of a few hundred values. How fast longer rows
        are is not known; the range reaches down to the rate of other work of the vector unit.
        """
        c = self._constants
        if c.softmax_per_s is None or c.softmax_per_s >= c.vector_per_s:
            return whole
        counts = zip(work.sums("softmax"), work.counts, strict=True)
        elements = sum(one * count for one, count in counts)
        slow, fast = (roofline.seconds(elements, r) for r in (c.softmax_per_s, c.vector_per_s))
        if slow < whole.value * _MOSTLY:
            return whole
        low = min(whole.low, max(whole.value - slow + fast, 0.0) * min(1.0, c.low))
        why = f"{whole.reason}; most of it is softmax, whose rate is known of short rows only"
        return msgspec.structs.replace(whole, low=low, confidence="low", reason=why)

    def _items(
        self, work: TiledTable, groups: list[_Group], waits: float, rounds: float
    ) -> tuple[Estimate | None, ...]:
        """Each item's part of its group, and of the time that the run waits for what it loads."""
        share = waits / work.loads if work.loads else 0.0
        seconds = [w.ahead_bytes * share for w in work.works]
        for group, indices in zip(groups, work.groups, strict=True):
            for i, part in zip(indices, group.parts, strict=True):
                seconds[i] += part
        return tuple(part_of(s * rounds, self._constants) for s in seconds)

    def _group(self, works: list[TiledWork], at: Pace) -> _Group:
        rate = self._constants.activation_byte_per_s
        busy = [self._computing(w) * at.longer for w in works]
        moved = sum(w.moved_bytes for w in works)
        share = float(at.moving(moved, rate)) / moved if moved else 0.0
        moving = [w.moved_bytes * share for w in works]
        computes = sum(busy) >= sum(moving)
        parts = busy if computes else moving
        limiter = Limiter.COMPUTE if computes else Limiter.MEMORY
        return _Group(seconds=sum(parts), limiter=limiter, parts=tuple(parts))

    def _computing(self, work: TiledWork) -> Size:
        c = self._constants
        macs: Size = 0.0
        if not is_zero(work.macs):
            macs = roofline.seconds(work.macs, c.macs_per_s[work.dtype])
        softmax = roofline.seconds(work.softmax, c.softmax_rate)
        return real(macs + roofline.seconds(work.vector, c.vector_per_s) + softmax)


def ranged(
    seconds: float, c: TiledConstants | StreamConstants, reason: str, host_s: float
) -> Estimate:
    """The estimate of a run."""
    return Estimate(
        value=seconds,
        low=seconds * min(1.0, c.low),
        high=seconds * max(1.0, c.high),
        confidence=c.confidence,
        reason=reason,
        host_s=host_s,
    )


def _called(whole: Estimate, call_s: float) -> Estimate:
    """The same with a range that holds a call from a host."""
    if not call_s:
        return whole
    why = f"{whole.reason}; the slow end has a call from the host"
    return msgspec.structs.replace(whole, high=whole.high + call_s, reason=why)


def part_of(seconds: float, c: TiledConstants | StreamConstants) -> Estimate | None:
    """The estimate of an op within a run; None where a compiler takes it out."""
    if not seconds:
        return None
    return Estimate(
        value=seconds,
        low=seconds * c.low,
        high=seconds * c.high,
        confidence="low",
        reason=_PART,
    )


#: Class of the chips whose whole runs were fitted.
_CLASS: Final = "edge"


def tiled_estimator(
    device: Device, names: tuple[str, ...], calibration: Calibration
) -> TiledEstimator | None:
    """What predicts whole runs on a device; None where nothing is known of it or its class.

    Args:
        device: The chip.
        names: Under which constants of the runtime are stored, best first.
        calibration: All constants.
    """
    for name in names:
        own = (c for c in calibration.tiled if c.runtime == name and c.device == device.id)
        constants = next(own, None)
        if constants is not None:
            return TiledEstimator(constants, _own_reason(constants))
    for name in names:
        for one in calibration.tiled_classes:
            derived = from_datasheet(device, one) if one.runtime == name else None
            if derived is not None:
                return TiledEstimator(derived, derived.note)
    return None


def from_datasheet(device: Device, known: TiledClass) -> TiledConstants | None:
    """Constants that a chip would have if it were like its class; None without its roofs.

    Processors run the same runtimes with other kernels: nothing is carried to them.
    """
    roof, memory = resolve(device, "matrix", "int8"), main_memory(device)
    if device_class(device) != _CLASS or roof is None or memory is None or not memory.byte_per_s:
        return None
    int8 = roof.flop_per_s / 2 * known.int8_share
    formats = {"int8": 1.0, **known.formats}
    return TiledConstants(
        runtime=known.runtime,
        device=device.id,
        start_s=known.start_s,
        handed_per_s=known.handed_per_s,
        macs_per_s={name: int8 * share for name, share in formats.items()},
        vector_per_s=int8 * known.vector_share,
        softmax_per_s=known.softmax_share and int8 * known.vector_share * known.softmax_share,
        activation_byte_per_s=memory.byte_per_s * known.activation_share,
        ahead_byte_per_s=memory.byte_per_s * known.ahead_share,
        rows=0,
        models=0,
        low=known.low,
        high=known.high,
        confidence="low",
        note=f"nothing was measured on this chip: the usual shares of its datasheet on "
        f"{known.chips} chips under this runtime",
    )


def _own_reason(c: TiledConstants) -> str:
    if not c.rows:
        return c.note
    error = f", {c.held_out.mape:.0%} mean error on others" if c.held_out else ""
    note = f"; {c.note}" if c.note else ""
    return f"{c.rows} runs of {c.models} models measured on this chip{error}{note}"


def _limiters(work: TiledTable, groups: list[_Group], waits: float) -> tuple[Limiter, ...]:
    """What takes longest of each item: its group's work, or what it waits for to be loaded."""
    found = [Limiter.MEMORY] * len(work.works)
    wait_s = waits / work.loads if work.loads else 0.0
    for group, indices in zip(groups, work.groups, strict=True):
        for i, part in zip(indices, group.parts, strict=True):
            loads = work.works[i].ahead_bytes * wait_s > part
            found[i] = _loading(work) if loads else group.limiter
    return tuple(found)


def _shares(
    groups: list[_Group], work: TiledTable, waits: float, start: float
) -> dict[Limiter, float]:
    """Seconds of the run by what takes them."""
    shares = {Limiter.COMPUTE: 0.0, Limiter.MEMORY: 0.0, Limiter.HOST: start, _loading(work): waits}
    for group, n in zip(groups, work.counts, strict=True):
        shares[group.limiter] += group.seconds * n
    return shares


def _loading(work: TiledTable) -> Limiter:
    """What waits for weights are spent on."""
    return Limiter.NETWORK if work.linked else Limiter.MEMORY
