"""Expected times of engines: graphs compiled for a GPU or a processor, run as a whole.

Runs of TensorRT and OpenVINO are predicted from the kernels that their fusion leaves
(`engine_forms`), with one set of constants for a whole class of devices: they were fitted to runs
of whole models, so that the range is that of a run and the time of a kernel in it a share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate.constants import Calibration
from gambrel.analysis.estimate.engine_constants import EngineConstants
from gambrel.analysis.estimate.engine_forms import (
    EngineMachine,
    KernelTimes,
    copied_s,
    kernel_times,
    over_clocks,
    overlapped,
    running,
    whole_run,
)
from gambrel.analysis.estimate.engine_work import EngineTable
from gambrel.analysis.estimate.kinship import own_forms
from gambrel.analysis.estimate.tiled import WholeTimes
from gambrel.analysis.measures import Estimate, Limiter
from gambrel.analysis.roofs import Roofs
from gambrel.device.cores import at_highest, held, highest_clock, kinds, load
from gambrel.device.model import Device, Fact
from gambrel.device.roofs import main_memory, resolve
from gambrel.ops.base import Size, real, where
from gambrel.runtimes import matches

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable
    from gambrel.analysis.estimate.estimator import Predictor

_PART: Final = "a share of the whole run, which is what was measured"
#: Where a device publishes none: of the order of current GPUs, and said in the reason.
_USUAL_CLOCK_HZ: Final = 1.7e9
_CACHES: Final = ("LLC", "L2")
#: Where a processor's boost clock is not published its power alone limits it.
_ANY_TURBO: Final = 2.0
#: Units of tables that count parts of a multiprocessor.
_PARTS: Final = ("CUDA core", "XMX engine", "EU")
#: How much further a range reaches in a number format that was not measured. Assumed.
_OTHER_FORMAT: Final = (0.7, 1.5)
#: Joules per byte of memory: HBM2 3.9 pJ/bit (O'Connor et al., Fine-Grained DRAM, MICRO 2017);
#: GDDR6 and LPDDR about 7.5 (Micron, Ultra-Bandwidth Solutions, 2026-11-20).
_STACKED_J, _PLAIN_J = 31e-12, 60e-12


class EngineEstimator:
    """Predicts whole runs of an engine.

    Args:
        constants: Of the class of devices.
        device: The device.
        beside: What predicts runs that the formulas are not about; None for nothing.
        other: The same kernels in formats that this one's constants were not measured in.
        narrow_sums: GEMMs in fp16 are summed in fp16 where that is faster.
    """

    #: Ops are not predicted one by one.
    batched: Final = False

    def __init__(
        self,
        constants: EngineConstants,
        device: Device,
        beside: Predictor | None,
        *,
        other: EngineEstimator | None = None,
        narrow_sums: bool = False,
    ) -> None:
        self._narrow_sums = narrow_sums
        self._other = other
        self._c = constants
        self._device = device
        self.beside = beside
        machine, self._assumed = machine_of(device, constants)
        self._machine = running(constants.constants, machine)
        turbo = device.fact("turbo_power")
        self._clocks = over_clocks(
            constants.constants, self._machine, turbo.value if turbo else 0.0
        )
        self._peaks: dict[str, float] = {}

    def describes(self, table: CostTable) -> bool:
        """Whether the formulas are about all of a table, and the device has engines for it."""
        work = table.engine
        return work.described and bool(work.formats) and all(map(self._peak, work.formats))

    def suited(self, table: CostTable) -> EngineEstimator | Predictor | None:
        """What predicts a table: this, or what it is about."""
        if not self.describes(table):
            return self.beside
        other, formats = self._other, set(table.engine.formats)
        measured = self._c.measured_formats >= formats
        return self if measured or other is None or not other.measures(table) else other

    def measures(self, table: CostTable) -> bool:
        """Whether the constants were measured in the formats of a table."""
        return self.describes(table) and self._c.measured_formats >= set(table.engine.formats)

    def times(self, table: CostTable) -> WholeTimes | None:
        """The times of a table; None where an engine of the device is not known."""
        if not self.describes(table):
            return None
        work = table.engine
        times = self._kernels(work)
        count = work.columns["count"]
        host = self._host(work)
        busy, seconds = self._run(times, count, host)
        start = real(host[0])
        stretch = (seconds - start) / busy if busy else 1.0
        limiters = _limiters(times)
        shares = _shares(times, count, stretch, start)
        return WholeTimes(
            items=self._items(table, work, times, stretch),
            total=self._total(seconds, table, shares, start),
            limited_by=max(shares, key=lambda name: shares[name]),
            limiters=_of_items(table, work, limiters),
        )

    @staticmethod
    def runs(
        estimators: Sequence[EngineEstimator], table: CostTable
    ) -> list[tuple[Estimate, Limiter]]:
        """As `times`, on many devices that are of one class: of the run alone.

        Args:
            estimators: Of the devices, with the same constants.
            table: That they describe, made for many devices.
        """
        import numpy as np

        c, work = estimators[0]._c, table.engine
        count, (start, beside) = work.columns["count"], estimators[0]._host(work)
        machines = [one._machine for one in estimators]
        each, at = _side_by_side(machines), list(dict.fromkeys(k.dtype for k in work.kernels))
        places = np.array([at.index(k.dtype) for k in work.kernels])
        peaks = np.array([[one._peak(f) for f in at] for one in estimators])
        energies = np.array([c.energy_of(f) for f in at])[places]
        times = kernel_times(c.constants, each, work.columns, peaks[:, places], energies)
        busy = (times.whole * count).sum(axis=-1)
        energy = (times.energy_j * count).sum(axis=-1)
        launches = (times.launch * count).sum(axis=-1)
        computing = times.compute >= times.memory
        spent = (times.whole - times.launch) * count
        found = []
        for row, one in enumerate(estimators):
            seconds = float(whole_run(machines[row], start, busy[row], energy[row], beside))
            more = (
                float(busy[row]) * ((seconds - start) / float(busy[row]) - 1) if busy[row] else 0.0
            )
            # Running sums add in the order of the kernels, as one adds them one by one.
            compute = np.append(more, np.where(computing[row], spent[row], 0.0)).cumsum()[-1]
            memory = np.append(0.0, np.where(computing[row], 0.0, spent[row])).cumsum()[-1]
            shares = {
                Limiter.COMPUTE: float(compute),
                Limiter.MEMORY: float(memory),
                Limiter.LAUNCHES: float(launches[row]),
                Limiter.HOST: start,
            }
            most = max(shares, key=lambda name: shares[name])
            found.append((one._total(seconds, table, shares, start), most))
        return found

    @property
    def constants(self) -> EngineConstants:
        """Of its class of devices."""
        return self._c

    def seconds(self, table: CostTable) -> tuple[Size, Size] | None:
        """Of the run and of what the host adds, at every point of a sweep."""
        if not self.describes(table):
            return None
        work = table.engine
        host = self._host(work)
        _, seconds = self._run(self._kernels(work), work.columns["count"], host)
        return seconds, host[0]

    def _host(self, work: EngineTable) -> tuple[Size, Size]:
        """Seconds that a run waits for the host, and of its copies beside the kernels."""
        waits, beside = copied_s(self._c.constants, *work.handed)
        return self._c.constants["start_s"] + waits, beside

    def _run(self, times: KernelTimes, count: Any, host: tuple[Size, Size]) -> tuple[Size, Size]:
        """Seconds of the kernels one after another, and of the run."""
        busy = real((times.whole * count).sum(axis=-1))
        energy = real((times.energy_j * count).sum(axis=-1))
        return busy, whole_run(self._machine, host[0], busy, energy, host[1])

    def _kernels(self, work: EngineTable) -> KernelTimes:
        import numpy as np

        c = self._c
        formats = [k.dtype for k in work.kernels]
        peaks = {f: self._peak(f) for f in set(formats)}
        energies = {f: c.energy_of(f) for f in set(formats)}
        return kernel_times(
            c.constants,
            self._machine,
            work.columns,
            np.array([peaks[f] for f in formats]),
            np.array([energies[f] for f in formats]),
        )

    def _peak(self, dtype: str) -> float:
        if not dtype:
            return 1.0
        if dtype not in self._peaks:
            roof = resolve(self._device, "matrix", dtype, narrow_sums=self._narrow_sums)
            self._peaks[dtype] = roof.flop_per_s if roof else 0.0
        return self._peaks[dtype]

    def _items(
        self, table: CostTable, work: EngineTable, times: KernelTimes, stretch: float
    ) -> tuple[Estimate | None, ...]:
        """Each kernel's time belongs to its first product, or to its first op."""
        found: list[Estimate | None] = [None] * len(table.items)
        wholes, launches = times.whole.tolist(), times.launch.tolist()
        for kernel, whole, launch in zip(work.kernels, wholes, launches, strict=True):
            value = whole * stretch
            found[kernel.main] = Estimate(
                value=value,
                low=value * self._c.low,
                high=value * self._c.high,
                confidence="low",
                reason=_PART,
                launches_s=min(launch, value),
            )
        return tuple(found)

    def _total(
        self, seconds: float, table: CostTable, shares: dict[Limiter, float], start: float
    ) -> Estimate:
        c, work = self._c, table.engine
        own = self._device.id in c.devices
        known = c.measured_formats >= set(work.formats)
        near = c.range_of(work.formats[0])
        low, high = near if own and known else (c.far_low, c.far_high)
        reason = c.why if own else f"{c.why}; none on this device"
        if not known:
            low, high = low * _OTHER_FORMAT[0], high * _OTHER_FORMAT[1]
            reason += f"; none in {work.formats[0]}"
        low, high = widened((low, high), self._clocks)
        beside = self._beside(table)
        if beside > 1:
            low /= beside
            reason += "; the fast end has the DLA take its share of the images"
        if self._assumed:
            reason += f"; {' and '.join(self._assumed)} assumed"
        call = c.constants.get("call_s", 0.0)
        if call:
            reason += "; the slow end has a call from Python"
        return Estimate(
            value=seconds,
            low=seconds * low,
            high=seconds * high + call,
            confidence=c.confidence if own and known else "low",
            reason=reason,
            launches_s=shares[Limiter.LAUNCHES],
            host_s=start,
        )

    def _beside(self, table: CostTable) -> float:
        """How many times as fast several images may be where a DLA works beside the GPU."""
        images = any(i.view.kind == "convolution" and i.view.size("batch") > 1 for i in table.items)
        shares = [
            roofline.ratio(found.flop_per_s, self._peak(dtype))
            for dtype in table.engine.formats
            if images and (found := self._device.ceiling("dla", dtype))
        ]
        return 1 + max(shares, default=0.0)


