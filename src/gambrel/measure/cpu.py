"""Measures the ceilings of the processor that this runs on."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import numpy as np

from gambrel._version import __version__
from gambrel.dtypes import width_bytes
from gambrel.errors import DeviceError
from gambrel.measure import ir, machine, native, probes, tuning
from gambrel.measure.arena import Arena, arena, huge_bytes
from gambrel.measure.loops import Variant
from gambrel.measure.records import Measurement, Survey
from gambrel.measure.stats import SampledRate, figure, over_rounds

#: Length that a slice is made, seconds: long against a call, short against a scheduler's tick.
_SLICE_S: Final = 0.5e-3
#: No further round begins after so many times what the slices alone should take, ...
_PATIENCE: Final = 2.5
#: ... but for so many.
_LEAST_ROUNDS: Final = 2
#: Slices until the clock has settled under a loop that waits for a cache: one processor lowered it
#: by an eighth, but only after five to fourteen milliseconds of reading its L2.
_SETTLING: Final = 30
#: Passes and slices of the chain that shows the clock, a third of a millisecond together: shorter
#: than the time for which a processor keeps the clock of the work before it.
_CLOCK_PASSES, _CLOCK_SLICES = 60, 6
#: A survey that is shorter may see one state of a clock only, seconds.
_MOMENT_S: Final = 15.0
#: Laps in which variants of a loop run one after another, and slices of each in a lap.
_LAPS, _LAP_SLICES = 4, 2
#: A slice of a cache's loop meanwhile, as a share of the usual length.
_SHORT: Final = 0.4
#: Seconds after which the search ends: the loops that are left stay as they are.
_SEARCH_S: Final = 8.0
#: With fewer slices a round than this, a rough measurement, the search is short as well.
_ROUGH: Final = 10
#: Where its number lies in a thread's operands, behind those of arithmetic.
_CHAIN_AT: Final = 1 << 19

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingBudget:
    """How long to measure.

    Attributes:
        steps: Slices of each probe in a round.
        warmup: The same, thrown away before.
        rounds: Rounds over everything, each in fresh memory.
    """

    steps: int = 20
    warmup: int = 5
    rounds: int = 20


@dataclass(frozen=True, slots=True)
class _Take:
    """One probe in one round.

    Attributes:
        figure: Its rate.
        clock_hz: Of the slowest core just after; None where it cannot be told.
    """

    figure: SampledRate
    clock_hz: float | None


def survey(
    effort: TimingBudget,
    progress: Progress | None = None,
    between: Callable[[], None] | None = None,
) -> Survey:
    """Measures this processor.

    Args:
        effort: How long; on a slow machine fewer rounds, at least two if so many are asked for.
        progress: Called before each probe with the number done, the number of all, and a name.
        between: Called after each round: what else is to be measured over the whole run.

    Raises:
        MissingExtraError: llvmlite is not installed.
        DeviceError: This system cannot be measured.
    """
    tools = native.compiler()
    here = machine.this_machine()
    plan = _allowed(probes.suite(tools, here))
    before, begun = machine.stolen_s(), datetime.now(UTC)
    load = machine.load()
    try:
        with arena(plan.dram_bytes) as large, arena(len(here.cpus) << 20) as words:
            runner = _Runner(tools, here, effort, plan, large, words)
            runner.tune(progress)
            runner.run(progress, between)
            huge = huge_bytes()
            share = None if huge is None else min(1.0, huge / plan.dram_bytes)
    except OSError as error:
        raise DeviceError(f"cannot get {plan.dram_bytes} bytes of memory: {error}.") from None
    elapsed = (datetime.now(UTC) - begun).total_seconds()
    after = machine.stolen_s()
    measured = [
        _combine(p, t, c)
        for p, t, c in zip(runner.probes, runner.takes, runner.choices, strict=True)
    ]
    return Survey(
        device="cpu",
        id=here.id,
        name=here.name,
        vendor=here.vendor,
        category="cpu",
        date=begun.date().isoformat(),
        measurements=tuple(measured),
        versions=_versions(),
        settings={k: str(getattr(effort, k)) for k in ("steps", "warmup", "rounds")},
        capacities=_capacities(here),
        load=load,
        stolen=None
        if before is None or after is None
        else (after - before) / (elapsed * len(here.cpus)),
        huge_page_share=share,
        one_way_s=_one_way(tools, here),
        unknown=plan.unknown,
        notes=(*_notes(here, load, share), *_of_a_moment(elapsed)),
    )


class _Runner:
    """Rounds over all probes."""

    def __init__(
        self,
        tools: native.Compiler,
        here: machine.HostMachine,
        effort: TimingBudget,
        plan: probes.Suite,
        large: Arena,
        words: Arena,
    ) -> None:
        self.tools, self.here, self.effort, self.plan = tools, here, effort, plan
        self.large, self.words = large, words
        self.probes = list(plan.probes)
        self.choices: list[tuning.Tuned | None] = [None for _ in plan.probes]
        self.takes: list[list[_Take]] = [[] for _ in plan.probes]
        self._passes: dict[int, int] = {}
        self._walked = 0  # pieces of main memory: the next probe goes on where the last one ended
        for place in _apart(words, len(here.cpus)):
            ctypes.c_int64.from_address(place + _CHAIN_AT).value = 3

    def tune(self, progress: Progress | None = None) -> None:
        """Rewrites the loops over memory in the variants that are fastest here.

        Main memory comes first: if the time is not enough, the loops of the inner caches stay.
        """
        last = time.monotonic() + _SEARCH_S
        turns = _outermost_first(self.probes)
        with self._near(seed=0) as (small, region):
            for done, index in enumerate(turns):
                if time.monotonic() > last:
                    return
                if progress is not None:
                    progress(done, len(turns), f"{self.probes[index].resource} variants of loops")
                places = _places(self.probes[index], self.large, small, self.words, region)
                choice = self._chosen(index, partial(self._race, index, places))
                self.choices[index] = choice
                self.probes[index] = probes.written(self.tools, self.probes[index], choice.variant)

    def _chosen(self, index: int, race: tuning.Race) -> tuning.Tuned:
        """What a search comes to; with all threads it tries what was best with one."""
        probe = self.probes[index]
        assert probe.variant is not None
        alone = (
            c
            for p, c in zip(self.probes, self.choices, strict=True)
            if c and (p.resource, p.mix) == (probe.resource, probe.mix)
        )
        if (before := next(alone, None)) is not None:
            return tuning.again(probe.variant, before, race)
        tries = tuning.values(probe, rough=self.effort.steps < _ROUGH)
        return tuning.search(probe.mix.partition(" ")[0], probe.variant, tries, race)

    def _race(
        self, index: int, places: tuple[int, ...], variants: Sequence[Variant]
    ) -> Sequence[float]:
        """The rates of variants of one probe over that of the first."""
        probe = self.probes[index]
        cpus = self.here.cpus[: probe.threads]
        passes = max(1, round(self._passes_of(index, places, cpus) * _SHORT))
        turns, written = [], [probes.written(self.tools, probe, v) for v in variants]
        for _ in range(_LAPS):
            for each in written:
                turns.append((_job(each, places, passes, self._walked), _LAP_SLICES))
                self._walked += _LAP_SLICES if probe.chunks > 1 else 0
        times = native.run_in_turn(self.tools, turns, cpus)
        count = len(variants)
        return tuning.ratios([times[at : at + count] for at in range(0, len(times), count)])

    def run(self, progress: Progress | None, between: Callable[[], None] | None) -> None:
        """All rounds, or as many as the time allows."""
        each = len(self.probes) * (self.effort.steps + self.effort.warmup) * _SLICE_S
        last = time.monotonic() + _PATIENCE * each * self.effort.rounds
        for turn in range(self.effort.rounds):
            if turn >= _LEAST_ROUNDS and time.monotonic() > last:
                break
            self._round(turn, progress)
            if between is not None:
                between()

    def _round(self, turn: int, progress: Progress | None) -> None:
        """Every probe once, with fresh memory for the caches."""
        with self._near(seed=turn + 1) as (small, region):
            for index, probe in enumerate(self.probes):
                if progress is not None:
                    done, total = turn * len(self.probes) + index, len(self.probes)
                    name = f"{probe.resource} {probe.dtype} {probe.mix}"
                    progress(done, self.effort.rounds * total, name)
                places = _places(probe, self.large, small, self.words, region)
                self.takes[index].append(self._take(index, probe, places))

    @contextmanager
    def _near(self, seed: int) -> Iterator[tuple[Arena, int]]:
        """Memory for the loops over caches, and how much of it each thread has."""
        sets = [p.working_set for p in self.probes if p.chunks == 1]
        region = -(-max(sets, default=0) // (2 << 20)) * (2 << 20) + (2 << 20)
        with arena(region * len(self.here.cpus), seed=seed) as small:
            yield small, region

    def _take(self, index: int, probe: probes.Probe, places: tuple[int, ...]) -> _Take:
        """Runs one probe, then looks at the clock on the same cores while it is still that one."""
        if probe.kernel.flops:
            for place in places:
                _operands(probe, place)
        cpus = self.here.cpus[: probe.threads]
        passes = self._passes_of(index, places, cpus)
        job = _job(probe, places, passes, self._walked)
        warm, steps = self.effort.warmup, self.effort.steps
        if probe.working_set and probe.chunks == 1 and warm:
            warm = max(warm, _SETTLING)
        if probe.chunks > 1:
            self._walked += warm + steps
        turns = [(job, warm + steps)]
        if self.tools.is_x86:
            turns.append((_clock(self.tools, probe, _apart(self.words, len(cpus))), _CLOCK_SLICES))
        times, *clock = native.run_in_turn(self.tools, turns, cpus)
        return _Take(
            figure(times[warm:], probe.work(passes)), _clock_hz(clock[0]) if clock else None
        )

    def _passes_of(self, index: int, places: tuple[int, ...], cpus: Sequence[int]) -> int:
        if index not in self._passes:
            probe = self.probes[index]
            self._passes[index] = self._half_a_millisecond(probe, places, cpus)
        return self._passes[index]

    def _half_a_millisecond(
        self, probe: probes.Probe, places: tuple[int, ...], cpus: Sequence[int]
    ) -> int:
        """Passes that make a slice about so long."""
        if probe.chunks > 1:
            return 1
        passes = 1
        for _ in range(12):
            times = native.run_slices(self.tools, _job(probe, places, passes), cpus, 5)
            shortest = float(times.min())
            if shortest >= _SLICE_S / 4:
                return max(1, round(passes * _SLICE_S / shortest))
            passes *= max(2, min(64, int(_SLICE_S / shortest / 2)))
        return passes


def _outermost_first(found: Sequence[probes.Probe]) -> list[int]:
    """Positions of the probes of memory, of each level those with one thread first."""
    memory = [i for i, p in enumerate(found) if p.variant is not None]
    levels = list(dict.fromkeys(found[i].resource for i in memory))
    return sorted(memory, key=lambda i: (-levels.index(found[i].resource), found[i].threads))


def _clock(tools: native.Compiler, probe: probes.Probe, places: tuple[int, ...]) -> native.Job:
    """The chain that shows the clock, beside the units that the probe keeps busy."""
    if probe.mix == "tile":
        kernel = ir.chain(tile=probes.TILES[probe.dtype])
    else:
        kernel = ir.chain(tools.width if probe.kernel.flops else 0)
    return native.Job(kernel=kernel, places=places, size=_CHAIN_AT, passes=_CLOCK_PASSES)


def _clock_hz(seconds: np.ndarray[Any, Any]) -> float:
    cycles = ir.CHAIN * ir.IMUL_CYCLES * _CLOCK_PASSES
    return cycles / float(np.quantile(seconds, 0.25))


def _job(probe: probes.Probe, places: tuple[int, ...], passes: int, first: int = 0) -> native.Job:
    walks = probe.chunks > 1
    return native.Job(
        kernel=probe.kernel,
        places=places,
        size=probe.stream_bytes,
        chunk=probes.CHUNK if walks else 0,
        chunks=probe.chunks,
        first=first if walks else 0,
        passes=passes,
    )


def _places(
    probe: probes.Probe, large: Arena, small: Arena, words: Arena, region: int
) -> tuple[int, ...]:
    """Where each thread's data are: operands of arithmetic apart from what memory loops move."""
    if probe.chunks > 1:
        return _split(large, probe.threads)
    if probe.kernel.flops:
        return _apart(words, probe.threads)
    return tuple(small.address + i * region for i in range(probe.threads))


