"""Measures the ceilings of the processor that this runs on."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from gambrel._version import __version__
from gambrel.errors import DeviceError
from gambrel.measure import ir, machine, native, probes
from gambrel.measure.arena import Arena, arena, huge_bytes
from gambrel.measure.records import Measurement, Survey
from gambrel.measure.stats import Figure, best_of, figure

#: Length that a slice is made, seconds: long against a call, short against a scheduler's tick.
_SLICE_S: Final = 0.5e-3
#: Slices in a step: a user's ``steps=20`` gives 100 slices a round.
SLICES_PER_STEP: Final = 5

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to measure.

    Attributes:
        steps: Fives of slices in each round.
        warmup: The same, thrown away before each probe.
        rounds: Rounds over everything, each in fresh memory.
    """

    steps: int = 20
    warmup: int = 5
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class _Take:
    """One probe in one round."""

    figure: Figure
    clock_hz: float | None


def survey(effort: Effort, progress: Progress | None = None) -> Survey:
    """Measures this processor.

    Args:
        effort: How long.
        progress: Called before each probe with the number done, the number of all, and a name.

    Raises:
        MissingExtraError: llvmlite is not installed.
        DeviceError: This system cannot be measured.
    """
    tools = native.compiler()
    here = machine.this_machine()
    plan = _allowed(probes.suite(tools, here))
    before, begun = machine.stolen_s(), datetime.now(UTC)
    load = machine.load()
    takes: list[list[_Take]] = [[] for _ in plan.probes]
    share = None
    try:
        with arena(plan.dram_bytes) as large:
            for turn in range(effort.rounds):
                runner = _Runner(tools=tools, here=here, effort=effort)
                runner.round(plan, turn, large, takes, progress)
            huge = huge_bytes()
            share = None if huge is None else min(1.0, huge / plan.dram_bytes)
    except OSError as error:
        raise DeviceError(f"cannot get {plan.dram_bytes} bytes of memory: {error}.") from None
    elapsed = (datetime.now(UTC) - begun).total_seconds()
    after = machine.stolen_s()
    measured = [_combine(p, t, effort) for p, t in zip(plan.probes, takes, strict=True)]
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
        notes=_notes(here, load, share),
    )


@dataclass(slots=True, kw_only=True)
class _Runner:
    """One round: every probe once."""

    tools: native.Compiler
    here: machine.Machine
    effort: Effort

    def round(
        self,
        plan: probes.Suite,
        turn: int,
        large: Arena,
        takes: list[list[_Take]],
        progress: Progress | None,
    ) -> None:
        """Runs all probes, with fresh memory for the caches."""
        threads = len(self.here.cpus)
        near = [p.working_set for p in plan.probes if p.chunks == 1]
        region = -(-max(near, default=0) // (2 << 20)) * (2 << 20) + (2 << 20)
        with arena(region * threads, seed=turn + 1) as small, arena(threads << 20) as words:
            for index, probe in enumerate(plan.probes):
                if progress is not None:
                    done = turn * len(plan.probes) + index
                    total = self.effort.rounds * len(plan.probes)
                    progress(done, total, f"{probe.resource} {probe.dtype} {probe.mix}")
                takes[index].append(self.take(probe, _places(probe, large, small, words, region)))

    def take(self, probe: probes.Probe, places: tuple[int, ...]) -> _Take:
        """Runs one probe between two looks at the clock."""
        if probe.kernel.flops:
            for place in places:
                _operands(probe, place)
        cpus = self.here.cpus[: probe.threads]
        first = self._passes(probe, places, cpus)
        job = _job(probe, places, first)
        if self.effort.warmup:
            native.run_slices(self.tools, job, cpus, self.effort.warmup * SLICES_PER_STEP)
        busy = probe.kernel.flops > 0
        clock = self.clock_hz(busy)
        times = native.run_slices(self.tools, job, cpus, self.effort.steps * SLICES_PER_STEP)
        clocks = [c for c in (clock, self.clock_hz(busy)) if c is not None]
        return _Take(
            figure(times, probe.work(first)), sum(clocks) / len(clocks) if clocks else None
        )

    def clock_hz(self, busy: bool = False) -> float | None:
        """The clock of the first core now; None beside x86.

        Args:
            busy: While the vector units work.
        """
        if not self.tools.is_x86:
            return None
        kernel, passes = ir.chain(self.tools.width if busy else 0), 100
        words = np.full(64, 0.5, dtype=np.float32)  # x = 0.5·x + 0.5 stays an ordinary number
        words[:2] = np.array([3], dtype=np.int64).view(np.float32)
        job = native.Job(kernel=kernel, places=(words.ctypes.data,), size=0, passes=passes)
        times = native.run_slices(self.tools, job, self.here.cpus[:1], 12)
        cycles = kernel.instructions * ir.IMUL_CYCLES * passes
        return cycles / float(np.quantile(times, 0.25))

    def _passes(self, probe: probes.Probe, places: tuple[int, ...], cpus: Sequence[int]) -> int:
        """Passes that make a slice about half a millisecond long."""
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


def _job(probe: probes.Probe, places: tuple[int, ...], passes: int) -> native.Job:
    return native.Job(
        kernel=probe.kernel,
        places=places,
        size=probe.stream_bytes,
        chunk=probes.CHUNK if probe.chunks > 1 else 0,
        chunks=probe.chunks,
        passes=passes,
    )


def _places(
    probe: probes.Probe, large: Arena, small: Arena, words: Arena, region: int
) -> tuple[int, ...]:
    """Where each thread's data are: operands of arithmetic apart from what memory loops move."""
    if probe.chunks > 1:
        return _split(large, probe.threads)
    if probe.kernel.flops:
        return tuple(words.address + (i << 20) for i in range(probe.threads))
    return tuple(small.address + i * region for i in range(probe.threads))


def _split(large: Arena, threads: int) -> tuple[int, ...]:
    each = large.size // threads // probes.CHUNK * probes.CHUNK
    return tuple(large.address + i * each for i in range(threads))


def _combine(probe: probes.Probe, takes: Sequence[_Take], effort: Effort) -> Measurement:
    best = best_of([t.figure for t in takes])
    clock = takes[best.round].clock_hz
    return Measurement(
        resource=probe.resource,
        mix=probe.mix,
        dtype=probe.dtype,
        value=best.value,
        unit="FLOP/s" if probe.kernel.flops else "B/s",
        threads=probe.threads,
        median=best.median,
        spread=best.spread,
        samples=best.samples,
        rounds=effort.rounds,
        working_set_bytes=probe.working_set or None,
        clock_hz=clock,
        per_cycle=best.value / clock / probe.threads if clock else None,
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


def _capacities(here: machine.Machine) -> dict[str, int]:
    found = {c.name: c.size_bytes for c in here.caches}
    return found | ({"DRAM": here.memory_bytes} if here.memory_bytes else {})


def _one_way(tools: native.Compiler, here: machine.Machine) -> float | None:
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


def _notes(here: machine.Machine, load: float | None, share: float | None) -> tuple[str, ...]:
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