def widened(ends: tuple[float, float], by: tuple[float, float]) -> tuple[float, float]:
    """A range that holds what differs for another reason besides: the two are independent."""
    low, high = (math.hypot(math.log(a), math.log(b)) for a, b in zip(ends, by, strict=True))
    return math.exp(-low), math.exp(high)


def _side_by_side(machines: Sequence[EngineMachine]) -> EngineMachine:
    """Devices in rows, for kernels in columns."""
    import numpy as np

    names = EngineMachine.__struct_fields__
    rows = np.array([[getattr(one, name) for name in names] for one in machines], dtype=float)
    columns: dict[str, Any] = dict(zip(names, rows.T[:, :, None], strict=True))
    return EngineMachine(**columns)


def _limiters(times: KernelTimes) -> tuple[Limiter, ...]:
    """Of each kernel, what takes most of it."""
    rows = zip(times.launch.tolist(), times.compute.tolist(), times.memory.tolist(), strict=True)
    return tuple(map(_limiter, rows))


def _limiter(parts: tuple[float, float, float]) -> Limiter:
    launch, compute, memory = parts
    if launch > overlapped(compute, memory):
        return Limiter.LAUNCHES
    return Limiter.COMPUTE if compute >= memory else Limiter.MEMORY


def _shares(times: KernelTimes, count: Any, stretch: float, start: float) -> dict[Limiter, float]:
    """Seconds of the run by what they are spent on; the power limit is one of computing."""
    launches = float((times.launch * count).sum())
    shares = {
        Limiter.COMPUTE: float((times.whole * count).sum()) * (stretch - 1),
        Limiter.MEMORY: 0.0,
        Limiter.LAUNCHES: launches,
        Limiter.HOST: start,
    }
    work = ((times.whole - times.launch) * count).tolist()
    compute, memory = times.compute.tolist(), times.memory.tolist()
    for spent, busy, moving in zip(work, compute, memory, strict=True):
        shares[Limiter.COMPUTE if busy >= moving else Limiter.MEMORY] += spent
    return shares


