"""What is measured on a CPU: one probe an engine, format and mix, or a memory level and mix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gambrel.measure import ir, loops
from gambrel.measure.machine import HostMachine
from gambrel.measure.native import Compiler

#: Shares of a level that one thread's data fill. A level is left some room for what else lives
#: there; an L2 is indexed by physical addresses, and where a hypervisor gives small pages, data
#: that fill more than half of it evict each other in some rounds and not in others.
_FILL_L1: Final = 0.65
_FILL_L2: Final = 0.45
_FILL_LAST: Final = 0.3
#: Data that are to miss a cache are this many times larger than it.
_MISS: Final = 8
_LEAST_MISS: Final = 2
#: A slice of main memory: half a millisecond or so, and no piece is used twice within one pass.
CHUNK: Final = 12 << 20
#: Bytes that loops over main memory ask for in advance unless a search finds better: where a
#: processor's own prefetchers do not keep enough requests in flight, reading was up to a fifth
#: faster so (Xeon, Sapphire Rapids), and updating a quarter slower elsewhere (EPYC, Zen 5).
AHEAD: Final = 512
#: Main memory that is walked over: several times all caches, within these limits.
_LEAST_DRAM: Final = 256 << 20
_MOST_DRAM: Final = 1 << 30

#: Intel's tile products by format.
TILES: Final = {"bf16": "tdpbf16ps", "int8": "tdpbssd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One ceiling to be measured in one way.

    Attributes:
        resource: Engine or memory level.
        mix: Instructions or accesses.
        kernel: The loop.
        threads: How many run it.
        dtype: Number format; empty for memory.
        working_set: Bytes of each thread; 0 for arithmetic.
        chunks: Pieces of `CHUNK` bytes that are used in turn; 1 for everything but main memory.
        variant: How the loop over memory is written; None for arithmetic.
        note: Caveats.
    """

    resource: str
    mix: str
    kernel: ir.LoopKernel
    threads: int
    dtype: str = ""
    working_set: int = 0
    chunks: int = 1
    variant: loops.Variant | None = None
    note: str = ""

    @property
    def stream_bytes(self) -> int:
        """Bytes of one array of the loop, a whole number of its turns."""
        if not self.kernel.streams:
            return 0
        whole = CHUNK if self.chunks > 1 else self.working_set
        turn = loops.TURN_BYTES
        return max(turn, whole // self.kernel.streams // turn * turn)

    def work(self, passes: int) -> float:
        """FLOP or bytes of one slice over all threads."""
        each = self.kernel.flops or self.kernel.moved * self.stream_bytes
        return float(each * passes * self.threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """All probes of a machine.

    Attributes:
        probes: In order.
        unknown: What cannot be measured here, with the reason.
        dram_bytes: Main memory that the probes walk over, all threads together.
    """

    probes: tuple[Probe, ...]
    unknown: tuple[str, ...]
    dram_bytes: int


def suite(tools: Compiler, machine: HostMachine) -> Suite:
    """The probes that this machine has the instructions and the caches for."""
    counts = sorted({1, len(machine.cpus)})
    dram = _dram_bytes(machine)
    unknown: list[str] = []
    probes = [*_arithmetic(tools, counts)]
    for threads in counts:
        probes += _caches(tools, machine, threads, unknown)
        probes += _main_memory(tools, threads, dram)
    if not machine.caches:
        unknown.append("caches: the system does not say how large they are")
    if not tools.features & {"amx-bf16", "amx-int8"}:
        unknown.append("matrix engine: this gambrel knows Intel's AMX only, and it is not here")
    return Suite(probes=tuple(probes), unknown=tuple(unknown), dram_bytes=dram)


def _arithmetic(tools: Compiler, counts: list[int]) -> Iterator[Probe]:
    for engine, mix, dtype, kernel, note in _instructions(tools):
        for threads in counts:
            yield Probe(
                resource=engine, mix=mix, dtype=dtype, kernel=kernel, threads=threads, note=note
            )


def _instructions(tools: Compiler) -> Iterator[tuple[str, str, str, ir.LoopKernel, str]]:
    width, has = tools.width, tools.features
    for dtype in ("fp64", "fp32"):
        yield "vector", "fma", dtype, ir.fma(dtype, width), ""
    yield "vector", "fma+add", "fp32", ir.fma("fp32", width, adds=True), _MIXED
    if has & {"avx512fp16", "fullfp16"}:
        yield "vector", "fma", "fp16", ir.fma("fp16", width), ""
    if "avx512bf16" in has:
        # 32 lanes of bf16 in 64 bytes: 32 multiply-adds.
        kernel = ir.dot("dot_bf16", "vdpbf16ps", width, width, integer=False)
        yield "vector", "dot", "bf16", kernel, _DOT
    if "avx512vnni" in has:
        kernel = ir.dot("dot_int8", "vpdpbusd", width, 2 * width, integer=True)
        yield "vector", "dot", "int8", kernel, _DOT
    if "amx-bf16" in has:
        # 16 × 16 results, each a dot product of 32 bf16 values.
        yield "matrix", "tile", "bf16", ir.tile("tile_bf16", TILES["bf16"], 16 * 16 * 32 * 2), _AMX
    if "amx-int8" in has:
        yield "matrix", "tile", "int8", ir.tile("tile_int8", TILES["int8"], 16 * 16 * 64 * 2), _AMX


_MIXED: Final = (
    "as many additions as fused multiply-adds: above the FMA roof where adders are apart"
)
_DOT: Final = "dot-product instruction: matrix work only, no element-wise work"
_AMX: Final = "Intel AMX, operands in tile registers"


def _caches(
    tools: Compiler, machine: HostMachine, threads: int, unknown: list[str]
) -> Iterator[Probe]:
    inner = 0
    for position, cache in enumerate(machine.caches):
        together = min(threads, cache.sharers)
        if position == 0:
            size = int(cache.size_bytes * _FILL_L1) // together
        elif position == 1 and len(machine.caches) > 2:
            size = int(cache.size_bytes * _FILL_L2) // together
        else:
            size = min(int(cache.size_bytes * _FILL_LAST) // together, _MISS * inner)
        if size < _LEAST_MISS * inner:
            unknown.append(
                f"{cache.name} with {threads} threads: its share of a thread is hardly larger than "
                "the level before it"
            )
        else:
            for mix in loops.STREAMS:
                yield _memory(tools, cache.name, mix, threads, size)
        inner = cache.size_bytes


def _main_memory(tools: Compiler, threads: int, total: int) -> Iterator[Probe]:
    chunks = max(2, total // threads // CHUNK)
    for mix in loops.STREAMS:
        yield _memory(tools, "DRAM", mix, threads, chunks * CHUNK, chunks=chunks)
    if tools.is_x86:
        for mix in ("write nt", "copy nt", "triad nt"):
            yield _memory(tools, "DRAM", mix, threads, chunks * CHUNK, chunks=chunks)


def _memory(
    tools: Compiler, level: str, mix: str, threads: int, size: int, *, chunks: int = 1
) -> Probe:
    variant = loops.Variant(ahead=AHEAD if chunks > 1 and not mix.startswith("write") else 0)
    allocates = chunks > 1 and mix in {"write", "copy", "triad"}
    return Probe(
        resource=level,
        mix=mix,
        kernel=_loop(tools, mix, variant),
        threads=threads,
        working_set=size,
        chunks=chunks,
        variant=variant,
        note=_ALLOCATE if allocates else "",
    )


def written(tools: Compiler, probe: Probe, variant: loops.Variant) -> Probe:
    """The same probe of memory with its loop in another variant."""
    return replace(probe, kernel=_loop(tools, probe.mix, variant), variant=variant)


def _loop(tools: Compiler, mix: str, variant: loops.Variant) -> ir.LoopKernel:
    """The loop of a mix as probes name it."""
    plain, _, nontemporal = mix.partition(" ")
    return loops.memory(
        plain, tools.width, variant, nontemporal=bool(nontemporal), register=tools.register
    )


_ALLOCATE: Final = "lines are read before they are written; those bytes are not counted"


def _dram_bytes(machine: HostMachine) -> int:
    caches = sum(c.size_bytes for c in machine.caches[-1:])
    wanted = min(max(4 * caches, _LEAST_DRAM), _MOST_DRAM)
    if machine.available_bytes is not None:
        wanted = min(wanted, machine.available_bytes // 4)
    return max(wanted, 2 * CHUNK * len(machine.cpus))