def _apart(words: Arena, threads: int) -> tuple[int, ...]:
    """Where each thread has operands of arithmetic, and the number of the chain behind them."""
    return tuple(words.address + (i << 20) for i in range(threads))


def _split(large: Arena, threads: int) -> tuple[int, ...]:
    each = large.size // threads // probes.CHUNK * probes.CHUNK
    return tuple(large.address + i * each for i in range(threads))


#: A bound on the vector instructions that an x86 core starts in a cycle, on registers of 64 bytes:
#: an assumption with room to spare, from no manual. The widest core measured so far, a Zen 5 (AMD
#: EPYC, 2026), did 95.8 FLOP of fp32 in two multiply-adds and two additions where this allows 128,
#: 256 operations on int8 of 512, and moved 155 bytes of 256. A core beyond it would lose its clock,
#: and no rate.
_PIPES: Final = 4
_VECTOR_BYTES: Final = 64
#: Operations on bytes of a tile unit in a cycle: 16 x 16 results of 64 products each in 16 cycles,
#: the 2,048 on int8 and 1,024 on bf16 that Intel announced for Sapphire Rapids (Architecture Day
#: 2021). The 7.765e12 a second measured on a core of that kind are so many at 3.79 GHz.
_TILE_FLOPS: Final = 2 * 16 * 16 * 64 // 16
#: What a reading of the clock may be off without contradicting anything.
_TOLERANCE: Final = 1.25