def _of_items(
    table: CostTable, work: EngineTable, limits: tuple[Limiter, ...]
) -> tuple[Limiter, ...]:
    found = [Limiter.MEMORY] * len(table.items)
    for kernel, limiter in zip(work.kernels, limits, strict=True):
        for i in kernel.members:
            found[i] = limiter
    return tuple(found)


def engine_estimator(
    roofs: Roofs, names: tuple[str, ...], calibration: Calibration, beside: Predictor | None
) -> EngineEstimator | None:
    """What predicts an engine's runs on a device; None where its class was not measured.

    A user's own measured kernels of the device come first: they say more of it than a class.

    Args:
        roofs: Of the device.
        names: Under which constants of the runtime are stored, best first.
        calibration: All constants.
        beside: What predicts runs that the formulas are not about.
    """
    device = roofs.device
    memory = main_memory(device)
    if memory is None or not memory.byte_per_s or _is_own(device, calibration):
        return None
    if resolve(device, "vector", "fp32") is None:
        return None
    found: EngineEstimator | None = None
    for name in reversed(names):
        known = (c for c in calibration.engines if c.runtime == name and matches(c.match, device))
        if (c := next(known, None)) is not None:
            c = c if name == names[0] else c.of_another()
            found = EngineEstimator(c, device, beside, other=found, narrow_sums=roofs.narrow_sums)
    return found


