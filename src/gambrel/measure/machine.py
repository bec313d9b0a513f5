"""What the operating system says about this machine: caches, processors, memory, load."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CPU_ROOT: Final = Path("/sys/devices/system/cpu")
#: Processes per processor above which something else is running beside what is measured.
_BUSY: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """One level of data cache.

    Attributes:
        level: 1 is nearest to the core.
        size_bytes: Of one instance.
        sharers: Processors of this machine that share an instance.
    """

    level: int
    size_bytes: int
    sharers: int

    @property
    def name(self) -> str:
        """``L1``, ``L2``, ..."""
        return f"L{self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMachine:
    """This machine.

    Attributes:
        name: Of the processor, as it calls itself.
        vendor: Its maker, empty where unknown.
        cpus: One processor of each physical core that this process may use.
        caches: Data caches, nearest first; empty where the system does not say.
        memory_bytes: Main memory that is installed; None where unknown.
        available_bytes: Main memory that is free to use now; None where unknown.
    """

    name: str
    vendor: str
    cpus: tuple[int, ...]
    caches: tuple[Cache, ...]
    memory_bytes: int | None
    available_bytes: int | None

    @property
    def id(self) -> str:
        """A short name made of the processor's, e.g. ``"this-intel-xeon-processor"``."""
        words = re.sub(r"\((r|tm)\)", "", self.name.lower())
        return "this-" + re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def this_machine(root: Path = _CPU_ROOT) -> HostMachine:
    """Reads what the system says; what it does not say is unknown.

    Args:
        root: Where the system describes its processors.
    """
    cpus = _one_a_core(root, _allowed())
    info = _key_values(Path("/proc/cpuinfo"))
    memory = _key_values(Path("/proc/meminfo"))
    name = info.get("model name") or platform.processor() or platform.machine()
    vendors = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}
    return HostMachine(
        name=" ".join(name.split()) or "unknown processor",
        vendor=vendors.get(info.get("vendor_id", ""), ""),
        cpus=cpus,
        caches=tuple(_caches(root / f"cpu{cpus[0]}" / "cache")),
        memory_bytes=_kilobytes(memory.get("MemTotal")),
        available_bytes=_kilobytes(memory.get("MemAvailable")),
    )


def load() -> float | None:
    """Processes that want to run, the mean of the last minute; None where unknown."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows has none
        return None


def busy() -> float | None:
    """Processes that want to run per processor, where they are more than one's own; else None."""
    running = (load() or 0.0) / len(_allowed())
    return running if running > _BUSY else None


def crowding() -> float:
    """How much longer a run may take because of other processes: 1 where there are none."""
    others = max(0.0, (load() or 0.0) - 1)
    return 1 + others / len(_allowed())


def stolen_s() -> float | None:
    """Seconds, over all processors since boot, that a hypervisor gave to others; None: unknown."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
        return int(fields[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def scheduled(thread: Path) -> tuple[float, float] | None:
    """Seconds that a thread had on a processor, and that it waited for one; None: unknown.

    Args:
        thread: Its folder, e.g. ``/proc/thread-self``.
    """
    try:
        used, waited, _ = (thread / "schedstat").read_text("ascii").split()
        return int(used) * 1e-9, int(waited) * 1e-9
    except (OSError, ValueError):
        return None


def _allowed() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _one_a_core(root: Path, allowed: list[int]) -> tuple[int, ...]:
    """Hyper-threads share their core's units: one of each core is enough, and disturbs least."""
    chosen, seen = [], set()
    for cpu in allowed:
        core = text_of(root / f"cpu{cpu}" / "topology" / "thread_siblings_list") or str(cpu)
        if core not in seen:
            seen.add(core)
            chosen.append(cpu)
    return tuple(chosen)


def _caches(folder: Path) -> Iterator[Cache]:
    found = []
    for index in sorted(folder.glob("index*")) if folder.is_dir() else ():
        kind, size = text_of(index / "type"), re.match(r"(\d+)K$", text_of(index / "size"))
        level = text_of(index / "level")
        if kind in {"Data", "Unified"} and size and level.isdigit():
            sharers = len(_cpu_list(text_of(index / "shared_cpu_list"))) or 1
            found.append(Cache(level=int(level), size_bytes=int(size[1]) * 1024, sharers=sharers))
    yield from sorted(found, key=lambda cache: cache.level)


def _cpu_list(text: str) -> list[int]:
    """``"0-2,8"`` → [0, 1, 2, 8]."""
    cpus: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def text_of(path: Path) -> str:
    """What a file of the system says; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _key_values(path: Path) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in text_of(path).splitlines():
        key, colon, value = line.partition(":")
        if colon:
            pairs.setdefault(key.strip(), value.strip())
    return pairs


def _kilobytes(text: str | None) -> int | None:
    found = re.match(r"(\d+) kB", text or "")
    return int(found[1]) * 1024 if found else None
