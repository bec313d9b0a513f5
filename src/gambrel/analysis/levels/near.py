"""The memories close to the arithmetic that datasheets of devices leave out, by architecture.

A device's entry names its DRAM and its last caches. What lies nearer (registers and shared memory
of a multiprocessor, private caches of a core) belongs to the architecture and is published with
it. Architectures that are not listed have no such levels: they are unknown, not guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gambrel.device.model import Source

KIB: Final = 1024

#: The day on which the sources were compared with this file; those marked ``unverified`` were not.
_CHECKED: Final = "2026-11-20"
_HOPPER: Final = Source(
    title="NVIDIA Hopper Tuning Guide, 1.4.1.1: 228 KB an SM, 164 KB on A100; 64K registers",
    url="https://docs.nvidia.com/cuda/hopper-tuning-guide",
    date=_CHECKED,
    confidence="primary-quoted",
)
_BLACKWELL: Final = Source(
    title="NVIDIA Blackwell Tuning Guide, 1.4.1.1: 228 KB (10.0)",
    url="https://docs.nvidia.com/cuda/blackwell-tuning-guide",
    date=_CHECKED,
    confidence="primary-quoted",
)
_CUDA: Final = Source(
    title="CUDA C++ Programming Guide, specifications per compute capability",
    url="https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
    confidence="unverified",
)
_CDNA: Final = Source(
    title="AMD GPU specifications: LDS, VGPR file and L2 of gfx942 and gfx950",
    url="https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html",
    date=_CHECKED,
    confidence="primary",
)
_OLDER_CDNA: Final = Source(
    title="AMD GPU specifications: gfx908 and gfx90a",
    url="https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html",
    confidence="unverified",
)


def _quoted(title: str, url: str, *, date: str = _CHECKED) -> Source:
    """Figures of a maker, as somebody else writes them."""
    return Source(title=title, url=url, date=date, confidence="secondary")


_ZEN: Final = _quoted(
    "Caches of Zen 4 and Zen 5 as the press has them: 1 MB, 32 and 48 KB a core, 32 MB of L3 a die",
    "https://qeeebo.com/questions/how/e7/912/how-does-zen-5s-cache-architecture-differ-from-zen-4s",
)
_SAPPHIRE: Final = _quoted(
    "Caches of Sapphire Rapids as the press has them: 48 KB and 2 MB a core",
    "https://www.hardwaretimes.com/intel-sapphire-rapids-sp-cache-hierarchy-revealed-by-leaked-benchmark/",
)
_GRANITE: Final = _quoted(
    "Caches of Granite Rapids as the press has them: 48 KB and 2 MB a core",
    "https://computerbase.de/2024-03/intel-granite-rapids-sp-80-kern-samples-mit-336-mb-l3-im-a2-stepping-gesichtet",
)
_GRAVITON: Final = Source(
    title="Arm learning path on caches: L2 of 1 MB (Graviton2) and 2 MB (Graviton4) a core",
    url="https://learn.arm.com/learning-paths/servers-and-cloud-computing/memory-subsystem/cache-hierarchy",
    date=_CHECKED,
    confidence="primary",
)
_ARM: Final = Source(
    title="Arm core technical reference manual",
    url="https://developer.arm.com",
    confidence="unverified",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """One memory that every unit (multiprocessor, core) of an architecture has for itself.

    Attributes:
        name: ``L2``, ``L1`` (shared memory or a first-level cache) or ``registers``.
        capacity_bytes: Of one instance.
        per_unit: Instances in a unit of the device's ``num_units``.
        byte_per_clock: Bandwidth of one instance; None where not published.
        source: Where the capacity comes from.
    """

    name: str
    capacity_bytes: int
    source: Source
    per_unit: int = 1
    byte_per_clock: int | None = None


def _nvidia(shared_kib: int, source: Source = _CUDA) -> tuple[Near, ...]:
    """A multiprocessor: shared memory, and 64 Ki registers of 32 bits in four partitions.

    Shared memory has 32 banks of 4 bytes: 128 bytes a clock.
    """
    return (
        Near(name="L1", capacity_bytes=shared_kib * KIB, byte_per_clock=128, source=source),
        Near(name="registers", capacity_bytes=64 * KIB, per_unit=4, source=source),
    )


def _amd(lds_kib: int, source: Source) -> tuple[Near, ...]:
    """A compute unit: the local data share, and 512 KiB of vector registers in four SIMD units.

    The bandwidth of the local data share is left open: it differs between instructions.
    """
    return (
        Near(name="L1", capacity_bytes=lds_kib * KIB, source=source),
        Near(name="registers", capacity_bytes=128 * KIB, per_unit=4, source=source),
    )


def _cpu(l2_kib: int, l1_kib: int, source: Source) -> tuple[Near, ...]:
    return (
        Near(name="L2", capacity_bytes=l2_kib * KIB, source=source),
        Near(name="L1", capacity_bytes=l1_kib * KIB, source=source),
    )


#: Part of `Device.architecture` → the near memories, largest first.
NEAR: Final[dict[str, tuple[Near, ...]]] = {
    "sm_70": _nvidia(96),
    "sm_75": _nvidia(64),
    "sm_80": _nvidia(164, _HOPPER),
    "sm_86": _nvidia(100),
    "sm_87": _nvidia(164),
    "sm_89": _nvidia(100),
    "sm_90": _nvidia(228, _HOPPER),
    "sm_100": _nvidia(228, _BLACKWELL),
    "sm_120": _nvidia(100),  # 100 KB was seen in secondary text only
    "gfx908": _amd(64, _OLDER_CDNA),
    "gfx90a": _amd(64, _OLDER_CDNA),
    "gfx942": _amd(64, _CDNA),
    "gfx950": _amd(160, _CDNA),
    "Zen 4": _cpu(1024, 32, _ZEN),
    "Zen 5": _cpu(1024, 48, _ZEN),
    "Sapphire Rapids": _cpu(2048, 48, _SAPPHIRE),
    "Granite Rapids": _cpu(2048, 48, _GRANITE),
    "Neoverse V1": _cpu(1024, 64, _ARM),
    "Neoverse V2": _cpu(2048, 64, _GRAVITON),
    "Neoverse N1": _cpu(1024, 64, _GRAVITON),
    "Cortex-A76": _cpu(512, 64, _ARM),
}

#: Caches whose published capacity is the sum of several: part of the architecture and name of the
#: level → bytes of one instance (AMD: one L2 per compute die, one L3 per core die).
PARTS: Final[dict[tuple[str, str], int]] = {
    ("gfx942", "L2"): 4096 * KIB,
    ("gfx950", "L2"): 4096 * KIB,
    ("gfx90a, 2 GCD", "L2"): 8192 * KIB,
    ("Zen 4", "LLC"): 32768 * KIB,
    ("Zen 5", "LLC"): 32768 * KIB,
}


def near_of(architecture: str) -> tuple[Near, ...]:
    """The near memories of an architecture, largest first; empty when they are not known."""
    return next((found for part, found in NEAR.items() if _named(part, architecture)), ())


def part_bytes(architecture: str, level: str) -> int | None:
    """Bytes of one instance of a level that is a sum; None where it is one memory."""
    return next(
        (size for (part, name), size in PARTS.items() if name == level and part in architecture),
        None,
    )


def _named(part: str, architecture: str) -> bool:
    """Whether the architecture names the part as a word: sm_10 is not in sm_100."""
    at = architecture.find(part)
    return at >= 0 and not architecture[at + len(part) :][:1].isalnum()
