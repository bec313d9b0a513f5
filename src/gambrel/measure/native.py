"""Compiles the loops for this host and runs them on pinned threads."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from gambrel.errors import DeviceError, MissingExtraError
from gambrel.measure import ir
from gambrel.measure.harness import harness_module

#: CLOCK_MONOTONIC_RAW would be steadier, but only CLOCK_MONOTONIC is fast in every virtual machine.
_MONOTONIC: Final = {"linux": 1, "darwin": 6}

_SLICES_TYPE: Final = ctypes.CFUNCTYPE(
    None,
    *[ctypes.c_void_p] * 3,
    ctypes.c_int64,
    ctypes.c_void_p,
    *[ctypes.c_int64] * 6,
    ctypes.c_void_p,
)
_PING_PONG_TYPE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every thread runs in each slice.

    Attributes:
        kernel: The loop.
        places: Address of each thread's data.
        size: Bytes of one stream.
        chunk: Bytes from one piece of the data to the next.
        chunks: Pieces, used one after another.
        first: Piece that the first slice uses.
        passes: Of the loop in one slice.
    """

    kernel: ir.LoopKernel
    places: tuple[int, ...]
    size: int
    chunk: int = 0
    chunks: int = 1
    first: int = 0
    passes: int = 1


@dataclass(slots=True)
class Compiler:
    """The code generator for this host.

    Attributes:
        triple: Of the machine, as LLVM writes it.
        cpu: Name of the processor, as LLVM knows it.
        features: Instruction-set features that this host has and allows.
    """

    triple: str
    cpu: str
    features: frozenset[str]
    _machine: Any
    _engines: list[Any] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Bytes of a vector register."""
        if "avx512f" in self.features:
            return 64
        return 32 if "avx2" in self.features or "avx" in self.features else 16

    @property
    def register(self) -> str:
        """Constraint of a vector register in inline assembly."""
        if not self.is_x86:
            return "w"
        return "v" if self.width == 64 else "x"

    @property
    def is_x86(self) -> bool:
        """Whether x86 instructions may be named."""
        return self.triple.startswith(("x86_64", "amd64"))

    def address(self, kernel: ir.LoopKernel) -> int:
        """Where the compiled kernel is; it is compiled on first use."""
        if kernel.name not in self._known:
            self._known |= self._add(ir.kernel_module(kernel, self.triple), [kernel.name])
        return self._known[kernel.name]

    def harness(self, name: str) -> int:
        """Where a function of the harness is."""
        if name not in self._known:
            text = harness_module(self.triple, _MONOTONIC[sys.platform])
            self._known |= self._add(text, ["slices", "ping_pong"])
        return self._known[name]

    def _add(self, text: str, names: Sequence[str]) -> dict[str, int]:
        from llvmlite import binding

        module = binding.parse_assembly(text)
        module.verify()
        engine = binding.create_mcjit_compiler(module, self._machine())
        engine.finalize_object()
        self._engines.append(engine)  # the code lives as long as its engine
        return {name: engine.get_function_address(name) for name in names}


@cache
def compiler() -> Compiler:
    """The code generator for this host.

    Raises:
        MissingExtraError: llvmlite is not installed.
        DeviceError: The system has no ``clock_gettime``.
    """
    if sys.platform not in _MONOTONIC:
        raise DeviceError(
            f"ceilings of a CPU cannot be measured on {sys.platform} yet; "
            "give --hardware NAME, or --peak and --bandwidth."
        )
    try:
        from llvmlite import binding
    except ImportError:
        raise MissingExtraError("llvmlite", "measure", "measuring a CPU") from None
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    features = binding.get_host_cpu_features()
    target = binding.Target.from_default_triple()
    cpu = binding.get_host_cpu_name()

    def machine() -> Any:
        return target.create_target_machine(cpu=cpu, features=features.flatten(), opt=3)

    return Compiler(
        triple=binding.get_default_triple(),
        cpu=cpu,
        features=frozenset(name for name, there in features.items() if there),
        _machine=machine,
    )


def run_slices(tools: Compiler, job: Job, cpus: Sequence[int], count: int) -> np.ndarray[Any, Any]:
    """Runs a job's slices on pinned threads that start each slice together.

    Args:
        tools: The compiler.
        job: What to run.
        cpus: One processor a thread.
        count: Slices.

    Returns:
        Seconds of each slice, from the first thread's start to the last one's end.
    """
    return run_in_turn(tools, ((job, count),), cpus)[0]


def run_in_turn(
    tools: Compiler, jobs: Sequence[tuple[Job, int]], cpus: Sequence[int]
) -> list[np.ndarray[Any, Any]]:
    """Runs several jobs one after another, on the same threads and within microseconds.

    Args:
        tools: The compiler.
        jobs: Each with its number of slices.
        cpus: One processor a thread.

    Returns:
        For each job the seconds of each slice, as `run_slices` returns them.
    """
    slices = _SLICES_TYPE(tools.harness("slices"))
    clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    entries = [tools.address(job.kernel) for job, _ in jobs]
    counters = np.zeros((len(jobs), 16), dtype=np.int64)  # cache lines of their own
    times = [np.zeros((len(cpus), count, 2), dtype=np.int64) for _, count in jobs]

    def work(index: int) -> None:
        _pin(cpus[index])
        for at, (job, count) in enumerate(jobs):
            slices(
                entries[at],
                clock,
                counters[at].ctypes.data,
                len(cpus),
                job.places[index],
                job.chunk,
                job.chunks,
                job.first,
                job.size,
                job.passes,
                count,
                times[at][index].ctypes.data,
            )

    _together(work, len(cpus))
    return [np.maximum(t[:, :, 1].max(axis=0) - t[:, :, 0].min(axis=0), 1) * 1e-9 for t in times]


def one_way_s(tools: Compiler, cpus: tuple[int, int], count: int = 2000) -> float:
    """Seconds that a cache line takes from one core to another, the mean of ``count`` rounds."""
    import time

    line = np.zeros(16, dtype=np.int64)
    ping_pong = _PING_PONG_TYPE(tools.harness("ping_pong"))
    spans = [0.0, 0.0]

    def work(index: int) -> None:
        _pin(cpus[index])
        begun = time.perf_counter()
        ping_pong(line.ctypes.data, index, count)
        spans[index] = time.perf_counter() - begun

    _together(work, 2)
    return min(spans) / (2 * count)


def _pin(cpu: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})


def _together(work: Callable[[int], None], count: int) -> None:
    """Runs ``work(index)`` on threads of their own: the caller's affinity stays as it is.

    An interruption waits until they are done, because they still use the caller's memory.
    """
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    interruption: BaseException | None = None
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as error:
                interruption = error
    if interruption is not None:
        raise interruption
