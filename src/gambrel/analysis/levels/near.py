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

_CUDA: Final = Source(
    title="CUDA C++ Programming Guide, Technical Specifications per Compute Capability",
    url="https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
    date="2025",
    confidence="primary",
)
_ROCM: Final = Source(
    title="AMD GPU specifications",
    url="https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html",
    date="2026",
    confidence="primary",
)


def _core(title: str, url: str) -> Source:
    return Source(title=title, url=url, confidence="primary")


_ZEN: Final = _core(
    "AMD EPYC processor architecture white papers (4th and 5th generation)",
    "https://www.amd.com/en/products/processors/server/epyc.html",
)
_INTEL: Final = _core(
    "Intel 64 and IA-32 Architectures Optimization Reference Manual",
    "https://www.intel.com/content/www/us/en/developer/articles/technical/intel-sdm.html",
)
_ARM: Final = _core("Arm core technical reference manual", "https://developer.arm.com")


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


def _nvidia(shared_kib: int) -> tuple[Near, ...]:
    """A multiprocessor: shared memory, and 64 Ki registers of 32 bits in four partitions.

    Shared memory has 32 banks of 4 bytes: 128 bytes a clock.
    """
    return (
        Near(name="L1", capacity_bytes=shared_kib * KIB, byte_per_clock=128, source=_CUDA),
        Near(name="registers", capacity_bytes=64 * KIB, per_unit=4, source=_CUDA),
    )


def _amd(lds_kib: int) -> tuple[Near, ...]:
    """A compute unit: the local data share, and 512 KiB of vector registers in four SIMD units.

    The bandwidth of the local data share is left open: it differs between instructions.
    """
    return (
        Near(name="L1", capacity_bytes=lds_kib * KIB, source=_ROCM),
        Near(name="registers", capacity_bytes=128 * KIB, per_unit=4, source=_ROCM),
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
    "sm_80": _nvidia(164),
    "sm_86": _nvidia(100),
    "sm_87": _nvidia(164),
    "sm_89": _nvidia(100),
    "sm_90": _nvidia(228),
    "sm_100": _nvidia(228),
    "sm_120": _nvidia(100),
    "gfx908": _amd(64),
    "gfx90a": _amd(64),
    "gfx942": _amd(64),
    "gfx950": _amd(160),
    "Zen 4": _cpu(1024, 32, _ZEN),
    "Zen 5": _cpu(1024, 48, _ZEN),
    "Sapphire Rapids": _cpu(2048, 48, _INTEL),
    "Granite Rapids": _cpu(2048, 48, _INTEL),
    "Neoverse V1": _cpu(1024, 64, _ARM),
    "Neoverse V2": _cpu(2048, 64, _ARM),
    "Neoverse N1": _cpu(1024, 64, _ARM),
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