def _is_own(device: Device, calibration: Calibration) -> bool:
    names = {device.id, device.name}
    return bool(own_forms(calibration, device.id)) or any(
        p.device in names for p in calibration.probed
    )


def _units(fact: Fact | None) -> float:
    """Multiprocessors or cores; 0 where the device's table counts smaller parts instead."""
    return 0.0 if fact is None or fact.unit in _PARTS else fact.value


def machine_of(device: Device, c: EngineConstants) -> tuple[EngineMachine, tuple[str, ...]]:
    """What the formulas need, and the names of what had to be assumed."""
    processor = device.category == "cpu"
    units = device.fact("num_units")
    clock = highest_clock(device) if processor else device.fact("boost_clock")
    memory, vector = main_memory(device), resolve(device, "vector", "fp32")
    assert memory is not None
    assert memory.byte_per_s is not None
    assert vector is not None
    hz = clock.value if clock else _USUAL_CLOCK_HZ
    base = None if processor else device.fact("base_clock")
    lanes = vector.flop_per_s / 2
    levels = (device.level(name) for name in _CACHES)
    cache = next((m.capacity_bytes for m in levels if m and m.capacity_bytes), 0)
    flop_j = c.flop_energy_of(device.architecture)
    stacked = "HBM" in (memory.technology or "")
    missing = [n for n, f in (("number of units", units), ("clock", clock)) if not f]
    count = _units(units) or max(1.0, lanes / hz / c.lanes_per_unit)
    machine = EngineMachine(
        units=count,
        clock_hz=hz,
        byte_per_s=memory.byte_per_s,
        cache_bytes=float(cache or 0),
        lanes_per_s=lanes,
        tdp_w=where(flop_j > 0, device.tdp_w or 0.0, 0.0),
        flop_j=flop_j,
        byte_j=_STACKED_J if stacked else _PLAIN_J,
        halfway=base.value / hz if base and clock else 1.0,
        fast_units=count,
    )
    return _with_cores(machine, device) if processor else machine, tuple(missing)


def _with_cores(machine: EngineMachine, device: Device) -> EngineMachine:
    """A processor's clocks, its power, and the fast cores of a hybrid one."""
    cores = kinds(device)
    if not cores:
        ghz = machine.clock_hz / 1e9
        return msgspec.structs.replace(machine, loaded_w=2 * machine.lanes_per_s * ghz**2)
    fast, known = cores[:1], device.fact("boost_clock") is not None
    return msgspec.structs.replace(
        machine,
        turbo=1.0 if known else _ANY_TURBO,
        loaded_w=load(cores),
        halfway=held(cores) / at_highest(cores),
        fast_units=fast[0].count,
        fast_share=at_highest(fast) / at_highest(cores),
        fast_loaded_w=load(fast),
        fast_halfway=held(fast) / at_highest(fast),
    )