def _most_per_cycle(probe: probes.Probe) -> float:
    """FLOP or bytes of one thread in a cycle that no processor exceeds."""
    if not probe.kernel.flops:
        return float(_PIPES * _VECTOR_BYTES)
    width = width_bytes(probe.dtype)
    if probe.mix == "tile":
        return _TILE_FLOPS / width
    return 2 * _PIPES * _VECTOR_BYTES / width


def _combine(
    probe: probes.Probe, takes: Sequence[_Take], choice: tuning.Tuned | None = None
) -> Measurement:
    found = over_rounds([t.figure for t in takes])
    read = [(t.figure.value / t.clock_hz / probe.threads, t.clock_hz) for t in takes if t.clock_hz]
    # A chain that was interrupted reads a clock at which the units would do what none can.
    paired = [pair for pair in read if pair[0] <= _TOLERANCE * _most_per_cycle(probe)]
    per_cycle, clock = np.median(paired, axis=0).tolist() if paired else (None, None)
    return Measurement(
        resource=probe.resource,
        mix=probe.mix,
        dtype=probe.dtype,
        value=found.value,
        unit="FLOP/s" if probe.kernel.flops else "B/s",
        threads=probe.threads,
        median=found.median,
        spread=found.spread,
        samples=found.samples,
        rounds=len(takes),
        working_set_bytes=probe.working_set or None,
        clock_hz=clock,
        per_cycle=per_cycle,
        variant=str(probe.variant or ""),
        tried={str(v): round(r, 3) for v, r in choice.tried.items()} if choice else {},
        note=probe.note,
    )


