"""Which counters this machine has for FLOP and for bytes of main memory.

FLOP: on Intel ``FP_ARITH_INST_RETIRED`` (event 0xC7), one mask a width and format; a fused
multiply-add counts twice, so instructions times lanes are FLOP (Intel 64 and IA-32 Architectures
Software Developer's Manual, volume 3B, and github.com/intel/perfmon). AMX tiles are not in it. On
AMD Zen ``Retired SSE/AVX FLOPs`` (PMCx003), which counts FLOP, a multiply-add as two (Processor
Programming Reference for family 19h and 1Ah).

Bytes: counters of the memory controllers as the kernel lists them (``uncore_imc_*`` with
``cas_count_read`` and ``cas_count_write``), for the whole machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gambrel.measure.machine import text_of

SOURCES: Final = Path("/sys/bus/event_source/devices")
PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
CPUINFO: Final = Path("/proc/cpuinfo")

#: Mask of FP_ARITH_INST_RETIRED → FLOP of one instruction.
_INTEL: Final = {
    0x01: 1,  # scalar double
    0x02: 1,  # scalar single
    0x04: 2,  # 128 bits of double
    0x08: 4,
    0x10: 4,  # 256 bits of double
    0x20: 8,
    0x40: 8,  # 512 bits of double
    0x80: 16,
}
_INTEL_EVENT: Final = 0xC7
#: PMCx003 with all of add, multiply, divide and multiply-accumulate.
_AMD_CONFIG: Final = 0x0F03


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterEvent:
    """One counter.

    Attributes:
        name: For messages.
        kind: Number of its source, as the kernel gave it.
        config: Which event of the source.
        factor: What one count is worth: FLOP or bytes.
        cpu: Of the processor to count on, for a source that counts the whole machine; None counts
            the threads of this process.
    """

    name: str
    kind: int
    config: int
    factor: float
    cpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """Why something cannot be counted.

    Attributes:
        what: ``FLOP`` or ``bytes``.
        reason: What is missing, and what would help.
    """

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


def find(
    sources: Path = SOURCES, cpuinfo: Path = CPUINFO, paranoid: Path = PARANOID
) -> tuple[tuple[CounterEvent, ...], tuple[CounterEvent, ...], tuple[Unavailable, ...]]:
    """Counters for FLOP, counters for bytes, and what is missing.

    Args:
        sources: Folder in which the kernel lists its sources of events.
        cpuinfo: What the processor is.
        paranoid: What the kernel allows.
    """
    if not sources.is_dir():
        reason = f"no {sources}: perf events are a facility of Linux"
        return (), (), (Unavailable(what="FLOP and bytes", reason=reason),)
    missing: list[Unavailable] = []
    flops = _flop_events(sources, cpuinfo)
    if isinstance(flops, str):
        missing.append(Unavailable(what="FLOP", reason=flops))
    traffic = _byte_events(sources, paranoid)
    if isinstance(traffic, str):
        missing.append(Unavailable(what="bytes", reason=traffic))
    return (
        () if isinstance(flops, str) else flops,
        () if isinstance(traffic, str) else traffic,
        tuple(missing),
    )


def _flop_events(sources: Path, cpuinfo: Path) -> tuple[CounterEvent, ...] | str:
    kind = _number(sources / "cpu" / "type") or _number(sources / "cpu_core" / "type")
    text = text_of(cpuinfo)
    if kind is None:
        guest = " (a virtual machine: the hypervisor shows none)" if "hypervisor" in text else ""
        return f"the kernel lists no performance-monitoring unit of the processor{guest}"
    if "GenuineIntel" in text:
        return tuple(
            CounterEvent(
                name=f"fp_arith_inst_retired {mask:#04x}",
                kind=kind,
                config=_INTEL_EVENT | mask << 8,
                factor=worth,
            )
            for mask, worth in _INTEL.items()
        )
    if "AuthenticAMD" in text:
        name = "retired SSE and AVX FLOP"
        return (CounterEvent(name=name, kind=kind, config=_AMD_CONFIG, factor=1.0),)
    return "no counter of FLOP is known for this processor (known: Intel, AMD Zen)"


def _byte_events(sources: Path, paranoid: Path) -> tuple[CounterEvent, ...] | str:
    boxes = sorted(p for p in sources.iterdir() if p.name.startswith("uncore_imc"))
    found = tuple(event for box in boxes for event in _box(box))
    if not found:
        return "the kernel lists no counters of memory controllers (uncore_imc)"
    level = _number(paranoid)
    if level is not None and level > 0 and not _privileged():
        return (
            f"counting the whole machine needs perf_event_paranoid 0 or less, and it is {level}: "
            "sysctl kernel.perf_event_paranoid=0"
        )
    return found


def _box(box: Path) -> Iterator[CounterEvent]:
    kind = _number(box / "type")
    cpus = re.match(r"\d+", text_of(box / "cpumask"))
    if kind is None or cpus is None:
        return
    for name in ("cas_count_read", "cas_count_write"):
        fields = dict(re.findall(r"(event|umask)=(0x[0-9a-f]+)", text_of(box / "events" / name)))
        if "event" not in fields:
            continue
        config = int(fields["event"], 16) | int(fields.get("umask", "0x0"), 16) << 8
        yield CounterEvent(
            name=f"{box.name} {name}",
            kind=kind,
            config=config,
            factor=64.0,  # a column access moves a cache line
            cpu=int(cpus.group(0)),
        )


def _privileged() -> bool:
    import os

    return hasattr(os, "geteuid") and os.geteuid() == 0


def _number(path: Path) -> int | None:
    try:
        return int(text_of(path))
    except ValueError:
        return None