def _allowed(plan: probes.Suite) -> probes.Suite:
    """Without the kernel's permission to use tile registers, AMX probes would end the process."""
    if not any(p.mix == "tile" for p in plan.probes) or _ask_for_tiles():
        return plan
    return probes.Suite(
        probes=tuple(p for p in plan.probes if p.mix != "tile"),
        unknown=(*plan.unknown, "matrix engine: the kernel gives no permission to use AMX"),
        dram_bytes=plan.dram_bytes,
    )


def _ask_for_tiles() -> bool:
    """Asks Linux for the tile data (arch_prctl ARCH_REQ_XCOMP_PERM, state component 18).

    Source: Linux, Documentation/arch/x86/xstate.rst.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return int(ctypes.CDLL(None, use_errno=True).syscall(158, 0x1023, 18)) == 0


#: Bytes of operands that an arithmetic loop may read.
_OPERAND_BYTES: Final = 16 << 10


def _operands(probe: probes.Probe, address: int) -> None:
    """Random ordinary numbers of the format; AMX finds its configuration before them."""
    random = np.random.default_rng(7)
    if probe.dtype == "int8":
        values = random.integers(1, 127, _OPERAND_BYTES, dtype=np.int8)
    else:
        numbers = random.random(_OPERAND_BYTES, dtype=np.float32) * np.float32(0.5)
        numbers += np.float32(0.3)
        values = _FORMATS[probe.dtype](numbers)
    data = values.tobytes()[:_OPERAND_BYTES]
    if probe.mix == "tile":
        # Palette 1, eight tiles of 16 rows of 64 bytes; the operands follow at 64 bytes.
        rows = bytes([64, 0] * 8) + bytes(16) + bytes([16] * 8)
        data = (bytes([1, *[0] * 15]) + rows).ljust(64, b"\0") + data
    ctypes.memmove(address, data, len(data))


_FORMATS: Final[dict[str, Callable[[Any], Any]]] = {
    "fp64": lambda numbers: numbers.astype(np.float64),
    "fp32": lambda numbers: numbers,
    "fp16": lambda numbers: numbers.astype(np.float16),
    # A bf16 number is the upper half of an fp32 number.
    "bf16": lambda numbers: (numbers.view(np.uint32) >> 16).astype(np.uint16),
}


def _capacities(here: machine.HostMachine) -> dict[str, int]:
    found = {c.name: c.size_bytes for c in here.caches}
    return found | ({"DRAM": here.memory_bytes} if here.memory_bytes else {})


def _one_way(tools: native.Compiler, here: machine.HostMachine) -> float | None:
    if len(here.cpus) < 2:
        return None
    return min(native.one_way_s(tools, (here.cpus[0], here.cpus[1])) for _ in range(5))


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "gambrel": __version__,
        "llvmlite": version("llvmlite"),
        "system": f"{platform.system()} {platform.release()}",
    }


def _of_a_moment(elapsed: float) -> tuple[str, ...]:
    if elapsed >= _MOMENT_S:
        return ()
    return (
        f"these are figures of {elapsed:.0f} s: where the clock changes with what else the chip "
        "does, the next minute may differ by more than the spread.",
    )


def _notes(here: machine.HostMachine, load: float | None, share: float | None) -> tuple[str, ...]:
    notes = [f"{len(here.cpus)} cores were used, one thread each, pinned where the system allows."]
    if load is not None and load > len(here.cpus) / 2:
        notes.append(
            f"the machine was busy (load {load:.1f} on {len(here.cpus)} cores): figures may be too "
            "low; run again on an idle machine."
        )
    if share is not None and share < 0.9:
        notes.append(
            f"only {share:.0%} of the memory lay on huge pages: figures of L2 and beyond may be "
            "low."
        )
    return tuple(notes)
